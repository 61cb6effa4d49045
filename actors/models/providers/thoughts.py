"""What a model thought, put together again out of its pieces: there may be a hundred thousand. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, takewhile
from typing import Any

_TEXTS = {"text", "summary", "data"}


def joined(pieces: Sequence[Any]) -> Any:
    """The whole: a text goes on, and so does the last entry of a list; else what comes later counts."""
    last = pieces[-1]
    if not isinstance(last, str | list):
        return last
    kind = str if isinstance(last, str) else list
    alike = list(takewhile(lambda piece: isinstance(piece, kind), reversed(pieces)))
    alike.reverse()
    return "".join(alike) if kind is str else _entries(alike)


def _entries(lists: Sequence[list[Any]]) -> list[Any]:
    found = list(lists[0])
    texts: dict[str, list[str]] = {}
    """Of the last entry, in pieces, once it has gone on."""
    for entry in chain.from_iterable(lists[1:]):
        if not found or not _goes_on(found[-1], entry):
            _complete(found, texts)
            found.append(entry)
            texts = {}
            continue
        last = found[-1]
        if not texts:
            texts = {key: [last[key]] for key in _TEXTS if key in last}
        for key in _TEXTS & entry.keys():
            texts.setdefault(key, []).append(entry[key])
        found[-1] = {**last, **{key: value for key, value in entry.items() if value is not None}}
    _complete(found, texts)
    return found


def _complete(found: list[Any], texts: Mapping[str, list[str]]) -> None:
    """Put the texts of the last entry into it."""
    if texts:
        found[-1] = {**found[-1], **{key: "".join(pieces) for key, pieces in texts.items()}}


def _goes_on(last: Any, entry: Any) -> bool:
    if not isinstance(last, dict) or not isinstance(entry, dict):
        return False
    alike = last.get("type") == entry.get("type") and last.get("index") == entry.get("index")
    return alike and all(isinstance(each.get(key, ""), str) for key in _TEXTS for each in (last, entry))
