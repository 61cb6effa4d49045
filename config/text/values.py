"""Values of a file, with their positions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias, TypeVar

import attrs

from .interpolate import escape

T = TypeVar("T")
Plain: TypeAlias = str | int | float | bool | None


@attrs.frozen
class Mark:
    """A position in the file; line and column count from 1."""

    line: int
    column: int


@attrs.frozen
class Scalar:
    value: Plain
    mark: Mark | None = None
    written: str | None = attrs.field(default=None, eq=False)
    """For a boolean, the text in the file."""


@attrs.frozen
class Sequence:
    items: tuple[Value, ...]
    mark: Mark | None = None


@attrs.frozen
class Table:
    """A YAML mapping."""

    entries: Mapping[str, Value]
    mark: Mark | None = None
    key_marks: Mapping[str, Mark] = attrs.field(factory=dict)

    def with_entries(self, entries: Mapping[str, Value]) -> Table:
        return attrs.evolve(self, entries={**self.entries, **entries})


@attrs.frozen
class Invalid:
    """A value that could not be read, and has been reported."""

    mark: Mark | None = None


Value: TypeAlias = Scalar | Sequence | Table | Invalid


def as_list(named: Table) -> Sequence:
    """The list form of a mapping by name: tables that each have a `name`."""
    items = []
    for key, item in named.entries.items():
        name = Scalar(escape(key), named.key_marks.get(key))
        items.append(item.with_entries({"name": name}) if isinstance(item, Table) else item)
    return Sequence(tuple(items), named.mark)


KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys and indexes from the root to a value."""


def dotted(path: KeyPath) -> str:
    """`("mcp_servers", 0, "url")` is `mcp_servers[0].url`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{shortened(step)}"
    return text.removeprefix(".")


def plain(value: Value) -> object:
    """The value as plain JSON, without marks."""
    match value:
        case Scalar():
            return value.value
        case Sequence():
            return [plain(item) for item in value.items]
        case Table():
            return {key: plain(item) for key, item in value.entries.items()}
        case Invalid():
            return None


def from_plain(data: object) -> Value:
    """A value without marks, from plain JSON. Raises TypeError for other data."""
    if data is None or isinstance(data, str | int | float | bool):
        return Scalar(data)
    if isinstance(data, Mapping):
        return Table({str(key): from_plain(item) for key, item in data.items()})
    if isinstance(data, list | tuple):
        return Sequence(tuple(from_plain(item) for item in data))
    raise TypeError(f"a {type(data).__name__} is not plain JSON")


def shortened(text: str) -> str:
    """A text of the file for an error message: on one line, at most 40 characters."""
    shown = text if len(text) <= 40 else f"{text[:39]}…"
    return "".join(char if char.isprintable() else "?" for char in shown)


def quoted(text: str) -> str:
    """Like `shortened`, in quotes."""
    return f'"{shortened(text)}"'


def entry(written: Value | None, key: str) -> Value | None:
    """The value of a key; None if the key is missing or `written` is not a mapping."""
    return written.entries.get(key) if isinstance(written, Table) else None


def items(written: Value | None) -> tuple[Value, ...]:
    """The items of a list; empty for other values."""
    return written.items if isinstance(written, Sequence) else ()


def entries(written: Value | None) -> Mapping[str, Value]:
    """The entries of a mapping; empty for other values."""
    return written.entries if isinstance(written, Table) else {}


def mark_of(written: Value | None) -> Mark | None:
    """The position of a value that may be missing."""
    return None if written is None else written.mark


def placed(
    read: Iterable[T], written: Value | None, path: KeyPath, key: str
) -> Iterator[tuple[T, Value, KeyPath]]:
    """What was read from the list at a key, each item with its value in the file and its path. `path` is that
    of `written`, which has the key."""
    for index, (item, at) in enumerate(zip(read, items(entry(written, key)), strict=True)):
        yield item, at, (*path, key, index)


def is_blank(value: Value) -> bool:
    """Whether the value is null or an empty text."""
    return isinstance(value, Scalar) and value.value in (None, "")
