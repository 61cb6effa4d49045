"""The codec of chat completions, the API of OpenAI that many servers imitate. Pure.

A message has a role, a text and, for an assistant, `tool_calls`; each result is a message of its own. Servers
differ, and `Flavour` names the differences that a request must respect. Answers are read tolerantly:

* Arguments are JSON text, an object or absent. Ids may be missing or repeated.
* A reply has calls if it has `tool_calls`, whatever its `finish_reason` is.
* Pieces of a call belong together by `index` or by id: `stream_calls`.
* An error may come with status 200, in the answer, in a choice or in the middle of a stream.

Source: https://platform.openai.com/docs/api-reference/chat, and observed differences of the servers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

import attrs

from ....config.sections.models import ModelSpec
from ....runtime.json_text import Written, dump_wire, mend
from ...tools.pictures import Picture
from ..messages.messages import ArgumentsDelta, Emit, ModelFailed, ModelReply, ModelRequest, Usage, Verbatim
from .codec import (
    CallIdentity,
    TextPieces,
    empty_reply,
    ended_early,
    event_body,
    function_tools,
    joined,
    make_reply,
    merged,
    not_understood,
    own_names,
    tool_calls,
    wire_name,
    without_repeats,
)
from .faults import from_error
from .json_fields import array, count, mapping, piece, text
from .profiles import Flavour, dialect_for
from .stream_calls import StreamCalls, StreamedCall
from .thinking_text import answer_in
from .turns import CallResult, ChatTurn, ModelTurn, PastReply, TurnStyle, UserTurn, WireMessage, wire_turns

GO_ON = "I have the results."
"""The assistant message between a result and a user message, for servers that require one."""

_DIGITS = 10
_CUT = ("length", "model_length")
_BROKEN_OFF = ("error", "abort", "insufficient_system_resource")
"""Reasons of an incomplete reply: of Mistral and OpenRouter, of SGLang, of DeepSeek. An incomplete call looks
like one without arguments."""


@attrs.frozen
class OpenAICodec:
    spec: ModelSpec
    flavour: Flavour

    def body(self, request: ModelRequest) -> dict[str, Any]:
        spec = self.spec
        body: dict[str, Any] = {"model": spec.model, "messages": self._messages(request)}
        if request.tools:
            body["tools"] = function_tools(request.tools, dialect_for(spec))
        if spec.max_tokens is not None:
            body[self.flavour.max_tokens] = spec.max_tokens
        if spec.temperature is not None:
            body["temperature"] = spec.temperature
        if spec.stream:
            body["stream"] = True
            if self.flavour.stream_usage:
                body["stream_options"] = {"include_usage": True}
        return merged(body, spec.options)

    def _messages(self, request: ModelRequest) -> list[WireMessage] | Written:
        system = [{"role": "system", "content": request.system}] if request.system.strip() else []
        spec = self.spec
        style = TurnStyle(self, spec.name, spec.provider, self.flavour.ids, self._turn)
        return wire_turns(request, style).after(system)

    def _turn(self, turn: ChatTurn, before: ChatTurn | None) -> list[WireMessage]:
        match turn:
            case UserTurn(results=results, texts=texts, pictures=own):
                messages = [_result(result, self.flavour) for result in results]
                pictures = [part for result in results if result.pictures for part in _beside(result)]
                pictures += map(_picture_part, own)
                if texts or pictures:
                    if results and not self.flavour.user_after_tool:
                        messages.append({"role": "assistant", "content": GO_ON})
                    said = "\n\n".join(texts)
                    # A result may have only text, and nothing may be between two results.
                    if pictures and texts:
                        pictures.append({"type": "text", "text": said})
                    messages.append({"role": "user", "content": pictures or said})
                return messages
            case ModelTurn(replies=replies):
                message = _message(replies[-1])
                reply_text = [reply.text for reply in replies if reply.text]
                # Templates of many open models require that user and assistant alternate.
                return [{**message, "content": "\n\n".join(reply_text) or None}]
            case _:
                assert_never(turn)

    def reply(self, body: object, request: ModelRequest) -> ModelReply:
        answer = mapping(body)
        usage = _usage(answer.get("usage"))
        choice = mapping(next(iter(array(answer.get("choices"))), None))
        error = choice.get("error") or answer.get("error")
        if error:
            raise _with_usage(from_error(error), usage)
        if not choice:
            if answer.get("choices") == []:
                raise empty_reply("", usage)
            raise not_understood("it has no choices", usage)
        message = mapping(choice.get("message"))
        reply_text = answer_in(_text(message.get("content")))
        given = without_repeats(map(mapping, array(message.get("tool_calls"))), _asked)
        reason = text(choice.get("finish_reason"))
        calls = tool_calls(map(_asked, given), own_names(request.tools), ended=bool(reason))
        refusal = text(message.get("refusal"))
        if refusal:
            raise ModelFailed(f"the model refused: {refusal}", usage=usage)
        if reason == "content_filter":
            raise ModelFailed("the provider's content filter stopped the reply", usage=usage)
        if reason in _BROKEN_OFF:
            why = f'the provider broke the reply off (finish_reason "{reason}")'
            raise ModelFailed(why, retryable=True, usage=usage)
        verbatim = self._verbatim(message, given)
        return make_reply(reply_text, calls, usage, reason=reason, cut=reason in _CUT, verbatim=verbatim)

    def _verbatim(self, message: Mapping[str, Any], calls: list[Mapping[str, Any]]) -> Verbatim | None:
        """The fields to send back; None for a reply without calls, which ends its turn."""
        kept = {name: message[name] for name in self.flavour.returned if message.get(name)}
        # Gemini's compatible API puts its signatures here.
        if any("extra_content" in call for call in calls):
            kept["tool_calls"] = [{"extra_content": call.get("extra_content")} for call in calls]
        return Verbatim(self.spec.provider, kept) if calls and kept else None

    def stream(self, request: ModelRequest, emit: Emit) -> OpenAIStream:
        return OpenAIStream(self, request, emit)


def _result(result: CallResult, flavour: Flavour) -> dict[str, Any]:
    """A message with a result. The API has no mark for errors, so the text names them."""
    content = f"Error: {result.content}" if result.is_error else result.content
    message = {"role": "tool", "tool_call_id": result.id, "content": content}
    if flavour.result_name:
        message["name"] = wire_name(result.name)
    return message


def _beside(result: CallResult) -> list[dict[str, Any]]:
    return [{"type": "text", "text": result.label}, *map(_picture_part, result.pictures)]


def _picture_part(picture: Picture) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": picture.url}}


def _message(reply: PastReply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant"}
    if not reply.calls:
        return message
    kept = mapping(reply.verbatim)
    extras = array(kept.get("tool_calls"))
    calls = []
    for index, call in enumerate(reply.calls):
        function = {"name": wire_name(call.name), "arguments": dump_wire(call.arguments).decode()}
        wired: dict[str, Any] = {"id": call.id, "type": "function", "function": function}
        if index < len(extras) and extras[index]["extra_content"] is not None:
            wired |= extras[index]
        calls.append(wired)
    return {**message, **kept, "tool_calls": calls}


def _asked(call: Mapping[str, Any]) -> CallIdentity:
    function = mapping(call.get("function"))
    return text(call.get("id")), text(function.get("name")), function.get("arguments")


def _text(content: object) -> str:
    """The text of a content, which may be a list of chunks. Other chunks than texts are not for the user."""
    if isinstance(content, list):
        return "".join(piece(mapping(chunk).get("text")) for chunk in content)
    return piece(content)


def _index(given: object) -> int | None:
    """The index of a piece, which may be a text."""
    if isinstance(given, str) and given.isdecimal() and len(given) < _DIGITS:
        return int(given)
    return given if isinstance(given, int) and not isinstance(given, bool) else None


def _usage(usage: object) -> Usage:
    fields = mapping(usage)
    details = mapping(fields.get("prompt_tokens_details"))
    return Usage(
        input_tokens=count(fields.get("prompt_tokens")),
        output_tokens=count(fields.get("completion_tokens")),
        cached_tokens=count(details.get("cached_tokens")),
        cache_write_tokens=count(details.get("cache_write_tokens")),
    )


def _with_usage(failure: ModelFailed, usage: Usage) -> ModelFailed:
    failure.usage = usage
    return failure


class OpenAIStream:
    """Assembles the message of a stream for `OpenAICodec.reply`."""

    def __init__(self, codec: OpenAICodec, request: ModelRequest, emit: Emit) -> None:
        self._codec = codec
        self._request = request
        self._emit = emit
        self._own_names = own_names(request.tools)
        self._text = TextPieces(emit)
        self._calls = StreamCalls({wire_name(tool.name) for tool in request.tools})
        self._extras: dict[str, list[Any]] = {}
        self._refusal: list[str] = []
        self._finish: object = None
        self._usage: object = None
        self.ended = False

    @property
    def usage(self) -> Usage | None:
        return _usage(self._usage) if self._usage else None

    def feed(self, data: str) -> None:
        if data.strip() == "[DONE]":
            self.ended = True
            return
        chunk = mapping(event_body(data))
        if chunk.get("error"):
            raise from_error(chunk["error"])
        self._usage = chunk.get("usage") or self._usage
        choice = mapping(next(iter(array(chunk.get("choices"))), None))
        if choice.get("error"):
            raise from_error(choice["error"])
        self._finish = choice.get("finish_reason") or self._finish
        # Some gateways put a whole answer into one event.
        delta = mapping(choice.get("delta" if "delta" in choice else "message"))
        self._text.add(_text(delta.get("content")))
        if delta.get("refusal"):
            self._refusal.append(text(delta["refusal"]))
        for name in self._codec.flavour.returned:
            if delta.get(name):
                self._extras.setdefault(name, []).append(delta[name])
        for given in array(delta.get("tool_calls")):
            self._add(mapping(given))

    def _add(self, given: Mapping[str, Any]) -> None:
        function = mapping(given.get("function"))
        arguments = function.get("arguments")
        json = piece(arguments)
        if arguments is not None and not isinstance(arguments, str):
            json = dump_wire(arguments).decode()
        id, name = text(given.get("id")), text(function.get("name"))
        call = self._calls.add(_index(given.get("index")), id, name, json)
        if call is None:
            return
        if "extra_content" in given:
            call.extra = {"extra_content": given["extra_content"]}
        if json:
            name = self._calls.name(call)
            self._emit(ArgumentsDelta(call.place, self._own_names.get(name, name), mend(json)))

    def reply(self) -> ModelReply:
        if not self.ended and self._finish is None:
            raise ended_early(self.usage)
        message = {
            **{name: joined(pieces) for name, pieces in self._extras.items()},
            "content": self._text.whole(),
            "refusal": "".join(self._refusal),
            "tool_calls": self._calls.whole(_wired),
        }
        choice = {"message": message, "finish_reason": self._finish}
        return self._codec.reply({"choices": [choice], "usage": self._usage}, self._request)


def _wired(call: StreamedCall, name: str, arguments: str) -> dict[str, Any]:
    """A call as an answer without a stream has it."""
    function = {"name": name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function, **call.extra}
