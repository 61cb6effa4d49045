"""The codec of Anthropic's Messages API. Pure.

A message is a list of blocks: `text`, `thinking`, `tool_use`, `tool_result` and others. Messages of user and
assistant alternate. This API differs from the others in these points:

* `max_tokens` is required and includes thinking.
* Thinking blocks are signed. They must be sent back unchanged while their turn lasts, and a signature is
  invalid if anything before it has changed: `AnthropicCodec.body`.
* A history with calls needs a declaration of their tools, even if none is offered now.
* The request marks what the provider is to cache, in at most four places: `_mark_cached`.
* A stream sends numbered blocks in pieces. `AnthropicStream` assembles the message for `reply`.

Source: https://docs.anthropic.com/en/api/messages and the pages there on streaming, tool use, extended
thinking and prompt caching.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import attrs

from ....config.sections.models import ModelSpec
from ....runtime.json_text import dump, mend
from ...tools.pictures import Picture
from ..messages.messages import (
    ArgumentsDelta,
    AssistantMessage,
    Emit,
    ModelFailed,
    ModelReply,
    ModelRequest,
    ToolCall,
    Usage,
    Verbatim,
)
from .codec import (
    CallIdentity,
    TextPieces,
    ended_early,
    event_body,
    make_reply,
    merged,
    not_understood,
    own_names,
    tool_calls,
    wire_name,
    with_answer,
    with_final_arguments,
    without_repeats,
)
from .faults import from_error
from .json_fields import array, count, mapping, piece, read_arguments, text
from .profiles import dialect_for
from .stream_calls import ArgumentPieces
from .thinking_text import answer_in
from .turns import CallResult, ChatTurn, ModelTurn, PastReply, TurnStyle, UserTurn, WireMessage, wire_turns

MAX_TOKENS = 8192
"""Tokens of a reply if the agent file sets no limit."""
NOT_AVAILABLE = "This tool is no longer available."
CACHED = {"type": "ephemeral"}
"""Marks the end of a prefix to cache, for five minutes from its last use."""

_IDS = re.compile(r"[A-Za-z0-9_-]{1,64}")
_THOUGHTS = ("thinking", "redacted_thinking")
_CUT = ("max_tokens", "model_context_window_exceeded")


@attrs.frozen
class AnthropicCodec:
    spec: ModelSpec
    origin: str = "anthropic"
    """The service. Thoughts of another one are not sent to it: which models read which thoughts differs."""

    def body(self, request: ModelRequest) -> dict[str, Any]:
        spec, options = self.spec, self.spec.options
        manual = mapping(options.get("thinking")).get("type") == "enabled"
        # A signature covers everything that was sent before its thought: tools and prompt, which change
        # between turns, and messages, which `context_window.fit` may have removed. The API requires thoughts
        # while their turn lasts. With thinking of type `enabled` (`manual`), it does not check the messages
        # before them.
        stripped = len(request.messages) if request.trimmed and not manual else request.before
        style = TurnStyle(self, spec.name, self.origin, _IDS, _turn, strip=self._without_thoughts)
        found = wire_turns(request, style, stripped)
        dialect = dialect_for(spec)
        tools = [_tool(tool.name, *tool.shown(dialect)) for tool in request.tools]
        body: dict[str, Any] = {"model": spec.model, "max_tokens": self._max_tokens(), "messages": ()}
        if request.system.strip():
            body["system"] = [{"type": "text", "text": request.system}]
        if tools:
            body["tools"] = tools
        elif found.called:
            # The API rejects calls in the history without a declaration of their tools.
            body["tools"] = [_tool(name, NOT_AVAILABLE, {"type": "object"}) for name in found.called]
            body["tool_choice"] = {"type": "none"}
        if spec.temperature is not None:
            body["temperature"] = spec.temperature
        if spec.stream:
            body["stream"] = True
        if "cache_control" not in options:
            _mark_cached(body, found.messages)
        body["messages"] = found.after()
        body = merged(body, options)
        if body.get("cache_control", CACHED) is None:
            del body["cache_control"]
        if manual and not _may_think(found.messages):
            body["thinking"] = {"type": "disabled"}
        return body

    def _without_thoughts(self, message: AssistantMessage) -> AssistantMessage:
        """A reply whose signatures are no longer valid."""
        verbatim = message.verbatim
        if verbatim is None or verbatim.provider != self.origin:
            return message
        kept = [block for block in array(verbatim.content) if block.get("type") not in _THOUGHTS]
        return attrs.evolve(message, verbatim=Verbatim(self.origin, kept) if kept else None)

    def _max_tokens(self) -> int:
        # Thinking counts as output and must leave room for an answer.
        budget = count(mapping(self.spec.options.get("thinking")).get("budget_tokens"))
        return self.spec.max_tokens or budget + MAX_TOKENS

    def reply(self, body: object, request: ModelRequest) -> ModelReply:
        answer = mapping(body)
        if answer.get("error"):
            raise from_error(answer["error"])
        usage = _usage(answer.get("usage"))
        if not isinstance(answer.get("content"), list):
            raise not_understood("it has no content", usage)
        blocks = without_repeats(map(mapping, answer["content"]), _asked)
        said = "".join(text(block.get("text")) for block in blocks if _is_text(block))
        reply_text = answer_in(said)
        if reply_text != said:  # of a compatible server: anthropic-sdk-python#1109
            blocks = with_answer(blocks, _is_text, _text_block(reply_text))
        reason = text(answer.get("stop_reason"))
        calls = tool_calls(filter(None, map(_asked, blocks)), own_names(request.tools), ended=bool(reason))
        if reason == "refusal":
            why = text(mapping(answer.get("stop_details")).get("explanation"))
            raise ModelFailed(
                f"the model refused: {why}" if why else "the model refused to answer", usage=usage
            )
        if reason == "pause_turn":
            raise ModelFailed("the provider paused the reply; paused replies are not supported", usage=usage)
        if reason == "model_context_window_exceeded" and not reply_text and not calls:
            raise ModelFailed("the conversation fills the context window of the model", usage=usage)
        plain = [*_text_block(reply_text), *(_call_block(call) for call in calls)]
        verbatim = None if blocks == plain else Verbatim(self.origin, [dict(block) for block in blocks])
        return make_reply(reply_text, calls, usage, reason=reason, cut=reason in _CUT, verbatim=verbatim)

    def stream(self, request: ModelRequest, emit: Emit) -> AnthropicStream:
        return AnthropicStream(self, request, emit)


# ------------------------------------------------------------------------- requests


def _turn(turn: ChatTurn, before: ChatTurn | None) -> list[WireMessage]:
    match turn:
        case UserTurn(results=results, texts=texts, pictures=pictures):
            blocks = [_result_block(result) for result in results]
            blocks += [block for result in results if result.pictures for block in _beside(result)]
            # Claude works best with pictures before the text about them (docs.anthropic.com, "Vision").
            blocks += map(_picture_block, pictures)
            blocks += [{"type": "text", "text": text} for text in texts]
            return [{"role": "user", "content": blocks}]
        case ModelTurn(replies=replies):
            return [
                {"role": "assistant", "content": [block for reply in replies for block in _blocks(reply)]}
            ]
        case _:
            assert_never(turn)


def _tool(name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": wire_name(name), "description": description, "input_schema": schema}


def _text_block(reply_text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": reply_text}] if reply_text else []


def _call_block(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": wire_name(call.name), "input": dict(call.arguments)}


def _result_block(result: CallResult) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.id}
    if result.pictures and not result.is_error:
        block["content"] = [*_text_block(result.content.strip()), *map(_picture_block, result.pictures)]
    elif result.content.strip():
        block["content"] = result.content
    if result.is_error:
        block["is_error"] = True
    return block


def _beside(result: CallResult) -> list[dict[str, Any]]:
    """The pictures of an error, which may have only text inside."""
    if not result.is_error:
        return []
    return [*_text_block(result.label), *map(_picture_block, result.pictures)]


def _picture_block(picture: Picture) -> dict[str, Any]:
    return {
        "type": "image",
        "source": {"type": "base64", "media_type": picture.media_type, "data": picture.data},
    }


def _blocks(reply: PastReply) -> list[dict[str, Any]]:
    """The blocks of a reply: verbatim if possible, with the ids of this request and the final arguments."""
    kept = [dict(block) for block in array(reply.verbatim) if not _is_blank(block)]
    given = [block for block in kept if block.get("type") == "tool_use"]
    final = with_final_arguments([block.get("input") for block in given], reply.calls)
    if reply.verbatim is None or final is None:
        return [*_text_block(reply.text), *(_call_block(call) for call in reply.calls)]
    for block, call, arguments in zip(given, reply.calls, final, strict=True):
        block["id"], block["name"] = call.id, wire_name(call.name)
        if arguments is not None or not isinstance(block.get("input"), dict):
            block["input"] = dict(call.arguments)
    return kept


def _is_blank(block: Mapping[str, Any]) -> bool:
    """Whether a block is a blank text. The API sends such blocks and refuses them in requests."""
    return block.get("type") == "text" and not text(block.get("text")).strip()


def _mark_cached(body: dict[str, Any], messages: Sequence[WireMessage]) -> None:
    """Mark four prefixes, the maximum: the tools, the system prompt, and the history up to the last two user
    messages. The older one of these hits the cache entry of the previous call."""
    users = [message for message in messages if message["role"] == "user"]
    for blocks in (body.get("tools"), body.get("system"), *(message["content"] for message in users[-2:])):
        if blocks:
            blocks[-1] = {**blocks[-1], "cache_control": CACHED}


def _may_think(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the API allows thinking. It does not within a turn that began without a thought, for instance
    with a reply of another model."""
    if not any(block.get("type") == "tool_result" for block in messages[-1]["content"]):
        return True
    return messages[-2]["content"][0].get("type") in _THOUGHTS


# -------------------------------------------------------------------------- replies


def _is_text(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "text"


def _asked(block: Mapping[str, Any]) -> CallIdentity | None:
    if block.get("type") != "tool_use":
        return None
    return text(block.get("id")), text(block.get("name")), block.get("input")


def _usage(usage: object) -> Usage:
    fields = mapping(usage)
    read = count(fields.get("cache_read_input_tokens"))
    written = count(fields.get("cache_creation_input_tokens"))
    return Usage(
        input_tokens=count(fields.get("input_tokens")) + read + written,
        output_tokens=count(fields.get("output_tokens")),
        cached_tokens=read,
        cache_write_tokens=written,
    )


@attrs.define(eq=False)
class _Block:
    """A block in progress. Its pieces are joined when it is complete."""

    start: dict[str, Any]
    call: int | None
    """Index of the call in the reply; None: the block is no call."""
    pieces: dict[str, list[str]] = attrs.field(factory=dict)
    """Pieces of texts, by their name in the block."""
    input: ArgumentPieces = attrs.field(factory=ArgumentPieces)
    citations: list[Any] = attrs.field(factory=list)
    stopped: bool = False

    def whole(self) -> dict[str, Any]:
        block = dict(self.start)
        for name, pieces in self.pieces.items():
            block[name] = mend(piece(block.get(name)) + "".join(pieces))
        if self.citations:
            block["citations"] = self.citations
        if self.input.unclear or not self.input.blank:
            block["input"] = self.input.text()
            if read_arguments(block["input"]).problem is None:  # else `tool_calls` tells it to the model
                block["input"] = read_arguments(block["input"]).value
        return block

    @property
    def is_open(self) -> bool:
        """Whether more of a call's input may come."""
        return self.call is not None and not self.stopped and not self.input.complete


_TEXTS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class AnthropicStream:
    """Assembles the message of a stream for `AnthropicCodec.reply`."""

    def __init__(self, codec: AnthropicCodec, request: ModelRequest, emit: Emit) -> None:
        self._codec = codec
        self._request = request
        self._emit = emit
        self._own_names = own_names(request.tools)
        self._blocks: list[_Block] = []
        self._by_index: dict[str, _Block] = {}
        """The last block of each index, because some servers use an index again."""
        self._calls = 0
        self._text = TextPieces(emit)
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self.ended = False

    @property
    def usage(self) -> Usage | None:
        return _usage(self._usage) if self._usage else None

    def feed(self, data: str) -> None:
        body = mapping(event_body(data))
        kind = body.get("type")
        # Some gateways send nothing but pings after the reason of the end: better-ccflare#307.
        self.ended = kind == "message_stop" or bool(kind == "ping" and self._message.get("stop_reason"))
        match kind:
            case "message_start":
                self._count(mapping(body.get("message")).get("usage"))
            case "content_block_start":
                self._start(str(body.get("index")), dict(mapping(body.get("content_block"))))
            case "content_block_delta":
                self._delta(self._by_index.get(str(body.get("index"))), mapping(body.get("delta")))
            case "content_block_stop":
                if block := self._by_index.get(str(body.get("index"))):
                    block.stopped = True
            case "message_delta":
                self._message |= mapping(body.get("delta"))
                self._count(body.get("usage"))
            case "error":
                raise from_error(body.get("error"))
            case None if body.get("error"):  # of a cloud in front of the API
                raise from_error(body["error"])

    def _count(self, usage: object) -> None:
        """Update the usage. The API sends totals, not increments."""
        self._usage |= {key: value for key, value in mapping(usage).items() if value is not None}

    def _start(self, index: str, block: dict[str, Any]) -> None:
        before = self._by_index.get(index)
        asked = _asked(block)
        if before is not None and asked is not None and asked[0] and _asked(before.start) == asked:
            return  # the start of this call again
        call = None
        if asked is not None:
            call, self._calls = self._calls, self._calls + 1
        begun = self._by_index[index] = _Block(block, call)
        self._blocks.append(begun)
        if block.get("type") == "text":
            self._text.add(piece(block.get("text")))
        elif block.get("input"):
            begun.input.add(dump(block["input"]))
        if before is not None and before.is_open and call is not None:
            # The pieces that follow may belong to either call.
            before.input.unclear = begun.input.unclear = True

    def _delta(self, block: _Block | None, delta: Mapping[str, Any]) -> None:
        if block is None:
            raise not_understood("a piece belongs to no block", self.usage)
        kind = piece(delta.get("type"))
        if kind in _TEXTS:
            next_piece = piece(delta.get(_TEXTS[kind]))
            block.pieces.setdefault(_TEXTS[kind], []).append(next_piece)
            if kind == "text_delta":
                self._text.add(next_piece)
        elif kind == "input_json_delta":
            json = piece(delta.get("partial_json"))
            if json and not piece(block.start.get("type")).endswith("tool_use"):
                raise not_understood("a piece of arguments belongs to no call", self.usage)
            block.input.add(json)
            if json and block.call is not None:
                name = text(block.start.get("name"))
                self._emit(ArgumentsDelta(block.call, self._own_names.get(name, name), mend(json)))
        elif kind == "citations_delta":
            block.citations.append(delta.get("citation"))

    def reply(self) -> ModelReply:
        # The reason follows all blocks. Some gateways leave out `message_stop`: DeepSeek-Reasonix#8756.
        if not self._message.get("stop_reason"):
            raise ended_early(self.usage)
        content = [block.whole() for block in self._blocks]
        return self._codec.reply({**self._message, "content": content, "usage": self._usage}, self._request)
