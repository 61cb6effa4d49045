"""API keys as the server sees them: looked up by id, compared by digest, and current without a restart."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from hmac import compare_digest

import attrs
import trio

from ...actors.access.principal import KEY_PREFIX, Grants, Principal, granted
from ...runtime.clock import WallClock, system_clock
from ..http.identity import Identity, Lifetime
from .key_file import KeyFile, KeyFileError, StoredKey, digest_of
from .verifiers import Unverified

log = logging.getLogger(__name__)

POLL_EVERY = 0.5
"""Seconds between two polls of the file."""
_KEY = re.compile(r"sg_([a-z0-9]{1,32})_[A-Za-z0-9]{27,86}")
"""Secrets of at least 160 bits; `new_key` makes the current form."""
_NO_DIGEST = "0" * 64


@attrs.frozen(eq=False)
class _LiveKey:
    stored: StoredKey
    identity: Identity


@attrs.define(eq=False)
class ApiKeys:
    """The keys of a file, or those that `replace` was given last. Call `poll` before the first use of a file;
    `watch` keeps the keys current."""

    file: KeyFile | None
    grants: Grants
    wall_clock: WallClock = system_clock
    _live: Mapping[str, _LiveKey] = attrs.field(factory=dict)
    """By id."""
    _seen: object = ()
    """The state of the file when it was last read, or why it could not be read."""

    def verify(self, text: str) -> Identity:
        """The identity of a key, without a token for tools. Raises `Unverified`, after the same work for each
        kind of invalid key."""
        match = _KEY.fullmatch(text)
        key = self._live.get(match[1]) if match else None
        is_equal = compare_digest(digest_of(text), _NO_DIGEST if key is None else key.stored.digest)
        if key is None or not is_equal or not key.stored.is_live(self.wall_clock()):
            raise Unverified("it is no valid API key")
        return key.identity

    def is_live(self, id: str) -> bool:
        """Whether the key with this id is valid."""
        key = self._live.get(id)
        return key is not None and key.stored.is_live(self.wall_clock())

    def lifetime(self, id: str) -> Lifetime | None:
        """The lifetime of the key with this id; None if it is not valid."""
        key = self._live.get(id)
        return key.identity.lifetime if key is not None and self.is_live(id) else None

    async def watch(self) -> None:
        """Follow the file until cancelled."""
        while True:
            await trio.sleep(POLL_EVERY)
            self.poll()

    def poll(self) -> None:
        """Read the file if it has changed. The lifetimes of keys that are no longer valid end.

        If the file cannot be read, no key is valid.
        """
        if self.file is None:
            return
        state: object
        try:
            state = self.file.state()
            if state == self._seen:
                return
            stored = self.file.read()
        except (KeyFileError, OSError) as error:
            state, stored = str(error), ()
            if state != self._seen:
                log.error("all API keys are refused: %s", error)
        self._seen = state
        self.replace(stored)

    def replace(self, stored: tuple[StoredKey, ...]) -> None:
        """Take over all keys. The lifetimes of those that are no longer valid end."""
        now = self.wall_clock()
        before, live = self._live, dict[str, _LiveKey]()
        for key in stored:
            if key.is_live(now):
                old = before.get(key.id)
                live[key.id] = old if old and old.stored == key else _LiveKey(key, self._identity(key, now))
        self._live = live
        for id, old in before.items():
            if live.get(id) is not old:
                old.identity.lifetime.revoked.set()

    def _identity(self, key: StoredKey, now: float) -> Identity:
        if unknown := sorted(set(key.roles) - self.grants.keys()):
            log.warning("the API key %s has roles that do not exist: %s", key.id, ", ".join(unknown))
        principal = Principal(
            id=f"{KEY_PREFIX}{key.name}" if key.subject is None else key.subject,
            grants=granted(key.roles, self.grants),
            credential=key.id,
            is_person=key.subject is not None,
        )
        expires = None if key.expires is None else trio.current_time() + key.expires - now
        return Identity(principal, lifetime=Lifetime(expires))
