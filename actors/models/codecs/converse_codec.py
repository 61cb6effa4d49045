"""The codec of Amazon Bedrock's Converse API, for the models of all makers. Pure.

A message is a list of blocks: `text`, `toolUse`, `toolResult`, `image`, `reasoningContent`. Messages of user
and assistant alternate. This API differs from the others in these points:

* A history with calls needs a declaration of their tools, even if none is offered now, and there is no way to
  forbid calls: a call of such a tool is answered with an error.
* Reasoning goes back first, with its text even if that is empty, and only if it is signed: models whose
  reasoning has no signature refuse it. A signature covers what came before, see `anthropic_codec`.
* A stream starts blocks of calls only; text and reasoning begin with their first piece. The usage comes after
  the reason of the end.

Source: the API reference of Bedrock, `Converse` and `ConverseStream`. Tools of the history:
nearai/ironclaw#1710. Reasoning: strands-agents/sdk-python#2704. Blank texts: NousResearch/hermes-agent#55092.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, assert_never

import attrs

from ....config.sections.models import ModelSpec
from ....runtime.json_text import mend
from ...tools.pictures import Picture
from ..messages.messages import (
    ArgumentsDelta,
    AssistantMessage,
    Emit,
    ModelFailed,
    ModelReply,
    ModelRequest,
    Usage,
    Verbatim,
)
from .anthropic_codec import NOT_AVAILABLE
from .bedrock_events import aws_event
from .codec import (
    CallIdentity,
    TextPieces,
    ended_early,
    make_reply,
    merged,
    not_understood,
    own_names,
    tool_calls,
    wire_name,
    without_repeats,
)
from .json_fields import array, count, mapping, piece, text
from .profiles import dialect_for
from .stream_calls import ArgumentPieces
from .thinking_text import answer_in
from .turns import CallResult, ChatTurn, ModelTurn, PastReply, TurnStyle, UserTurn, WireMessage, wire_turns

_IDS = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_ORIGIN = "bedrock converse"
_CUT = ("max_tokens", "model_context_window_exceeded")
_REFUSED = ("guardrail_intervened", "content_filtered")
_FAULTS = ("malformed_tool_use", "malformed_model_output")
"""Errors of the model. A retry may succeed."""


@attrs.frozen
class ConverseCodec:
    spec: ModelSpec

    def body(self, request: ModelRequest) -> dict[str, Any]:
        spec = self.spec
        # Signatures may no longer be valid: those of earlier turns, and all if something was left out before.
        stripped = len(request.messages) if request.trimmed else request.before
        style = TurnStyle(self, spec.name, _ORIGIN, _IDS, _turn, strip=_without_thoughts)
        found = wire_turns(request, style, stripped)
        body: dict[str, Any] = {"messages": found.after()}
        if request.system.strip():
            body["system"] = [{"text": request.system}]
        dialect = dialect_for(spec)
        tools = [_tool(tool.name, *tool.shown(dialect)) for tool in request.tools]
        if tools := tools or [_tool(name, NOT_AVAILABLE, {"type": "object"}) for name in found.called]:
            body["toolConfig"] = {"tools": tools}
        settings: dict[str, Any] = {}
        if spec.max_tokens is not None:
            settings["maxTokens"] = spec.max_tokens
        if spec.temperature is not None:
            settings["temperature"] = spec.temperature
        if settings:
            body["inferenceConfig"] = settings
        return merged(body, spec.options)

    def reply(self, body: object, request: ModelRequest) -> ModelReply:
        answer = mapping(body)
        usage = _usage(answer.get("usage"))
        content = mapping(mapping(answer.get("output")).get("message")).get("content")
        reason = text(answer.get("stopReason"))
        if reason in _REFUSED:
            raise ModelFailed(f"the model refused to answer ({reason})", usage=usage)
        if reason in _FAULTS:
            raise ModelFailed(f"the model made an error ({reason})", retryable=True, usage=usage)
        if not isinstance(content, list):
            raise not_understood("it has no content", usage)
        blocks = without_repeats(map(mapping, content), _asked)
        reply_text = answer_in("".join(text(block.get("text")) for block in blocks))
        calls = tool_calls(filter(None, map(_asked, blocks)), own_names(request.tools), ended=bool(reason))
        thoughts = [dict(block) for block in blocks if _is_signed(mapping(block.get("reasoningContent")))]
        verbatim = Verbatim(_ORIGIN, thoughts) if thoughts and calls else None
        return make_reply(reply_text, calls, usage, reason=reason, cut=reason in _CUT, verbatim=verbatim)

    def stream(self, request: ModelRequest, emit: Emit) -> ConverseStream:
        return ConverseStream(self, request, emit)


# ------------------------------------------------------------------------- requests


def _turn(turn: ChatTurn, before: ChatTurn | None) -> list[WireMessage]:
    match turn:
        case UserTurn(results=results, texts=texts, pictures=pictures):
            blocks = [*map(_result, results), *map(_picture, pictures), *_texts(texts)]
            return [{"role": "user", "content": blocks}]
        case ModelTurn(replies=replies):
            return [
                {"role": "assistant", "content": [block for reply in replies for block in _blocks(reply)]}
            ]
        case _:
            assert_never(turn)


def _without_thoughts(message: AssistantMessage) -> AssistantMessage:
    return attrs.evolve(message, verbatim=None) if message.verbatim is not None else message


def _texts(texts: Iterable[str]) -> list[dict[str, Any]]:
    return [{"text": each} for each in texts if each.strip()]


def _blocks(reply: PastReply) -> list[dict[str, Any]]:
    calls = [
        {"toolUse": {"toolUseId": call.id, "name": wire_name(call.name), "input": dict(call.arguments)}}
        for call in reply.calls
    ]
    return [*array(reply.verbatim), *_texts([reply.text]), *calls]


def _result(result: CallResult) -> dict[str, Any]:
    content = [{"text": result.content}, *map(_picture, result.pictures)]
    block: dict[str, Any] = {"toolUseId": result.id, "content": content}
    if result.is_error:
        block["status"] = "error"
    return {"toolResult": block}


def _picture(picture: Picture) -> dict[str, Any]:
    kind = picture.media_type.removeprefix("image/")
    return {"image": {"format": kind, "source": {"bytes": picture.data}}}


def _tool(name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    described = {"name": wire_name(name), "inputSchema": {"json": schema}}
    # An empty description is refused.
    return {"toolSpec": {**described, "description": description} if description.strip() else described}


# -------------------------------------------------------------------------- replies


def _asked(block: Mapping[str, Any]) -> CallIdentity | None:
    if not isinstance(block.get("toolUse"), dict):
        return None
    call = block["toolUse"]
    return text(call.get("toolUseId")), text(call.get("name")), call.get("input")


def _is_signed(reasoning: Mapping[str, Any]) -> bool:
    return bool(mapping(reasoning.get("reasoningText")).get("signature") or reasoning.get("redactedContent"))


def _usage(usage: object) -> Usage:
    fields = mapping(usage)
    read, written = count(fields.get("cacheReadInputTokens")), count(fields.get("cacheWriteInputTokens"))
    return Usage(
        input_tokens=count(fields.get("inputTokens")) + read + written,
        output_tokens=count(fields.get("outputTokens")),
        cached_tokens=read,
        cache_write_tokens=written,
    )


@attrs.define(eq=False)
class _ConverseBlock:
    """A block in progress."""

    call: int | None = None
    """Index of the call in the reply; None: the block is no call."""
    id: str = ""
    name: str = ""
    input: ArgumentPieces = attrs.field(factory=ArgumentPieces)
    texts: dict[str, list[str]] = attrs.field(factory=dict)
    """Pieces of text, thought, signature and hidden thought."""

    def whole(self) -> dict[str, Any]:
        if self.call is not None:
            return {"toolUse": {"toolUseId": self.id, "name": self.name, "input": self.input.text()}}
        said = {name: mend("".join(pieces)) for name, pieces in self.texts.items()}
        if "redactedContent" in said:
            return {"reasoningContent": {"redactedContent": said["redactedContent"]}}
        if "thought" in said or "signature" in said:
            thought = {"text": said.pop("thought", ""), **said}
            return {"reasoningContent": {"reasoningText": thought}}
        return said


class ConverseStream:
    """Assembles the message of a stream for `ConverseCodec.reply`."""

    def __init__(self, codec: ConverseCodec, request: ModelRequest, emit: Emit) -> None:
        self._codec = codec
        self._request = request
        self._emit = emit
        self._own_names = own_names(request.tools)
        self._blocks: list[_ConverseBlock] = []
        self._by_index: dict[str, _ConverseBlock] = {}
        """The last block of each index."""
        self._calls = 0
        self._text = TextPieces(emit)
        self._reason = ""
        self._usage: Mapping[str, Any] = {}
        self.ended = False

    @property
    def usage(self) -> Usage | None:
        return _usage(self._usage) if self._usage else None

    def feed(self, data: str) -> None:
        name, payload = aws_event(data)
        index = str(payload.get("contentBlockIndex"))
        match name:
            case "contentBlockStart":
                self._start(index, mapping(mapping(payload.get("start")).get("toolUse")))
            case "contentBlockDelta":
                self._delta(index, mapping(payload.get("delta")))
            case "messageStop":
                self._reason = text(payload.get("stopReason"))
            case "metadata":
                self._usage = mapping(payload.get("usage"))
                self.ended = bool(self._reason)

    def _start(self, index: str, call: Mapping[str, Any]) -> None:
        id, name = text(call.get("toolUseId")), text(call.get("name"))
        before = self._by_index.get(index)
        if not call or (before is not None and id and (before.id, before.name) == (id, name)):
            return  # no call, or the start of this one again
        begun = self._begin(index, _ConverseBlock(self._calls, id, name))
        self._calls += 1
        if before is not None and before.call is not None and not before.input.complete:
            # The pieces that follow may belong to either call.
            before.input.unclear = begun.input.unclear = True

    def _begin(self, index: str, block: _ConverseBlock) -> _ConverseBlock:
        self._by_index[index] = block
        self._blocks.append(block)
        return block

    def _delta(self, index: str, delta: Mapping[str, Any]) -> None:
        block = self._by_index.get(index)
        if json := piece(mapping(delta.get("toolUse")).get("input")):
            if block is None or block.call is None:
                raise not_understood("a piece of arguments belongs to no call", self.usage)
            block.input.add(json)
            self._emit(ArgumentsDelta(block.call, self._own_names.get(block.name, block.name), mend(json)))
        reasoning = mapping(delta.get("reasoningContent"))
        given = {"text": delta.get("text"), "thought": reasoning.get("text")}
        given |= {name: reasoning.get(name) for name in ("signature", "redactedContent")}
        for name, value in given.items():
            if next_piece := piece(value):
                if block is None or block.call is not None:
                    block = self._begin(index, _ConverseBlock())
                block.texts.setdefault(name, []).append(next_piece)
                if name == "text":
                    self._text.add(next_piece)

    def reply(self) -> ModelReply:
        if not self._reason:
            raise ended_early(self.usage)
        content = [block.whole() for block in self._blocks]
        answer = {"output": {"message": {"content": content}}, "stopReason": self._reason}
        return self._codec.reply({**answer, "usage": self._usage}, self._request)
