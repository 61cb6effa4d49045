"""Notes: their stored texts, and the revisions of stores with one process. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from .. import json_text
from .errors import NoteTooLong
from .protocol import LONGEST_NOTE, Json


def texts(notes: Mapping[str, Json]) -> Mapping[str, str]:
    """Return bodies by key, both as the text to store. Raises `NoteTooLong`."""
    found = {json_text.dump(key): json_text.dump(body) for key, body in notes.items()}
    for key, body in found.items():
        if max(len(key), len(body)) > LONGEST_NOTE:
            raise NoteTooLong(f"the note {key[:100]} is longer than {LONGEST_NOTE} characters")
    return found


def parsed(rows: Iterable[tuple[str, str]]) -> Mapping[str, Json | None]:
    """Parse stored notes. A damaged body becomes None; a note with a damaged key is left out."""
    read = ((_value(key), _value(body)) for key, body in rows)
    return {key: body if isinstance(body, dict) else None for key, body in read if isinstance(key, str)}


def _value(text: str) -> object:
    try:
        return json_text.load(text)
    except ValueError:
        return None


class Revisions:
    """The revisions of notes, for stores with one process.

    A number is chosen when a write begins, and can be seen by others when its commit has ended.
    """

    def __init__(self) -> None:
        self._begun: dict[str, int] = {}
        self._seen: dict[str, int] = {}
        self._by_key: defaultdict[str, dict[str, int]] = defaultdict(dict)

    def begin(self, kind: str, at: int | None = None) -> int:
        """The number of the next revision; 0 if the kind is no longer `at` this one."""
        latest = self._begun.get(kind, 0)
        if at is not None and at != latest:
            return 0
        self._begun[kind] = latest + 1
        return latest + 1

    def end(self, kind: str, number: int, keys: Iterable[str]) -> None:
        """The write of the revision has been committed."""
        self._seen[kind] = max(number, self._seen.get(kind, 0))
        self._by_key[kind].update(dict.fromkeys(keys, number))

    def deleted(self, kind: str, key: str) -> None:
        self._by_key[kind].pop(key, None)

    def latest(self) -> Mapping[str, int]:
        return dict(self._seen)

    def since(self, kind: str, after: int, found: Mapping[str, Json | None]) -> Mapping[str, Json | None]:
        """Those of the notes that have changed since a revision."""
        if after == 0:
            return found
        changes = self._by_key[kind]
        return {key: body for key, body in found.items() if changes.get(key, 0) > after}
