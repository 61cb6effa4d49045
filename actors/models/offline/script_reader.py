"""Script files: YAML to a `Script`, with every mistake at its line and key.

`config/text/compose.py` reads the YAML under bounds, `config/reading/reader.py` the keys of
`script_keys.py`. This file checks references to named groups, and which keys of a reply fit together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import regex

from ....config.load import read_text
from ....config.reading.reader import Reader
from ....config.text.compose import Bounds, compose
from ....config.text.errors import ConfigError, in_order
from ....config.text.values import KeyPath, Scalar, Sequence, Table, Value, entry, items, quoted
from ....config.text.variables import Variables
from ..messages.a2a_end import (
    A2AEnd,
    DataArtifact,
    FileArtifact,
    LinkArtifact,
    ScriptedArtifact,
    TextArtifact,
)
from ..messages.errors import InvalidScript, UnreadableScript
from ..messages.messages import Usage
from .script import REFERENCE, Script, ScriptedCall, ScriptedError, ScriptEntry, When
from .script_keys import A2AKeys, ArtifactKeys, ReplyKeys, ScriptKeys, WhenKeys

_MAX_BYTES = 4 << 20
_BOUNDS = Bounds(depth=40, values=100_000, nul=True)
"""Wider than those of an agent file, because `--record` writes every reply of a model."""
_ESCAPE = "write $${ for a literal ${"
_EXCLUSIVE = (("error", "usage"), ("a2a", "tool_calls"))
"""Further keys of a reply that exclude each other."""


def load_script(path: Path) -> Script:
    """Read and check a script file. Raises `UnreadableScript`, or `InvalidScript` with every mistake."""
    try:
        text = read_text(path, _MAX_BYTES, relative_to="the agent file")
    except ConfigError as error:
        [problem] = error.problems
        hint = f" ({problem.hint})" if problem.hint else ""
        raise UnreadableScript(f"script {path}: {problem.message}{hint}") from error
    return parse_script(text, path.name)


def parse_script(text: str, name: str) -> Script:
    """The script in a YAML text; `name` stands in errors. Raises `InvalidScript`."""
    try:
        root, problems = compose(text, name, _BOUNDS)
    except ConfigError as error:
        raise InvalidScript(tuple(map(str, error.problems))) from error
    root = _with_chunks(root)
    reader = Reader(name, Variables({}, Path()), references=False)
    script = reader.section(ScriptKeys, root, ())
    for index, written in enumerate(items(entry(root, "replies"))):
        # Once more, each reply by itself: a mistake in one does not hide those of the others.
        path = ("replies", index)
        reply = reader.section(ReplyKeys, written, path)
        if reply is not None and isinstance(written, Table):
            _check_reply(reader, written, reply, path)
    found = (*problems, *reader.problems)
    if found or script is None:
        raise InvalidScript(tuple(dict.fromkeys(map(str, in_order(found)))))
    return Script(name, tuple(map(_entry, script.replies)))


def _with_chunks(value: Value, path: tuple[str, ...] = ("replies", "a2a", "artifact", "text")) -> Value:
    """The script with the text of each artifact as a list of chunks."""
    if not path:
        return Sequence((value,), value.mark) if isinstance(value, Scalar) else value
    if isinstance(value, Sequence):
        return attrs.evolve(value, items=tuple(_with_chunks(item, path) for item in value.items))
    if isinstance(value, Table) and path[0] in value.entries:
        return value.with_entries({path[0]: _with_chunks(value.entries[path[0]], path[1:])})
    return value


# ----------------------------------------------------------------- checks


def _check_reply(reader: Reader, written: Table, reply: ReplyKeys, path: KeyPath) -> None:
    for key, other in _EXCLUSIVE:
        if key in written.entries and other in written.entries:
            message = f"{key} and {other} exclude each other; give one of them"
            reader.report("conflicting_keys", message, written.key_marks[other], (*path, other))
    groups: set[str] = set()
    for pattern in _when(reply.when).patterns:
        for name in sorted(groups & pattern.groupindex.keys()):
            message = f"the group {quoted(name)} is in two patterns of this reply"
            reader.report("duplicate_name", message, written.entries["when"].mark, (*path, "when"))
        groups |= pattern.groupindex.keys()
    arguments = [entry(call, "arguments") for call in items(entry(written, "tool_calls"))]
    filled = {"text": [entry(written, "text")], "tool_calls": arguments, "a2a": [entry(written, "a2a")]}
    for key, values in filled.items():
        texts = [text for value in values if value is not None for text in _texts(value)]
        for message in _wrong_references(texts, groups):
            reader.report("bad_reference", message, written.entries[key].mark, (*path, key), hint=_ESCAPE)


def _wrong_references(texts: list[str], groups: set[str]) -> Iterator[str]:
    """A sentence for each `${name}` that is not a named group of the reply."""
    names = {found["name"] for text in texts for found in REFERENCE.finditer(text)} - {None}
    for name in sorted(names - groups):
        if name.isdecimal():
            yield f"${{{name}}} is a number; groups are used by name, (?P<name>...)"
        else:
            yield f"${{{name}}} is not a named group of this reply's patterns"
    if any("${" in REFERENCE.sub(" ", text) for text in texts):
        yield "a ${ has no }"


def _texts(value: Value) -> Iterator[str]:
    """All texts in a value, at any depth."""
    match value:
        case Scalar(value=str(text)):
            yield text
        case Sequence(items=below):
            for item in below:
                yield from _texts(item)
        case Table(entries=entries):
            for item in entries.values():
                yield from _texts(item)
        case _:
            pass


# ----------------------------------------------------------------- keys to values


def _entry(reply: ReplyKeys) -> ScriptEntry:
    return ScriptEntry(
        when=_when(reply.when),
        text=reply.text,
        tool_calls=tuple(
            ScriptedCall(call.name, dict(call.arguments), call.problem) for call in reply.tool_calls or ()
        ),
        delay=reply.delay,
        usage=Usage(**attrs.asdict(reply.usage)),
        error=None if reply.error is None else ScriptedError(reply.error.message, reply.error.status),
        a2a=None if reply.a2a is None else _end(reply.a2a),
    )


def _when(keys: WhenKeys) -> When:
    given: Mapping[str, Any] = attrs.asdict(keys)
    patterns = {
        name: given[name] and regex.compile(given[name]) for name in ("user", "prompt", "tool_result")
    }
    return When(**{**given, **patterns})


def _end(keys: A2AKeys) -> A2AEnd:
    return A2AEnd(keys.state, None if keys.artifact is None else _artifact(keys.artifact))


def _artifact(keys: ArtifactKeys) -> ScriptedArtifact:
    if keys.text is not None:
        return TextArtifact(keys.text)
    if keys.data is not None:
        return DataArtifact(keys.data)
    file = keys.file
    assert file is not None
    if file.url is not None:
        return LinkArtifact(file.url, file.name, file.media_type)
    return FileArtifact(file.text or "", file.name, file.media_type)
