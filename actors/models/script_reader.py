"""Script files: YAML to a `Script`, every mistake with its line."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

import attrs
import regex
import yaml

from .a2a_end import (
    A2AEnd,
    A2AState,
    DataArtifact,
    FileArtifact,
    LinkArtifact,
    ScriptedArtifact,
    TextArtifact,
)
from .errors import InvalidScript, UnreadableScript
from .messages import Usage
from .script import REFERENCE, Entry, Script, ScriptedCall, ScriptedError, When

T = TypeVar("T")

_MAX_BYTES = 4 << 20
_MAX_DEPTH = 32
"""Of the values of arguments and data."""
_MAX_VALUES = 100_000
"""In all arguments and data of a file; YAML's aliases multiply."""
_ESCAPE = "a literal `${` is written `$${`"
_STATES: Mapping[str, A2AState] = {state: state for state in get_args(A2AState)}
_JSON_SCALARS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null")}


def load_script(path: Path) -> Script:
    """Read and check a script file. Raises `UnreadableScript`, or `InvalidScript` with every mistake."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except FileNotFoundError as error:
        hint = "a relative path is relative to the agent file"
        raise UnreadableScript(f"there is no script {path}; {hint}") from error
    except OSError as error:
        raise UnreadableScript(f"cannot read the script {path}: {error.strerror}") from error
    if len(content) > _MAX_BYTES:
        raise UnreadableScript(f"the script {path} is larger than {_MAX_BYTES >> 20} MiB")
    return parse_script(content, path.name)


def parse_script(content: bytes | str, name: str) -> Script:
    """The script in a YAML text; `name` stands in errors. Raises `InvalidScript`."""
    try:
        root = yaml.compose(content, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise InvalidScript((f"{name}:{line}: not valid YAML: {error.problem}",)) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidScript((f"{name}: not valid YAML: the file is not text",)) from error
    except RecursionError as error:
        raise InvalidScript((f"{name}: nested too deeply",)) from error
    reader = _Reader(name)
    replies = reader.script(root)
    if reader.problems:
        raise InvalidScript(tuple(text for _, text in sorted(reader.problems, key=lambda each: each[0])))
    return Script(name, replies)


class _Wrong(Exception):
    """What stands at a node is of no use; the problem is noted."""


@attrs.define
class _Reader:
    """Reads on after a mistake, so that all of them are told at once."""

    file: str
    problems: list[tuple[int, str]] = attrs.field(factory=list)
    values: int = 0
    key: str = "this"
    """What a sentence calls the value that is being read."""

    def note(self, node: yaml.Node | None, sentence: str) -> None:
        line = node.start_mark.line + 1 if node is not None else 1
        self.problems.append((line, f"{self.file}:{line}: {sentence}"))

    def wrong(self, node: yaml.Node | None, sentence: str) -> _Wrong:
        self.note(node, sentence)
        return _Wrong()

    def script(self, root: yaml.Node | None) -> tuple[Entry, ...]:
        try:
            keys = self.mapping(root, "a script", ("replies",))
            if "replies" not in keys:
                raise _Wrong if self.problems else self.wrong(root, "a script needs `replies`, a list")
            entries = [self.optional(self.entry, each) for each in self.items(keys["replies"], "replies")]
        except _Wrong:
            return ()
        if not entries:
            self.note(keys["replies"], "`replies` holds no reply")
        return tuple(entry for entry in entries if entry is not None)

    def entry(self, node: yaml.Node) -> Entry:
        known = ("when", "text", "tool_calls", "delay", "usage", "error", "a2a")
        keys = self.mapping(node, "a reply", known)
        if not keys.keys() & {"text", "tool_calls", "error", "a2a"}:
            self.note(node, "a reply needs `text`, `tool_calls`, `error` or `a2a`")
        for key, others in (("error", ("text", "tool_calls", "usage", "a2a")), ("a2a", ("tool_calls",))):
            for other in others:
                if key in keys and other in keys:
                    self.note(keys[other], f"a reply with `{key}` cannot have `{other}` as well")
        noted = len(self.problems)
        when = self.field(keys, "when", self.when, When())
        when_is_sound = len(self.problems) == noted
        entry = Entry(
            when=when,
            text=self.field(keys, "text", self.string, ""),
            tool_calls=self.field(keys, "tool_calls", self.tool_calls, ()),
            delay=self.field(keys, "delay", self.seconds, 0.0),
            usage=self.field(keys, "usage", self.usage, Usage()),
            error=self.field(keys, "error", self.error, None),
            a2a=self.field(keys, "a2a", self.a2a, None),
        )
        if when_is_sound:
            self.check_references(keys, entry)
        return entry

    def when(self, node: yaml.Node) -> When:
        readers: dict[str, Callable[[yaml.Node], Any]] = {
            "user": self.pattern,
            "prompt": self.pattern,
            "tool_result": self.pattern,
            "last_tool": self.string,
            "node": self.string,
            "call": self.count,
            "iteration": self.count,
            "turn": self.count,
            "attempt": self.count,
            "step": self.string,
            "message_id": self.string,
        }
        keys = self.mapping(node, "`when`", tuple(readers))
        return When(**{key: self.field(keys, key, readers[key], None) for key in keys})

    def tool_calls(self, node: yaml.Node) -> tuple[ScriptedCall, ...]:
        calls = [self.optional(self.tool_call, each) for each in self.items(node, "tool_calls")]
        if not calls:
            self.note(node, "`tool_calls` holds no call")
        return tuple(call for call in calls if call is not None)

    def tool_call(self, node: yaml.Node) -> ScriptedCall:
        keys = self.mapping(node, "a tool call", ("name", "arguments", "problem"))
        if "name" not in keys:
            raise self.wrong(node, "a tool call needs `name`")
        return ScriptedCall(
            name=self.field(keys, "name", self.string, ""),
            arguments=self.field(keys, "arguments", self.json_mapping, {}),
            problem=self.field(keys, "problem", self.string, None),
        )

    def json_mapping(self, node: yaml.Node) -> dict[str, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise self.wrong(node, f"{self.key} must be a mapping")
        value: dict[str, Any] = self.json(node)
        return value

    def usage(self, node: yaml.Node) -> Usage:
        names = tuple(each.name for each in attrs.fields(Usage))
        keys = self.mapping(node, "`usage`", names)
        return Usage(**{key: self.field(keys, key, self.tokens, 0) for key in keys})

    def error(self, node: yaml.Node) -> ScriptedError:
        keys = self.mapping(node, "`error`", ("status", "message"))
        if "message" not in keys:
            raise self.wrong(node, "`error` needs `message`")
        return ScriptedError(
            self.field(keys, "message", self.string, ""), self.field(keys, "status", self.status, None)
        )

    def a2a(self, node: yaml.Node) -> A2AEnd:
        keys = self.mapping(node, "`a2a`", ("state", "artifact"))
        return A2AEnd(
            self.field(keys, "state", self.state, "completed"),
            self.field(keys, "artifact", self.artifact, None),
        )

    def state(self, node: yaml.Node) -> A2AState:
        said = self.string(node)
        if said not in _STATES:
            raise self.wrong(node, f"{self.key} must be one of {', '.join(_STATES)}")
        return _STATES[said]

    def artifact(self, node: yaml.Node) -> ScriptedArtifact:
        readers: dict[str, Callable[[yaml.Node], ScriptedArtifact]] = {
            "text": self.text_artifact,
            "file": self.file_artifact,
            "data": lambda data: DataArtifact(self.json_mapping(data)),
        }
        keys = self.mapping(node, "`artifact`", tuple(readers))
        key = self.one_of(node, keys, "`artifact`", tuple(readers))
        artifact = self.field(keys, key, readers[key], None)
        if artifact is None:
            raise _Wrong
        return artifact

    def text_artifact(self, node: yaml.Node) -> TextArtifact:
        chunks = node.value if isinstance(node, yaml.SequenceNode) else [node]
        if not chunks:
            raise self.wrong(node, "`text` holds no chunk")
        return TextArtifact(tuple(self.string(each) for each in chunks))

    def file_artifact(self, node: yaml.Node) -> FileArtifact | LinkArtifact:
        keys = self.mapping(node, "`file`", ("name", "media_type", "text", "url"))
        key = self.one_of(node, keys, "`file`", ("text", "url"))
        return (FileArtifact if key == "text" else LinkArtifact)(
            self.field(keys, key, self.string, ""),
            self.field(keys, "name", self.string, None),
            self.field(keys, "media_type", self.string, None),
        )

    def check_references(self, keys: dict[str, yaml.Node], entry: Entry) -> None:
        """Every `${name}` is a named group of exactly one regex of the same reply."""
        groups: set[str] = set()
        for pattern in entry.when.patterns:
            for name in sorted(groups & pattern.groupindex.keys()):
                self.note(keys["when"], f"the group `{name}` stands in two patterns of one reply")
            groups |= pattern.groupindex.keys()
        for key, values in (
            ("text", entry.text),
            ("tool_calls", [call.arguments for call in entry.tool_calls]),
            ("a2a", attrs.asdict(entry.a2a) if entry.a2a else {}),
        ):
            for name in sorted(set(_references(values)) - groups):
                if name.isdecimal():
                    sentence = f"`${{{name}}}` is a number: groups are used by name, (?P<name>...)"
                else:
                    sentence = f"`${{{name}}}` is no named group of this reply's patterns"
                self.note(keys[key], f"{sentence}; {_ESCAPE}")
            if any("${" in REFERENCE.sub(" ", text) for text in _texts(values)):
                self.note(keys[key], f"`{key}` has a `${{` without its `}}`; {_ESCAPE}")

    def mapping(self, node: yaml.Node | None, what: str, known: tuple[str, ...]) -> dict[str, yaml.Node]:
        if not isinstance(node, yaml.MappingNode):
            raise self.wrong(node, f"{what} must be a mapping of {', '.join(known)}")
        found: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else ""
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(known)}"
                self.note(key, f"{what} has no key `{name}`; {hint}")
            elif name in found:
                self.note(key, f"`{name}` stands twice")
            else:
                found[name] = value
        return found

    def one_of(self, node: yaml.Node, keys: dict[str, yaml.Node], what: str, choices: tuple[str, ...]) -> str:
        """The one of the choices that there is."""
        given = [each for each in choices if each in keys]
        if len(given) != 1:
            raise self.wrong(node, f"{what} needs one of {', '.join(choices)}")
        return given[0]

    def items(self, node: yaml.Node, key: str) -> list[yaml.Node]:
        if not isinstance(node, yaml.SequenceNode):
            raise self.wrong(node, f"`{key}` must be a list")
        return list(node.value)

    def field(self, keys: dict[str, yaml.Node], key: str, read: Callable[[yaml.Node], T], default: T) -> T:
        if key not in keys:
            return default
        outer, self.key = self.key, f"`{key}`"
        value = self.optional(read, keys[key])
        self.key = outer
        return default if value is None else value

    def optional(self, read: Callable[[yaml.Node], T], node: yaml.Node) -> T | None:
        try:
            return read(node)
        except _Wrong:
            return None

    def json(self, node: yaml.Node, depth: int = 0) -> Any:
        """The JSON value at a node."""
        self.values += 1
        if self.values > _MAX_VALUES:
            raise self.wrong(node, f"more than {_MAX_VALUES} values")
        if depth > _MAX_DEPTH:
            raise self.wrong(node, f"nested more than {_MAX_DEPTH} deep, or in itself")
        if isinstance(node, yaml.SequenceNode):
            return [self.json(each, depth + 1) for each in node.value]
        if isinstance(node, yaml.MappingNode):
            return self.json_object(node, depth)
        if node.tag not in _JSON_SCALARS:
            raise self.wrong(node, f"{node.value!r} has no place in JSON as it stands; quote it")
        value = self.scalar(node)
        if isinstance(value, float) and not math.isfinite(value):
            raise self.wrong(node, f"{node.value} is no JSON number")
        return value

    def json_object(self, node: yaml.MappingNode, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            outer, self.key = self.key, f"a key in {self.key}"
            name = self.string(key)
            self.key = outer
            if name in found:
                raise self.wrong(key, f"`{name}` stands twice")
            found[name] = self.json(value, depth + 1)
        return found

    def scalar(self, node: yaml.Node) -> Any:
        try:
            return yaml.constructor.SafeConstructor().construct_object(node, deep=True)
        except (yaml.YAMLError, ValueError) as error:
            raise self.wrong(node, f"{self.key} cannot be read; quote it") from error

    def string(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode) or node.tag != "tag:yaml.org,2002:str":
            raise self.wrong(node, f"{self.key} must be a text; quote what YAML reads as something else")
        return str(node.value)

    def pattern(self, node: yaml.Node) -> regex.Pattern[str]:
        source = self.string(node)
        try:
            return regex.compile(source)
        except (regex.error, OverflowError, RecursionError) as error:
            raise self.wrong(node, f"{self.key} is not a regular expression: {error}") from error

    def whole(self, node: yaml.Node, least: int, most: float, what: str) -> int:
        value = self.scalar(node) if isinstance(node, yaml.ScalarNode) else None
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.wrong(node, f"{self.key} must be {what}")
        return value

    def count(self, node: yaml.Node) -> int:
        return self.whole(node, 1, math.inf, "a whole number from 1")

    def tokens(self, node: yaml.Node) -> int:
        return self.whole(node, 0, math.inf, "a whole number, not negative")

    def status(self, node: yaml.Node) -> int:
        return self.whole(node, 400, 599, "an HTTP status of a failure, 400 to 599")

    def seconds(self, node: yaml.Node) -> float:
        value = self.scalar(node) if isinstance(node, yaml.ScalarNode) else None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise self.wrong(node, f"{self.key} must be seconds, not negative")
        return float(value)


def _references(value: Any) -> Iterator[str]:
    """The names of all `${name}` in a value, at any depth."""
    for text in _texts(value):
        yield from (found["name"] for found in REFERENCE.finditer(text) if found["name"] is not None)


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
