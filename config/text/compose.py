"""YAML text to values. Pure: text in, values or problems out."""

from __future__ import annotations

import re
from typing import NoReturn

import attrs
import yaml

from .errors import ConfigError, Problem
from .values import Invalid, KeyPath, Mark, Scalar, Sequence, Table, Value, dotted, quoted


@attrs.frozen
class Bounds:
    """The limits of a file. Depth and number count every alias as the value that it stands for."""

    depth: int = 32
    values: int = 10_000
    nul: bool = False
    """Whether texts may hold NUL characters."""


AGENT_FILE = Bounds()

_SURROGATE = re.compile("[\ud800-\udfff]")


def compose(text: str, file: str, bounds: Bounds = AGENT_FILE) -> tuple[Value, tuple[Problem, ...]]:
    """Read one YAML document.

    Returns the value, and the problems that do not stop the reading, such as duplicate keys. Raises
    `ConfigError` if the text is not YAML, is empty or exceeds a bound.
    """
    if control := yaml.reader.Reader.NON_PRINTABLE.search(text):
        before = text[: control.start()]
        line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
        message = "not valid YAML: a control character"
        raise ConfigError((Problem("yaml_syntax", message, file, line, column),))
    loader = _Loader(text, file, bounds)
    try:
        root = loader.get_single_node()
        if root is None:
            loader.refuse("empty_file", "the file is empty; expected a mapping", None)
        return loader.value(root, ()), tuple(loader.problems)
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark or error.context_mark
        loader.refuse("yaml_syntax", _syntax_message(error), at, _syntax_hint(error, at, text))
    except (ValueError, OverflowError):
        # PyYAML does not check that an escape such as "\UFFFFFFFF" names a character.
        loader.refuse("yaml_syntax", "not valid YAML: an escape that names no character", loader.get_mark())
    finally:
        loader.dispose()


class _Loader(yaml.SafeLoader):
    """Composes nodes under bounds and turns them into values."""

    def __init__(self, text: str, file: str, bounds: Bounds) -> None:
        self._file = file
        self._bounds = bounds
        self._depth = 0
        self._composed = 0
        self._count = 0
        self.problems: list[Problem] = []
        super().__init__(text)

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        # The composer recurses and is slow, so check the bounds before it is done. A key is a node, too.
        self._depth += 1
        self._composed += 1
        if self._depth > self._bounds.depth:
            self._refuse_depth(self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        if self._composed > 2 * self._bounds.values:
            self._refuse_size(self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def value(self, node: yaml.Node, path: KeyPath) -> Value:
        # Aliases are followed here, so depth and number are checked again.
        self._count += 1
        if self._count > self._bounds.values:
            self._refuse_size(node.start_mark)
        if len(path) >= self._bounds.depth:
            self._refuse_depth(node.start_mark)
        match node:
            case yaml.SequenceNode(tag="tag:yaml.org,2002:seq"):
                items = (self.value(item, (*path, index)) for index, item in enumerate(node.value))
                return Sequence(tuple(items), _mark(node.start_mark))
            case yaml.MappingNode(tag="tag:yaml.org,2002:map"):
                return self._table(node, path)
            case yaml.ScalarNode():
                return self._scalar(node, path)
            case _:
                return self._unsupported_tag(node, path)

    def _table(self, node: yaml.MappingNode, path: KeyPath) -> Table:
        entries: dict[str, Value] = {}
        key_marks: dict[str, Mark] = {}
        for key_node, value_node in node.value:
            mark = key_node.start_mark
            if not isinstance(key_node, yaml.ScalarNode):
                self._report("wrong_type", "a key must be text", mark, path)
                continue
            if key_node.tag == "tag:yaml.org,2002:merge":
                message = "merge keys (<<) are not supported; write the keys out"
                self._report("yaml_tag", message, mark, path)
                continue
            # The text as written, because a variable may be called NO, which is a boolean in YAML 1.1.
            key = str(key_node.value)
            if self._is_unusable(key_node, path):
                continue
            item = self.value(value_node, (*path, key))
            if key in entries:
                message = f"duplicate key {quoted(key)}, first on line {key_marks[key].line}"
                self._report("duplicate_key", message, mark, path)
                continue
            entries[key] = item
            key_marks[key] = _mark(mark)
        return Table(entries, _mark(node.start_mark), key_marks)

    def _scalar(self, node: yaml.ScalarNode, path: KeyPath) -> Scalar | Invalid:
        mark = _mark(node.start_mark)
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        if self._is_unusable(node, path):
            return Invalid(mark)
        if kind in ("str", "timestamp", "value"):
            # A date is text, because no configuration value is a date.
            return Scalar(str(node.value), mark)
        if kind not in _KINDS:
            return self._unsupported_tag(node, path)
        try:
            return Scalar(self.construct_object(node), mark, str(node.value) if kind == "bool" else None)
        except (ValueError, KeyError, IndexError):
            self._report("wrong_type", f"not a valid {_KINDS[kind]}", node.start_mark, path)
            return Invalid(mark)

    def _is_unusable(self, node: yaml.ScalarNode, path: KeyPath) -> bool:
        """Report characters that would fail only much later, in a path, an argument or an answer."""
        if "\0" in node.value and not self._bounds.nul:
            self._report("control_character", "a NUL character", node.start_mark, path)
        elif _SURROGATE.search(node.value):
            message = "half of a surrogate pair; write the character itself, or \\U and eight digits"
            self._report("control_character", message, node.start_mark, path)
        else:
            return False
        return True

    def _unsupported_tag(self, node: yaml.Node, path: KeyPath) -> Invalid:
        self._report("yaml_tag", f"the tag {quoted(node.tag)} is not supported", node.start_mark, path)
        return Invalid(_mark(node.start_mark))

    def _refuse_depth(self, mark: yaml.Mark | None) -> NoReturn:
        self.refuse("too_deep", f"nested deeper than {self._bounds.depth} levels", mark)

    def _refuse_size(self, mark: yaml.Mark | None) -> NoReturn:
        self.refuse("too_large", f"more than {self._bounds.values} values, aliases included", mark)

    def refuse(self, code: str, message: str, mark: yaml.Mark | None, hint: str | None = None) -> NoReturn:
        self._report(code, message, mark, (), hint)
        raise ConfigError(tuple(self.problems))

    def _report(
        self, code: str, message: str, mark: yaml.Mark | None, path: KeyPath, hint: str | None = None
    ) -> None:
        at = _mark(mark) if mark else None
        line, column = (at.line, at.column) if at else (None, None)
        self.problems.append(Problem(code, message, self._file, line, column, dotted(path), hint=hint))


_KINDS = {"null": "null", "bool": "boolean", "int": "whole number", "float": "number"}


def _mark(mark: yaml.Mark) -> Mark:
    return Mark(mark.line + 1, mark.column + 1)


def _syntax_message(error: yaml.MarkedYAMLError) -> str:
    return f"not valid YAML: {', '.join(part for part in (error.context, error.problem) if part)}"


_HINTS = {
    r"'\\t' that cannot start any token": "indent with spaces, never with tabs",
    "that cannot start any token|scanning an alias|scanning an anchor": "put the text in quotes",
    "mapping values are not allowed|expected <block end>|could not find expected ':'": (
        "is it indented like its neighbours? A key ends with a colon and a space; a text that contains "
        "these needs quotes"
    ),
}
"""Hints, by a pattern that PyYAML's message matches."""


def _syntax_hint(error: yaml.MarkedYAMLError, at: yaml.Mark | None, text: str) -> str | None:
    # The brace of an unquoted reference ends the mapping around it.
    if at is not None and "flow" in (error.context or ""):
        if any("${" in line for line in text.splitlines()[at.line : at.line + 1]):
            return "within { } and [ ] a value with ${NAME} in it needs quotes"
        return None
    if error.context_mark and "quoted scalar" in (error.context or ""):
        return f"the quote opened on line {error.context_mark.line + 1} is never closed"
    message = _syntax_message(error)
    return next((hint for pattern, hint in _HINTS.items() if re.search(pattern, message)), None)
