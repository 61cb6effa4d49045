"""Changes of the list of API keys. Pure, except for the random secret."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import attrs

from ...actors.access.principal import KEY_PREFIX
from .key_file import StoredKey, digest_of
from .principal_names import KEY_MARK, MAX_SUBJECT, is_key_name, is_subject

MAX_LIVE = 2
"""Live keys of one name: the old one and the new one during a rotation."""
ID_BYTES = 6
SECRET_BYTES = 24


class ChangeRefused(Exception):
    """The list stays as it is; the text says why."""


def new_key(
    keys: Sequence[StoredKey],
    name: str,
    roles: tuple[str, ...],
    subject: str | None,
    *,
    now: float,
    expires: float | None = None,
) -> tuple[StoredKey, str]:
    """A further key for the list, and its text, which is not stored. Raises `ChangeRefused`."""
    if not is_key_name(name):
        raise ChangeRefused("a name has 1 to 64 characters: letters, digits, and any of _ . @ -")
    if subject is not None and not is_subject(subject):
        raise ChangeRefused(
            f"a subject has 1 to {MAX_SUBJECT} printable characters, and does not begin with {KEY_PREFIX}"
        )
    live = [key for key in keys if key.name == name and key.is_live(now)]
    if len(live) >= MAX_LIVE:
        ids = " and ".join(key.id for key in live)
        raise ChangeRefused(f"{name} already has {MAX_LIVE} keys, {ids}; revoke one of them first")
    id = secrets.token_hex(ID_BYTES)
    text = f"{KEY_MARK}{id}_{secrets.token_hex(SECRET_BYTES)}"
    key = StoredKey(
        id=id,
        name=name,
        digest=digest_of(text),
        roles=roles,
        subject=subject,
        created=now,
        expires=expires,
    )
    return key, text


def revoked(keys: Sequence[StoredKey], id_or_name: str, *, now: float) -> list[StoredKey]:
    """The list, with the live key of this id or all live keys of this name revoked.

    Raises `ChangeRefused`.
    """
    live = [key for key in keys if id_or_name in (key.id, key.name) and key.is_live(now)]
    if not live:
        raise ChangeRefused(f"no live key has the id or name {id_or_name}")
    return [attrs.evolve(key, revoked=now) if key in live else key for key in keys]
