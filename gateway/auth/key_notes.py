"""The API keys of an agent whose journal is in a database: notes, one for each key.

They have the digests of the keys, as the file of an agent with a data directory does (`key_file.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from ...actors.common.stored_json import readable, to_json
from ...runtime.journal.followed_notes import FollowedNotes
from ...runtime.journal.protocol import Json, Notes
from .api_keys import ApiKeys
from .key_file import StoredKey

log = logging.getLogger(__name__)

NOTE = "api key"
"""The kind of the notes; their keys are the ids of the API keys."""

T = TypeVar("T")


async def follow_keys(notes: FollowedNotes, keys: ApiKeys) -> None:
    """Take over the keys now, and when they change. Raises `JournalError`."""
    stored: dict[str, StoredKey] = {}

    async def apply(changed: Mapping[str, Json | None]) -> None:
        for id in changed:
            stored.pop(id, None)
        stored.update(_sound(changed))
        keys.replace(tuple(stored.values()))

    await notes.follow(NOTE, apply)


async def read_keys(notes: Notes) -> tuple[StoredKey, ...]:
    """All keys, the oldest first. Raises `JournalError`."""
    found = _sound(await notes.notes(NOTE)).values()
    return tuple(sorted(found, key=lambda key: key.created))


async def change_keys(notes: Notes, change: Callable[[list[StoredKey]], T]) -> T:
    """Change the list of keys. `change` is called again if another program changes it at the same time.

    Raises:
        JournalError, and what `change` raises; the keys are then unchanged.
    """
    while True:
        at = (await notes.note_revisions()).get(NOTE, 0)
        before = await read_keys(notes)
        after = list(before)
        result = change(after)
        changed = {key.id: to_json(key) for key in after if key not in before}
        if await notes.write_notes(NOTE, changed, at=at):
            return result


def _sound(notes: Mapping[str, Json | None]) -> dict[str, StoredKey]:
    found: dict[str, StoredKey] = {}
    for id, body in notes.items():
        key = readable(body, StoredKey)
        if key is not None and key.id == id and key.is_sound:
            found[id] = key
        else:
            log.error("the API key %s is refused: it cannot be read", id)
    return found
