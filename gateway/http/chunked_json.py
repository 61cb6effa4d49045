"""Encode a long JSON body in parts, each in bounded time. Pure.

`Many` marks a long list in a body; `Parted` marks the objects that may contain one. `parts` splits a body at
these lists. Their items become views, and text, only when their part is due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from ...runtime.json_text import dump_wire

S = TypeVar("S")
T = TypeVar("T")

PART_ITEMS = 64
"""Maximum number of list items in one part."""
PART_SIZE = 2**16
"""Maximum number of characters in one part; a longer item has a part of its own."""


class Many(Sequence[T]):
    """A long list of views, each made when it is encoded."""

    def __init__(self, items: Sequence[S], view: Callable[[S], T], size: Callable[[S], int]) -> None:
        """`size` estimates the characters of an item."""
        self._items: Sequence[Any] = items
        self._view: Callable[[Any], T] = view
        self._size: Callable[[Any], int] = size

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        return self._view(self._items[index])

    def to_json(self) -> list[T]:
        return list(self)

    def batches(self) -> Iterator[list[T]]:
        """The views, in lists that are small enough for one part each."""
        begin = size = 0
        for end, item in enumerate(self._items):
            more = self._size(item)
            if end > begin and (end - begin >= PART_ITEMS or size + more > PART_SIZE):
                yield [self._view(each) for each in self._items[begin:end]]
                begin, size = end, 0
            size += more
        yield [self._view(each) for each in self._items[begin:]]


def listed(items: Sequence[S], view: Callable[[S], T], size: Callable[[S], int]) -> Sequence[T]:
    """The views of all items, made now if the list is short, else lazily."""
    if len(items) > PART_ITEMS or sum(map(size, items)) > PART_SIZE:
        return Many(items, view, size)
    return [view(item) for item in items]


class Parted:
    """An object that may contain a `Many`."""

    def to_json(self) -> dict[str, Any]:
        raise NotImplementedError

    @property
    def is_long(self) -> bool:
        return Many in map(type, vars(self).values())


def _is_long(value: object) -> bool:
    return isinstance(value, Parted) and value.is_long


def parts(value: object) -> Iterator[bytes]:
    """Encode the value in parts, which together are the text that `dump_wire` makes."""
    if isinstance(value, Many):
        opening = b"["
        for batch in value.batches():
            if any(map(_is_long, batch)):
                for view in batch:
                    yield opening
                    yield from parts(view)
                    opening = b","
            else:
                yield opening
                yield dump_wire(batch)[1:-1]
                opening = b","
        yield b"]"
    elif isinstance(value, Parted) and value.is_long:
        opening = b"{"
        for key, item in value.to_json().items():
            yield opening + dump_wire(key) + b":"
            yield from parts(item)
            opening = b","
        yield b"}"
    else:
        yield dump_wire(value)
