"""JSON for clients; a body that may be long is made in parts, each in a bounded time. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from ...runtime.json_text import dump_wire

S = TypeVar("S")
T = TypeVar("T")

PART_ITEMS = 64
"""Items of a list that are made and encoded in one go."""
PART_SIZE = 2**16
"""Characters in them: an item that is longer is alone in its part."""


class Many(Sequence[T]):
    """A long list of views, which are made when they are encoded."""

    def __init__(self, items: Sequence[S], view: Callable[[S], T], size: Callable[[S], int]) -> None:
        """`size`: about how many characters there are in an item."""
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
        """The views in the portions that may be made in one go."""
        begin = size = 0
        for end, item in enumerate(self._items):
            more = self._size(item)
            if end > begin and (end - begin >= PART_ITEMS or size + more > PART_SIZE):
                yield [self._view(each) for each in self._items[begin:end]]
                begin, size = end, 0
            size += more
        yield [self._view(each) for each in self._items[begin:]]


def listed(items: Sequence[S], view: Callable[[S], T], size: Callable[[S], int]) -> Sequence[T]:
    """The views of all items, which are made now only if that is little work."""
    if len(items) > PART_ITEMS or sum(map(size, items)) > PART_SIZE:
        return Many(items, view, size)
    return [view(item) for item in items]


class Parted:
    """An object that may have a `Many` in it."""

    def to_json(self) -> dict[str, Any]:
        raise NotImplementedError

    @property
    def is_long(self) -> bool:
        return Many in map(type, vars(self).values())


def _is_long(value: object) -> bool:
    return isinstance(value, Parted) and value.is_long


def parts(value: object) -> Iterator[bytes]:
    """The value as `dump_wire` writes it; all parts together are its text."""
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
