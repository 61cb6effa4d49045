"""Values of a file that know where they stand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from .interpolate import escape

Plain: TypeAlias = str | int | float | bool | None


@attrs.frozen
class Mark:
    """A place in the file; both count from 1."""

    line: int
    column: int


@attrs.frozen
class Scalar:
    value: Plain
    mark: Mark | None = None
    written: str | None = attrs.field(default=None, eq=False)
    """The text in the file, of a boolean."""


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
    """Something that could not be read and was reported already."""

    mark: Mark | None = None


Value: TypeAlias = Scalar | Sequence | Table | Invalid


def as_list(named: Table) -> Sequence:
    """A mapping of names as the list of tables that each have a `name`."""
    items = []
    for key, item in named.entries.items():
        name = Scalar(escape(key), named.key_marks.get(key))
        items.append(item.with_entries({"name": name}) if isinstance(item, Table) else item)
    return Sequence(tuple(items), named.mark)


KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys and indexes that lead to a value."""


def dotted(path: KeyPath) -> str:
    """`("mcp_servers", 0, "url")` is `mcp_servers[0].url`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{shortened(step)}"
    return text.removeprefix(".")


def plain(value: Value) -> object:
    """The value as JSON has it, without marks."""
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
    """A value without marks. Raises TypeError for what is not plain JSON."""
    if data is None or isinstance(data, str | int | float | bool):
        return Scalar(data)
    if isinstance(data, Mapping):
        return Table({str(key): from_plain(item) for key, item in data.items()})
    if isinstance(data, list | tuple):
        return Sequence(tuple(from_plain(item) for item in data))
    raise TypeError(f"a {type(data).__name__} is not plain JSON")


def shortened(text: str) -> str:
    """A text of the file as an error shows it: on one line, and not too long."""
    shown = text if len(text) <= 40 else f"{text[:39]}…"
    return "".join(char if char.isprintable() else "?" for char in shown)


def quoted(text: str) -> str:
    """Like `shortened`, in quotes."""
    return f'"{shortened(text)}"'


def entry(written: Value | None, key: str) -> Value | None:
    """The value of a key; None if there is none, or if this is no mapping."""
    return written.entries.get(key) if isinstance(written, Table) else None


def items(written: Value | None) -> tuple[Value, ...]:
    """The items of a list; none of what is no list."""
    return written.items if isinstance(written, Sequence) else ()


def is_blank(value: Value) -> bool:
    """Whether nothing stands there, or an empty text."""
    return isinstance(value, Scalar) and value.value in (None, "")
