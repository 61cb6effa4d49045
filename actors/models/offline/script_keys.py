"""The keys of a script file, as frozen values that `config/reading/reader.py` reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from ....config.described.shape import about
from ..messages.a2a_end import A2AState

_DAY = 86_400.0


@attrs.frozen(kw_only=True)
class WhenKeys:
    """The conditions of one reply; those given must all hold."""

    user: str | None = attrs.field(
        default=None, metadata=about("Searched in the turn's user message.", regex=True)
    )
    prompt: str | None = attrs.field(
        default=None, metadata=about("Searched in the system prompt.", regex=True)
    )
    tool_result: str | None = attrs.field(
        default=None,
        metadata=about("Searched in the results that the model has not answered yet.", regex=True),
    )
    last_tool: str | None = attrs.field(
        default=None, metadata=about("Name of the tool whose result is the last message.")
    )
    node: str | None = attrs.field(default=None, metadata=about("Name of the node."))
    call: int | None = attrs.field(default=None, metadata=about("Number of the model call.", minimum=1))
    iteration: int | None = attrs.field(
        default=None, metadata=about("Number of the loop's iteration.", minimum=1)
    )
    turn: int | None = attrs.field(default=None, metadata=about("Number of the turn.", minimum=1))
    attempt: int | None = attrs.field(default=None, metadata=about("Number of the attempt.", minimum=1))
    step: str | None = attrs.field(default=None, metadata=about("Key of the model call's step."))
    message_id: str | None = attrs.field(
        default=None, metadata=about("A glob that matches the id of the client's message.")
    )


@attrs.frozen(kw_only=True)
class CallKeys:
    """A tool call of the reply."""

    name: str = attrs.field(metadata=about("Name of the tool."))
    arguments: Mapping[str, Any] = attrs.field(factory=dict, metadata=about("JSON.", empty="nothing"))
    problem: str | None = attrs.field(
        default=None, metadata=about("Error in the arguments, as in a malformed reply of a provider.")
    )


@attrs.frozen(kw_only=True)
class UsageKeys:
    """Tokens of the call."""

    input_tokens: int = attrs.field(default=0, metadata=about("All of the input.", minimum=0))
    output_tokens: int = attrs.field(default=0, metadata=about("All of the output.", minimum=0))
    cached_tokens: int = attrs.field(default=0, metadata=about("Input read from the cache.", minimum=0))
    cache_write_tokens: int = attrs.field(default=0, metadata=about("Input written to it.", minimum=0))


@attrs.frozen(kw_only=True)
class ErrorKeys:
    """A failure of the call."""

    message: str = attrs.field(metadata=about("Text of the error."))
    status: int | None = attrs.field(
        default=None,
        metadata=about("HTTP status. Default: none; the call is not retried.", minimum=400, maximum=599),
    )


@attrs.frozen(kw_only=True)
class FileKeys:
    """An artifact that is a file: with its content, or with its address."""

    EXACTLY_ONE_OF: ClassVar = (("text",), ("url",))

    text: str | None = attrs.field(default=None, metadata=about("Content of the file."))
    url: str | None = attrs.field(default=None, metadata=about("Address of the file."))
    name: str | None = attrs.field(default=None, metadata=about("Name of the file."))
    media_type: str | None = attrs.field(default=None, metadata=about("Media type of the file."))


@attrs.frozen(kw_only=True)
class ArtifactKeys:
    """The artifact of the task."""

    EXACTLY_ONE_OF: ClassVar = (("text",), ("file",), ("data",))

    text: tuple[str, ...] | None = attrs.field(
        default=None,
        metadata=about("Chunks, each sent by itself to a client that streams. A text is one chunk."),
    )
    file: FileKeys | None = attrs.field(default=None, metadata=about("A file.", empty="nothing"))
    data: Mapping[str, Any] | None = attrs.field(default=None, metadata=about("JSON.", empty="nothing"))


@attrs.frozen(kw_only=True)
class A2AKeys:
    """How the reply ends its task for A2A clients."""

    state: A2AState = attrs.field(default="completed", metadata=about("State of the task."))
    artifact: ArtifactKeys | None = attrs.field(
        default=None, metadata=about("Default: the reply's text.", empty="nothing")
    )


@attrs.frozen(kw_only=True)
class ReplyKeys:
    """One entry of `replies`."""

    EXACTLY_ONE_OF: ClassVar = (("text", "tool_calls", "a2a"), ("error",))

    when: WhenKeys = attrs.field(
        default=WhenKeys(), metadata=about("When this is the reply.", empty="nothing")
    )
    text: str = attrs.field(default="", metadata=about("Text of the reply."))
    tool_calls: tuple[CallKeys, ...] | None = attrs.field(
        default=None, metadata=about("Tool calls of the reply.")
    )
    delay: float = attrs.field(
        default=0.0, metadata=about("Seconds until the reply.", minimum=0, maximum=_DAY)
    )
    usage: UsageKeys = attrs.field(
        default=UsageKeys(), metadata=about("Tokens of the call.", empty="nothing")
    )
    error: ErrorKeys | None = attrs.field(
        default=None, metadata=about("A failure in place of a reply.", empty="nothing")
    )
    a2a: A2AKeys | None = attrs.field(
        default=None, metadata=about("How the task ends for A2A clients.", empty="nothing")
    )


@attrs.frozen(kw_only=True)
class ScriptKeys:
    """A script file."""

    replies: tuple[ReplyKeys, ...] = attrs.field(
        metadata=about("The first reply whose conditions hold is given.")
    )
