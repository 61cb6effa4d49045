"""Encode a long JSON body in parts, each in bounded time. Pure.

`Many` marks a long list in a body; `Parted` marks the objects that may contain one. `parts` splits a body at
these lists. Their items become views, and text, only when their part is due. The text of parts of a list that
has only grown since it was last sent may be kept (`KeptParts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import is_
from typing import Any, TypeVar

import attrs

from ...runtime.json_text import dump_wire

S = TypeVar("S")
T = TypeVar("T")

PART_ITEMS = 64
"""Maximum number of list items in one part."""
PART_SIZE = 2**16
"""Maximum number of characters in one part; a longer item has a part of its own."""
PER_ITEM = 16
"""Bytes that remember an item of a kept part."""


class Many(Sequence[T]):
    """A long list of views, each made when it is encoded."""

    def __init__(
        self,
        items: Sequence[S],
        view: Callable[[S], T],
        size: Callable[[S], int],
        kept: KeptParts | None = None,
    ) -> None:
        """`size` estimates the characters of an item. With `kept`, no view may contain a `Many`."""
        self._items: Sequence[Any] = items
        self._kept = kept
        self._view: Callable[[Any], T] = view
        self._size: Callable[[Any], int] = size

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        return self._view(self._items[index])

    def to_json(self) -> list[T]:
        return list(self)

    @property
    def is_kept(self) -> bool:
        return self._kept is not None

    def batches(self, begin: int = 0) -> Iterator[list[T]]:
        """The views from `begin` on, in lists that are small enough for one part each."""
        size = 0
        for end, item in enumerate(self._items[begin:], begin):
            more = self._size(item)
            if end > begin and (end - begin >= PART_ITEMS or size + more > PART_SIZE):
                yield [self._view(each) for each in self._items[begin:end]]
                begin, size = end, 0
            size += more
        yield [self._view(each) for each in self._items[begin:]]

    def kept_parts(self) -> Iterator[bytes]:
        """The text of the items in parts, of which those that are kept are not written again. All but the
        last one are kept, since it may grow."""
        assert self._kept is not None
        begin, known = self._kept.known(self._items)
        yield from known
        written, length = b"", 0
        for batch in self.batches(begin):
            if length:
                self._kept.add(begin, self._items[begin : begin + length], written)
                yield written
            begin, length = begin + length, len(batch)
            written = dump_wire(batch)[1:-1]
        yield from (written,) if length else ()


@attrs.define(eq=False)
class KeptParts:
    """The text of the first parts of a list, of which the first items stay the same objects. Several answers
    may use it at the same time."""

    _grown: Callable[[KeptParts], None]
    """Is told of each further part."""
    _parts: list[tuple[Sequence[Any], bytes]] = attrs.field(factory=list)
    """Items and their text."""
    _count: int = 0
    """Items of all parts."""
    size: int = 0
    """Bytes in memory, estimated."""

    def known(self, items: Sequence[Any]) -> tuple[int, Sequence[bytes]]:
        """The text of the first items, and their number. The text of items that have changed since, and of
        those after them, is forgotten."""
        count = 0
        for index, (before, _) in enumerate(self._parts):
            now = items[count : count + len(before)]
            if len(now) < len(before) or not all(map(is_, now, before)):
                del self._parts[index:]
                break
            count += len(before)
        self._count = count
        return count, tuple(text for _, text in self._parts)

    def add(self, begin: int, items: Sequence[Any], text: bytes) -> None:
        """Keep the text of the items at `begin`, unless another answer has added these or others."""
        if begin == self._count:
            self._parts.append((items, text))
            self._count += len(items)
            self.size = sum(len(text) + PER_ITEM * len(items) for items, text in self._parts)
            self._grown(self)


def listed(
    items: Sequence[S], view: Callable[[S], T], size: Callable[[S], int], kept: KeptParts | None = None
) -> Sequence[T]:
    """The views of all items, made now if the list is short, else lazily."""
    if len(items) > PART_ITEMS or sum(map(size, items)) > PART_SIZE:
        return Many(items, view, size, kept)
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
    if isinstance(value, Many) and value.is_kept:
        opening = b"["
        for part in value.kept_parts():
            yield opening + part
            opening = b","
        yield b"]" if value else b"[]"
    elif isinstance(value, Many):
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
