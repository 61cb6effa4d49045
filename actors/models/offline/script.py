"""The model `script:FILE`, which gives the replies of a file. `script_reader.py` reads the file.

A reply depends only on the request. It is the same in any order of branches, and again when a run is
replayed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import attrs
import regex
import trio

from ..messages.a2a_end import A2AEnd
from ..messages.argument_schema import accepted_types, parse_number, properties
from ..messages.messages import (
    Arguments,
    Emit,
    ModelFailed,
    ModelReply,
    ModelRequest,
    TextDelta,
    ToolCall,
    Usage,
)

REFERENCE = re.compile(r"\$\$\{|\$\{(?P<name>[^}]*)\}")
"""`${name}`, or `$${` for a literal `${`."""
PATIENCE = 0.5
"""Seconds for the search of a pattern. Some patterns take hours on a text that is made for it."""
_SHOWN = 200
"""Characters of each text of the request in an error."""

Groups = Mapping[str, str]


@attrs.frozen
class When:
    """The conditions of one reply; those given must all hold."""

    user: regex.Pattern[str] | None = None
    """Searched in the turn's user message."""
    prompt: regex.Pattern[str] | None = None
    """Searched in the system prompt."""
    tool_result: regex.Pattern[str] | None = None
    """Searched in the results that the model has not answered yet. The first match counts."""
    last_tool: str | None = None
    """Name of the tool whose result is the last message."""
    node: str | None = None
    call: int | None = None
    iteration: int | None = None
    turn: int | None = None
    attempt: int | None = None
    step: str | None = None
    """The key of the model call in its conversation."""
    message_id: str | None = None
    """A glob that matches the id of the client's message."""

    @property
    def patterns(self) -> tuple[regex.Pattern[str], ...]:
        return tuple(each for each in (self.user, self.prompt, self.tool_result) if each is not None)

    def match(self, request: ModelRequest) -> Groups | None:
        """The texts of the named groups if all conditions hold, else None.

        A group outside the match is empty. Raises TimeoutError if a pattern takes too long.
        """
        results = request.results
        equal = (
            (self.node, request.node),
            (self.call, request.call),
            (self.iteration, request.iteration),
            (self.turn, request.turn),
            (self.attempt, request.attempt),
            (self.step, request.step),
            (self.last_tool, results[-1].name if results else None),
        )
        if any(wanted is not None and wanted != actual for wanted, actual in equal):
            return None
        if self.message_id is not None and not fnmatchcase(request.message_id, self.message_id):
            return None
        groups: dict[str, str] = {}
        for pattern, texts in (
            (self.user, (request.user,)),
            (self.prompt, (request.prompt,)),
            (self.tool_result, tuple(result.content for result in results)),
        ):
            if pattern is None:
                continue
            found = next(filter(None, (pattern.search(text, timeout=PATIENCE) for text in texts)), None)
            if found is None:
                return None
            groups |= found.groupdict(default="")
        return groups


@attrs.frozen
class ScriptedCall:
    name: str
    arguments: Arguments
    problem: str | None = None
    """An error in the arguments, as in a malformed reply of a provider."""


@attrs.frozen
class ScriptedError:
    message: str
    status: int | None = None
    """None: the call is not retried."""

    def failure(self) -> ModelFailed:
        if self.status is None:
            return ModelFailed(self.message)
        return ModelFailed.from_status(self.message, self.status)


@attrs.frozen
class ScriptEntry:
    """One entry of `replies`."""

    when: When = When()
    text: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    delay: float = 0.0
    """Seconds on trio's clock."""
    usage: Usage = attrs.field(factory=Usage)
    error: ScriptedError | None = None
    a2a: A2AEnd | None = None

    def reply(self, request: ModelRequest, groups: Groups) -> ModelReply:
        schemas = {tool.name: tool.input_schema for tool in request.tools}
        calls = tuple(
            ToolCall(
                id=f"call_{request.call}_{index}",
                name=call.name,
                arguments={
                    key: substitute(value, groups, properties(schemas.get(call.name, {})).get(key, {}))
                    for key, value in call.arguments.items()
                },
                problem=call.problem,
            )
            for index, call in enumerate(self.tool_calls)
        )
        text = substitute_text(self.text, groups)
        a2a = None if self.a2a is None else _filled(self.a2a, groups)
        return ModelReply(text, calls, self.usage, stop="tool_calls" if calls else "end", a2a=a2a)


@attrs.frozen
class Script:
    name: str
    """Name of the script in errors."""
    replies: tuple[ScriptEntry, ...]

    def find(self, request: ModelRequest) -> tuple[ScriptEntry, Groups] | None:
        """The first entry whose conditions hold, with the texts of its named groups."""
        for entry in self.replies:
            groups = entry.when.match(request)
            if groups is not None:
                return entry, groups
        return None


@attrs.frozen
class ScriptModel:
    script: Script

    async def complete(self, request: ModelRequest, emit: Emit) -> ModelReply:
        """Give the reply of the script. Raises `ModelFailed` if it is an error, or if no conditions hold."""
        try:
            found = self.script.find(request)
        except TimeoutError:
            raise ModelFailed(
                f"a pattern in {self.script.name} takes too long over this request: {describe(request)}"
            ) from None
        if found is None:
            raise ModelFailed(f"no reply in {self.script.name} fits this request: {describe(request)}")
        entry, groups = found
        if entry.delay:
            await trio.sleep(entry.delay)
        else:
            await trio.lowlevel.checkpoint_if_cancelled()
        if entry.error is not None:
            raise entry.error.failure()
        reply = entry.reply(request, groups)
        if reply.text:
            emit(TextDelta(reply.text))
        return reply


def substitute(value: Any, groups: Groups, schema: Mapping[str, Any]) -> Any:
    """A copy of an argument with every `${name}` filled in, at any depth.

    A text that is one whole reference becomes a number if `schema` expects one.
    """
    if isinstance(value, str):
        filled = substitute_text(value, groups)
        whole = REFERENCE.fullmatch(value)
        number = parse_number(filled, accepted_types(schema)) if whole and whole["name"] else None
        return filled if number is None else number
    if isinstance(value, Mapping):
        inner = properties(schema)
        return {key: substitute(each, groups, inner.get(key, {})) for key, each in value.items()}
    if isinstance(value, list | tuple):
        found = schema.get("items")
        items = found if isinstance(found, Mapping) else {}
        return type(value)(substitute(each, groups, items) for each in value)
    return value


def _filled(end: A2AEnd, groups: Groups) -> A2AEnd:
    if end.artifact is None:
        return end
    fields = substitute(attrs.asdict(end.artifact, recurse=False), groups, {})
    return attrs.evolve(end, artifact=attrs.evolve(end.artifact, **fields))


def substitute_text(text: str, groups: Groups) -> str:
    return REFERENCE.sub(lambda found: "${" if found["name"] is None else groups[found["name"]], text)


def describe(request: ModelRequest) -> str:
    """The request as the conditions see it, with long texts cut. The prompt is left out, because it may
    contain a secret variable."""
    results = request.results
    parts = [
        f"node={request.node!r}",
        f"call={request.call}",
        f"turn={request.turn}",
        f"iteration={request.iteration}",
        f"attempt={request.attempt}",
        f"step={request.step!r}",
        f"user={_shortened(request.user)}",
    ]
    if request.message_id:
        parts.append(f"message_id={_shortened(request.message_id)}")
    if results:
        parts.append(f"last_tool={results[-1].name!r}")
        parts += [f"tool_result={_shortened(result.content)}" for result in results[:5]]
    return ", ".join(parts)


def _shortened(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
