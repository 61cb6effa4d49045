"""JSON for clients; a body that may be long is made in parts, each in a bounded time. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import attrs
import orjson

_ANY = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode(value: object) -> bytes:
    """One line, whatever is in its strings and numbers: half of a surrogate pair is ``?``."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:  # that half, or a whole number of more than 64 bits
        return _ANY.encode(value).encode("utf-8", "replace")


# ----------------------------------------------------------------- in parts

T = TypeVar("T")

PART_ITEMS = 64
"""Items of a list that are looked at in one go."""
PART_SIZE = 2**16
"""Characters in them, or bytes of JSON: what is longer is alone in its part."""


@attrs.frozen
class Long(Generic[T]):
    """Stands in a `Parted` body for a list of the views of these items."""

    items: Sequence[T]
    view: Callable[[T], Mapping[str, Any]]
    size: Callable[[T], int]
    """About how many characters there are in an item."""


Many: TypeAlias = list[Mapping[str, Any]] | Long[T]
"""What stands for a list in a body, be it short or long."""


class Parted(dict[str, Any]):
    """A body in which there are some of `Long`, or others of its kind."""


def listed(items: Sequence[T], view: Callable[[T], Mapping[str, Any]], size: Callable[[T], int]) -> Many[T]:
    """A list in a body that is to go through `parted`."""
    if len(items) > PART_ITEMS or sum(map(size, items)) > PART_SIZE:
        return Long(items, view, size)
    views = [view(item) for item in items]
    return Long(items, view, size) if Parted in map(type, views) else views


def parted(body: dict[str, Any]) -> dict[str, Any]:
    """The body itself when it is short."""
    return body if _LONG.isdisjoint(map(type, body.values())) else Parted(body)


_LONG = frozenset({Long, Parted})


def parts(body: Mapping[str, Any] | Long[Any]) -> Iterator[bytes]:
    """The body as `encode` would have it; all parts together are its text."""
    if isinstance(body, Long):
        yield from _long(body)
    elif isinstance(body, Parted):
        opening = b"{"
        for key, value in body.items():
            yield opening + encode(key) + b":"
            yield from parts(value)
            opening = b","
        yield b"}"
    else:
        yield encode(body)


def _long(many: Long[Any]) -> Iterator[bytes]:
    opening = b"["
    for batch in _batches(many):
        views = [many.view(item) for item in batch]
        if any(isinstance(view, Parted) for view in views):
            for view in views:
                yield opening
                yield from parts(view)
                opening = b","
        else:
            yield opening
            yield encode(views)[1:-1]
            opening = b","
    yield b"]"


def _batches(many: Long[Any]) -> Iterator[Sequence[Any]]:
    begin = size = 0
    for end, item in enumerate(many.items):
        more = many.size(item)
        if end > begin and (end - begin >= PART_ITEMS or size + more > PART_SIZE):
            yield many.items[begin:end]
            begin, size = end, 0
        size += more
    yield many.items[begin:]
