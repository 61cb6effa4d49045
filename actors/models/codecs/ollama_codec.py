"""The codec of Ollama's own API, `/api/chat`. Pure.

It knows options that Ollama's chat completions ignore (`ollama_options`), and with `truncate: false` it
refuses a prompt that is too long, of which chat completions cut the beginning without a word. It differs from
chat completions in these points:

* A stream has one JSON object a line; the last has `done: true`. An error may be a line.
* Arguments are objects in both directions, and a call arrives in one piece. It may have no id.
* Thoughts go back as `thinking` beside the calls of their reply.
* Settings of the model's runner are in `options`.

Source: https://docs.ollama.com/api/chat, and the types in api/types.go of ollama/ollama; the silent cut:
ollama#18107.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, assert_never

import attrs

from ....config.sections.models import ModelSpec
from ....runtime.json_text import Written, dump_wire
from ..messages.messages import ArgumentsDelta, Emit, ModelReply, ModelRequest, Usage, Verbatim
from .codec import (
    CallIdentity,
    TextPieces,
    ended_early,
    event_body,
    function_tools,
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
from .ollama_options import RUNNER
from .profiles import dialect_for
from .thinking_text import answer_in
from .turns import CallResult, ChatTurn, ModelTurn, PastReply, TurnStyle, UserTurn, WireMessage, wire_turns

_IDS = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ORIGIN = "ollama native"
"""Of verbatim content. Models by chat completions have other fields."""


@attrs.frozen
class OllamaCodec:
    spec: ModelSpec

    def body(self, request: ModelRequest) -> dict[str, Any]:
        spec = self.spec
        body: dict[str, Any] = {"model": spec.model, "messages": self._messages(request)}
        # Without it, the API streams.
        body["stream"] = spec.stream
        body["truncate"] = False
        if request.tools:
            body["tools"] = function_tools(request.tools, dialect_for(spec))
        settings: dict[str, Any] = {}
        if spec.max_tokens is not None:
            settings["num_predict"] = spec.max_tokens
        if spec.temperature is not None:
            settings["temperature"] = spec.temperature
        settings |= {name: value for name, value in spec.options.items() if name in RUNNER}
        if settings:
            body["options"] = settings
        others = {name: value for name, value in spec.options.items() if name not in RUNNER}
        return merged(body, others)

    def _messages(self, request: ModelRequest) -> list[WireMessage] | Written:
        system = [{"role": "system", "content": request.system}] if request.system.strip() else []
        return wire_turns(request, TurnStyle(self, self.spec.name, _ORIGIN, _IDS, _turn)).after(system)

    def reply(self, body: object, request: ModelRequest) -> ModelReply:
        answer = mapping(body)
        if answer.get("error"):
            raise from_error(answer["error"])
        usage = _usage(answer)
        if not isinstance(answer.get("message"), dict):
            raise not_understood("it has no message", usage)
        message = answer["message"]
        reason = text(answer.get("done_reason"))
        given = without_repeats(map(mapping, array(message.get("tool_calls"))), _asked)
        calls = tool_calls(map(_asked, given), own_names(request.tools), ended=bool(answer.get("done")))
        thinking = text(message.get("thinking"))
        verbatim = Verbatim(_ORIGIN, {"thinking": thinking}) if calls and thinking else None
        reply_text = answer_in(text(message.get("content")))
        return make_reply(reply_text, calls, usage, reason=reason, cut=reason == "length", verbatim=verbatim)

    def stream(self, request: ModelRequest, emit: Emit) -> OllamaStream:
        return OllamaStream(self, request, emit)


def _turn(turn: ChatTurn, before: ChatTurn | None) -> list[WireMessage]:
    match turn:
        case UserTurn(results=results, texts=texts, pictures=own):
            messages = [*map(_result, results)]
            shown = [result for result in results if result.pictures]
            if texts or shown:
                said = "\n\n".join([*(result.label for result in shown), *texts])
                message: WireMessage = {"role": "user", "content": said}
                # Many templates leave pictures out of results: ollama#16038.
                pictures = [*(each for result in shown for each in result.pictures), *own]
                if pictures:
                    message["images"] = [each.data for each in pictures]
                messages.append(message)
            return messages
        case ModelTurn(replies=replies):
            said = "\n\n".join(reply.text for reply in replies if reply.text)
            return [{"role": "assistant", "content": said, **_asked_before(replies[-1])}]
        case _:
            assert_never(turn)


def _asked_before(reply: PastReply) -> dict[str, Any]:
    if not reply.calls:
        return {}
    calls = [
        {"id": call.id, "function": {"name": wire_name(call.name), "arguments": dict(call.arguments)}}
        for call in reply.calls
    ]
    return {**mapping(reply.verbatim), "tool_calls": calls}


def _result(result: CallResult) -> dict[str, Any]:
    """A message with a result. The API has no mark for errors, so the text names them."""
    content = f"Error: {result.content}" if result.is_error else result.content
    name = wire_name(result.name)
    return {"role": "tool", "tool_name": name, "tool_call_id": result.id, "content": content}


def _asked(call: Mapping[str, Any]) -> CallIdentity:
    function = mapping(call.get("function"))
    return text(call.get("id")), text(function.get("name")), function.get("arguments")


def _usage(answer: Mapping[str, Any]) -> Usage:
    return Usage(
        input_tokens=count(answer.get("prompt_eval_count")), output_tokens=count(answer.get("eval_count"))
    )


class OllamaStream:
    """Joins the messages of all lines for `OllamaCodec.reply`."""

    def __init__(self, codec: OllamaCodec, request: ModelRequest, emit: Emit) -> None:
        self._codec = codec
        self._request = request
        self._emit = emit
        self._own_names = own_names(request.tools)
        self._text = TextPieces(emit)
        self._thinking: list[str] = []
        self._calls: list[Any] = []
        self._last: Mapping[str, Any] = {}
        self.ended = False

    @property
    def usage(self) -> Usage | None:
        return _usage(self._last) if self.ended else None

    def feed(self, data: str) -> None:
        line = mapping(event_body(data))
        if line.get("error"):
            raise from_error(line["error"])
        message = mapping(line.get("message"))
        self._text.add(piece(message.get("content")))
        self._thinking.append(piece(message.get("thinking")))
        for call in map(mapping, array(message.get("tool_calls"))):
            _, name, arguments = _asked(call)
            json = dump_wire(arguments or {}).decode()
            self._emit(ArgumentsDelta(len(self._calls), self._own_names.get(name, name), json))
            self._calls.append(call)
        if line.get("done") is True:
            self._last = line
            self.ended = True

    def reply(self) -> ModelReply:
        if not self.ended:
            raise ended_early()
        message = {
            "content": self._text.whole(),
            "thinking": "".join(self._thinking),
            "tool_calls": self._calls,
        }
        return self._codec.reply({**self._last, "message": message}, self._request)
