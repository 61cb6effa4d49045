"""Turns values of a file into frozen configuration classes, and collects every mistake."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, TypeAlias, TypeVar, assert_never

import regex

from ..described.fit import misfits
from ..described.shape import (
    PAIR,
    AnyScalar,
    Anything,
    Choice,
    Flag,
    Key,
    ListOf,
    MapOf,
    Number,
    Section,
    Shape,
    Text,
    Variants,
    in_range,
    keys_of,
    mark_of,
    short_for,
    type_word,
    typed,
)
from ..described.wording import (
    OMIT,
    correction,
    describe,
    invisible,
    kind,
    meant,
    nearest,
    one_of,
    section_with,
    shown,
)
from ..sections.agent_config import RENAMED_KEYS
from ..text.errors import Problem
from ..text.interpolate import MalformedReference, Reference, UnsetVariable, fill, parse, whole_reference
from ..text.values import (
    Invalid,
    KeyPath,
    Mark,
    Scalar,
    Sequence,
    Table,
    Value,
    as_list,
    dotted,
    is_blank,
    quoted,
)
from ..text.variables import UnreadableFile, Variables
from .foreign import advice, says_nothing

T = TypeVar("T")


class _Bad:
    """Stands for a value whose problem has been reported."""


_BAD: Final = _Bad()
_INPUT: Final = "an agent asks nobody for input: write ${NAME}, and set the variable NAME"
_LEFT_OUT: Final = object()
"""Stands for a value that counts as omitted."""
Read: TypeAlias = object
"""A value of the requested shape, or `_BAD`."""


class Reader:
    """Reads one file and adds to `problems`. Results are valid only while `problems` is empty."""

    def __init__(
        self,
        file: str,
        variables: Variables,
        data_dir: Path | None = None,
        *,
        references: bool = True,
        may_be_empty: bool = False,
    ) -> None:
        """`references`: whether `${NAME}` in texts stands for a value. `may_be_empty`: whether no content is
        the default, as in trees that older versions stored."""
        self.data_dir = data_dir
        """The value of `${data_dir}`; None until it is known."""
        self.problems: list[Problem] = []
        self._file = file
        self._variables = variables
        self._references = references
        self._may_be_empty = may_be_empty
        self._reported: set[tuple[str, str, Mark]] = set()
        self._top: type | None = None
        self._form_only = False
        """Inside a disabled entry, where a value with an unset variable is not checked."""

    def report(
        self,
        code: str,
        message: str,
        mark: Mark | None,
        path: KeyPath,
        *,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
    ) -> _Bad:
        """Add a problem, unless the same problem has been reported at the same position."""
        if mark is not None:
            if (code, message, mark) in self._reported:
                return _BAD
            self._reported.add((code, message, mark))
        line, column = (mark.line, mark.column) if mark else (None, None)
        self.problems.append(
            Problem(code, message, self._file, line, column, dotted(path), expected, found, hint)
        )
        return _BAD

    def section(self, cls: type[T], value: Value, path: KeyPath) -> T | None:
        """An instance of `cls`; None after a problem."""
        self._top = self._top or cls
        read = self.read(value, Section(cls), path)
        return read if isinstance(read, cls) else None

    def read(self, value: Value, shape: Shape, path: KeyPath) -> Read:
        match value:
            case Invalid():
                return _BAD
            case Scalar():
                return self._scalar(value, shape, path)
            case Sequence():
                return self._sequence(value, shape, path)
            case Table():
                return self._table(value, shape, path)
            case _:
                assert_never(value)

    def text_of(self, value: Value) -> str | None:
        """The text with references expanded; None, without a report, if the value has no such text."""
        if not isinstance(value, Scalar) or not isinstance(value.value, str):
            return None
        try:
            return fill(parse(value.value), self._lookup)
        except (MalformedReference, UnsetVariable, UnreadableFile):
            return None

    # Scalars

    def _scalar(self, value: Scalar, shape: Shape, path: KeyPath) -> Read:
        if isinstance(shape, Section) and value.value is not None and (short := short_for(shape.cls)):
            read = self._scalar(value, short.shape, path)
            return _BAD if read is _BAD else shape.cls(**{short.field: read})
        if not isinstance(value.value, str) or not self._references:
            return self._checked(value.value, shape, value, path, None)
        try:
            parts = parse(value.value)
            text = fill(parts, self._lookup)
        except MalformedReference:
            return self.report(
                "bad_reference",
                "a reference is ${NAME}, ${NAME:-default} or ${file:PATH}, with no reference inside",
                value.mark,
                path,
                hint=_INPUT if "${input:" in value.value else "write $${ for a literal ${",
            )
        except (UnsetVariable, UnreadableFile) as error:
            if self._form_only:
                return value.value if isinstance(shape, Text) else _LEFT_OUT
            return self._missing(error, value.mark, path)
        reference = whole_reference(parts)
        found = typed(text, shape) if reference else text
        return self._checked(found, shape, value, path, reference)

    def _checked(
        self, found: object, shape: Shape, value: Scalar, path: KeyPath, reference: Reference | None
    ) -> Read:
        match shape:
            case Text() if isinstance(found, str):
                return self._text(found, shape, value, path)
            case Number() if isinstance(found, int | float) and not isinstance(found, bool):
                return self._number(found, shape, value, path)
            case Flag() if isinstance(found, bool):
                return found
            case AnyScalar() if found is not None:
                return found
            case Anything() if not isinstance(found, float) or math.isfinite(found):
                return found
            case Choice() if isinstance(found, str):
                if (word := shape.synonyms.get(found, found)) in shape.words:
                    return word
                hint = None if reference else meant(found, shape.words)
                return self._unfit("unknown_word", shape, value, path, hint)
            case _ if reference:
                return self._unfit("wrong_type", shape, value, path)
            case _:
                return self._wrong_type(value, shape, path)

    def _text(self, text: str, shape: Text, value: Scalar, path: KeyPath) -> Read:
        if shape.not_empty and not text:
            return self.report("empty_value", "must not be empty", value.mark, path)
        if shape.pattern is not None and not re.fullmatch(shape.pattern, text):
            return self._unfit("bad_format", shape, value, path)
        return self._expression(text, value, path) if shape.regex else text

    def _number(self, number: float, shape: Number, value: Scalar, path: KeyPath) -> Read:
        if shape.whole and isinstance(number, float) and not number.is_integer():
            return self._wrong_type(value, shape, path)
        if not in_range(number, shape):
            return self._unfit("out_of_range", shape, value, path)
        return int(number) if shape.whole else float(number)

    def _expression(self, text: str, value: Scalar, path: KeyPath) -> Read:
        try:
            regex.compile(text)
        except (regex.error, RecursionError, OverflowError) as error:
            # The message of the engine may quote the text, which may come from a variable.
            at = getattr(error, "pos", None)
            where = f", wrong at character {at + 1}" if at is not None else ""
            expected = "a regular expression"
            message = f"this is not {expected}{where}"
            return self.report("bad_expression", message, value.mark, path, expected=expected)
        return text

    def _lookup(self, name: str) -> str | None:
        if name == "data_dir":
            return None if self.data_dir is None else str(self.data_dir)
        return self._variables.get(name)

    def _missing(self, error: UnsetVariable | UnreadableFile, mark: Mark | None, path: KeyPath) -> _Bad:
        if isinstance(error, UnreadableFile):
            hint = "a relative path is relative to the folder of the configuration file"
            return self.report("file_unreadable", str(error), mark, path, hint=hint)
        if error.name == "data_dir":
            return self.report("variable_unset", "${data_dir} has no value here", mark, path)
        message = f"the environment variable {error.name} is not set"
        hint = f"set it, or write ${{{error.name}:-default}}"
        return self.report("variable_unset", message, mark, path, hint=hint)

    # Collections

    def _sequence(self, value: Sequence, shape: Shape, path: KeyPath) -> Read:
        match shape:
            case ListOf():
                return self._list(value, shape, path)
            case Anything():
                read = self._list(value, ListOf(shape), path)
                return list(read) if isinstance(read, tuple) else read
            case MapOf(pairs=True):
                return self._pairs(value, shape, path)
            case _:
                return self._wrong_type(value, shape, path)

    def _table(self, value: Table, shape: Shape, path: KeyPath) -> Read:
        match shape:
            case ListOf(by_name=True):
                return self._by_name(value, shape, path)
            case MapOf():
                return self._map(value, shape, path)
            case Anything():
                return self._map(value, MapOf(shape), path)
            case Section():
                return self._section(value, shape, path)
            case Variants():
                return self._variant(value, shape, path)
            case _:
                return self._wrong_type(value, shape, path)

    def _list(self, value: Sequence, shape: ListOf, path: KeyPath) -> Read:
        if shape.unique_names:
            self.check_unique(((item, path) for item in value.items), "name")
        items = [self.read(item, shape.item, (*path, index)) for index, item in enumerate(value.items)]
        return _BAD if _BAD in items else tuple(items)

    def _by_name(self, value: Table, shape: ListOf, path: KeyPath) -> Read:
        items = value.entries.values()
        if items and all(isinstance(item, Scalar) and not is_blank(item) for item in items):
            return self._wrong_type(value, shape, path)  # one item of a list, without its dash
        for key, item in value.entries.items():
            if isinstance(item, Table) and "name" in item.entries:
                message = "the key above is already the name"
                self.report("conflicting_keys", message, item.key_marks.get("name"), (*path, key, "name"))
        named = zip(value.entries, as_list(value).items, strict=True)
        read = [self.read(item, shape.item, (*path, key)) for key, item in named]
        return _BAD if _BAD in read else tuple(read)

    def check_unique(self, named: Iterable[tuple[Value, KeyPath]], what: str) -> None:
        """Report every table whose `name` an earlier table has. Each table comes with its path."""
        first: dict[str, Mark | None] = {}
        for value, path in named:
            name = value.entries.get("name") if isinstance(value, Table) else None
            text = self.text_of(name) if name else None
            if not isinstance(name, Scalar) or not text:
                continue
            if text not in first:
                first[text] = name.mark
                continue
            mark = first[text]
            self.report(
                "duplicate_name",
                f"duplicate {what} {quoted(str(name.value))}",
                name.mark,
                path,
                hint=f"first used on line {mark.line}" if mark else None,
            )

    def _map(self, value: Table, shape: MapOf, path: KeyPath) -> Read:
        items = {key: self.read(item, shape.item, (*path, key)) for key, item in value.entries.items()}
        fit = [self._fits(key, shape, value.key_marks.get(key), (*path, key)) for key in items]
        return items if all(fit) and _BAD not in items.values() else _BAD

    def _fits(self, key: str, shape: MapOf, mark: Mark | None, path: KeyPath) -> bool:
        if shape.key.pattern is None or re.fullmatch(shape.key.pattern, key):
            return True
        self.report("bad_format", f"expected {shape.key.meaning} as key", mark, path)
        return False

    def _pairs(self, value: Sequence, shape: MapOf, path: KeyPath) -> Read:
        """Read a list of `KEY=VALUE` texts as a mapping."""
        items: dict[str, Read] = {}
        fit = True
        for index, item in enumerate(value.items):
            at = (*path, index)
            text = self.read(item, PAIR, at)
            if not isinstance(text, str):
                fit = False
                continue
            key, _, content = text.partition("=")
            if key in items:
                self.report("duplicate_key", "the key is in the list twice", item.mark, at)
            fit &= self._fits(key, shape, item.mark, at)
            items[key] = self._checked(content, shape.item, Scalar(text, item.mark), at, None)
        return items if fit and _BAD not in items.values() else _BAD

    def _variant(self, value: Table, shape: Variants, path: KeyPath) -> Read:
        words = tuple(shape.sections)
        word_at = value.entries.get("type", Scalar(None, value.mark))
        match word_at:
            case Scalar(value=str(word)) if word in words:
                return self._section(value, shape.sections[word], path)
            case Scalar(value=None):
                message = f"type is required: {one_of(words)}"
                self.report("missing_key", message, word_at.mark, path, expected=one_of(words))
            case Scalar(value=str(word)):
                message = f"unknown node type {quoted(word)}; expected {one_of(words)}"
                self.report(
                    "unknown_node_type",
                    message,
                    word_at.mark,
                    (*path, "type"),
                    expected=one_of(words),
                    hint=nearest(word, words),
                )
            case _:
                self._wrong_type(word_at, Choice(words), (*path, "type"))
        # The node cannot be read; report the mistakes of the nodes below it all the same.
        children = value.entries.get("agents")
        if isinstance(children, Sequence):
            self._list(children, ListOf(shape), (*path, "agents"))
        return _BAD

    def _section(self, value: Table, shape: Section, path: KeyPath) -> Read:
        cls = shape.cls
        keys = keys_of(cls)
        known = ("type", *keys) if type_word(cls) else tuple(keys)
        for name in value.entries:
            if name not in known and not says_nothing(cls, name, value.entries[name]):
                self._unknown_key(name, known, cls, value, path)
        given: dict[str, Read] = {}
        form_only = self._form_only
        self._form_only = form_only or self._is_off(value, keys, path)
        # Keys that are filled in come last, because their mistakes belong to the keys that they come from.
        for key in sorted(keys.values(), key=lambda key: key.about.filled_in):
            item = value.entries.get(key.name)
            needed = key.required or key.about.filled_in
            if (needed and item is None) or (key.required and item is not None and is_blank(item)):
                mark = item.mark if item else value.mark
                given[key.field] = self.report("missing_key", f"{key.name} is required", mark, path)
            elif item is not None and not self._means_default(key, item):
                read = self._with_content(key, item, (*path, key.name))
                if read is not _LEFT_OUT:
                    given[key.field] = not read if key.is_opposite and isinstance(read, bool) else read
        self._form_only = form_only
        apart = list(misfits(cls, value, given))
        for misfit in apart:
            at = path if misfit.key is None else (*path, misfit.key)
            self.report(misfit.code, misfit.message, misfit.mark, at)
        return _BAD if apart or _BAD in given.values() else cls(**given, **mark_of(cls, value))

    def _means_default(self, key: Key, value: Value) -> bool:
        """Whether the value stands for the default of its key."""
        allowed = key.may_be_blank or (self._may_be_empty and key.is_collection)
        return allowed and isinstance(value, Scalar) and value.value is None

    def _with_content(self, key: Key, value: Value, path: KeyPath) -> Read:
        """Read a value that must have content if its key needs some."""
        hint = None if key.required else OMIT
        match value:
            case Scalar(value=None) if key.is_collection:
                return self._wrong_type(value, key.shape, path, hint)
            case Sequence(items=()) if key.needs_content and not self._may_be_empty:
                message = "the list is empty; it needs at least one"
                return self.report("empty_list", message, value.mark, path)
            case Table(entries=entries) if key.needs_content and not (entries or self._may_be_empty):
                return self.report("empty_mapping", "the mapping is empty", value.mark, path, hint=hint)
            case _:
                return self.read(value, key.shape, path)

    def _is_off(self, value: Table, keys: Mapping[str, Key], path: KeyPath) -> bool:
        """Whether a section says that it is not used, with `enabled` or its opposite."""
        return any(
            key.name in value.entries
            and self.read(value.entries[key.name], key.shape, (*path, key.name)) is key.is_opposite
            for key in keys.values()
            if key.field == "enabled"
        )

    def _unknown_key(self, name: str, known: tuple[str, ...], cls: type, value: Table, path: KeyPath) -> None:
        mark, at = value.key_marks.get(name, value.mark), (*path, name)
        if name in RENAMED_KEYS:
            self.report("renamed_key", f"the key {name} was renamed; use {RENAMED_KEYS[name]}", mark, at)
        else:
            hint = invisible(name) or advice(cls, name, value)
            hint = hint or section_with(name, cls, self._top or cls) or nearest(name, known)
            hint = hint or f"valid keys: {', '.join(known)}"
            self.report(
                "unknown_key", f"unknown key {quoted(name)}", mark, at, expected=one_of(known), hint=hint
            )

    # Error messages

    def _wrong_type(self, value: Value, shape: Shape, path: KeyPath, hint: str | None = None) -> _Bad:
        expected, found = describe(shape), kind(value)
        hint = hint or correction(value, shape)
        message = f"expected {expected}, found {found}"
        return self.report("wrong_type", message, value.mark, path, expected=expected, found=found, hint=hint)

    def _unfit(self, code: str, shape: Shape, value: Scalar, path: KeyPath, hint: str | None = None) -> _Bad:
        # A text that does not match may be a secret in the wrong place, so it is not shown.
        expected, found = describe(shape), "other text" if code == "bad_format" else shown(value)
        message = f"expected {expected}, found {found}"
        return self.report(code, message, value.mark, path, expected=expected, found=found, hint=hint)
