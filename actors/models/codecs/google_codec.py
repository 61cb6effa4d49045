"""The codec of Gemini's generateContent. Pure.

A content has a role, `user` or `model`, and parts: `text`, `functionCall`, `functionResponse`. This API
differs from the others in these points:

* Arguments are objects, and a call arrives in one piece. A call may have no id.
* Parts carry a `thoughtSignature`, which must be sent back in the part where it came. Gemini 3 rejects a
  call without one, so a call of another model gets `NO_SIGNATURE`.
* `finishReason` is `STOP` for calls too. Errors of the model are reasons such as `MALFORMED_FUNCTION_CALL`.
* A stream has no mark of its end. `GoogleStream` joins the parts of all events.

Source: https://ai.google.dev/api/generate-content, and the pages function-calling and thought-signatures of
https://ai.google.dev/gemini-api/docs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never
from urllib.parse import quote

import attrs

from ....config.sections.models import ModelSpec
from ....runtime.json_text import Written, dump_wire
from ...tools.pictures import Picture
from ..messages.messages import ArgumentsDelta, Emit, ModelFailed, ModelReply, ModelRequest, Usage, Verbatim
from .codec import (
    ANY_ID,
    CallIdentity,
    TextPieces,
    empty_reply,
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
from .json_fields import Unclear, array, count, mapping, piece, text
from .profiles import dialect_for
from .thinking_text import answer_in
from .turns import CallResult, ChatTurn, ModelTurn, PastReply, TurnStyle, UserTurn, WireMessage, wire_turns

NO_SIGNATURE = "skip_thought_signature_validator"
"""Replaces the signature of a call that another model made."""

_BLOCKED = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE")
_FAULTS = ("MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS")
"""Errors of the model. A retry may succeed."""


def path(spec: ModelSpec) -> str:
    """The path of the model's endpoint below the base URL."""
    model = spec.model if "/" in spec.model else f"models/{spec.model}"
    return f"/v1beta/{quote(model)}:{method(spec)}"


def method(spec: ModelSpec) -> str:
    """The method of the API, at the end of the path."""
    return "streamGenerateContent?alt=sse" if spec.stream else "generateContent"


@attrs.frozen
class GoogleCodec:
    spec: ModelSpec
    origin: str = "google"
    """The service. Signatures of another one are not sent to it."""

    def body(self, request: ModelRequest) -> dict[str, Any]:
        spec = self.spec
        body: dict[str, Any] = {"contents": self._contents(request)}
        if request.system.strip():
            body["systemInstruction"] = {"parts": [{"text": request.system}]}
        if request.tools:
            dialect = dialect_for(spec)
            declared = [
                {
                    "name": wire_name(tool.name),
                    "description": tool.shown(dialect)[0],
                    "parametersJsonSchema": tool.shown(dialect)[1],
                }
                for tool in request.tools
            ]
            body["tools"] = [{"functionDeclarations": declared}]
        settings: dict[str, Any] = {}
        if spec.max_tokens is not None:
            settings["maxOutputTokens"] = spec.max_tokens
        if spec.temperature is not None:
            settings["temperature"] = spec.temperature
        if settings:
            body["generationConfig"] = settings
        return merged(body, spec.options)

    def _contents(self, request: ModelRequest) -> list[WireMessage] | Written:
        style = TurnStyle(self, self.spec.name, self.origin, ANY_ID, _content)
        return wire_turns(request, style).after()

    def reply(self, body: object, request: ModelRequest) -> ModelReply:
        # Errors may come in a list.
        answer = mapping(next(iter(body), None) if isinstance(body, list) else body)
        if answer.get("error"):
            raise from_error(answer["error"])
        usage = _usage(answer.get("usageMetadata"))
        blocked = text(mapping(answer.get("promptFeedback")).get("blockReason"))
        if blocked:
            raise ModelFailed(f"the prompt was blocked ({blocked})", usage=usage)
        candidates = array(answer.get("candidates"))
        if not candidates:
            raise empty_reply("no candidate", usage) if answer else not_understood("it has no candidate")
        candidate = mapping(candidates[0])
        parts = without_repeats(map(_part, array(mapping(candidate.get("content")).get("parts"))), _asked)
        said = "".join(text(part.get("text")) for part in parts if _is_text(part))
        reply_text = answer_in(said)
        if reply_text != said:  # of an open model
            parts = with_answer(parts, _is_text, _text_part(reply_text))
        reason = text(candidate.get("finishReason"))
        calls = tool_calls(filter(None, map(_asked, parts)), own_names(request.tools), ended=bool(reason))
        why = ": ".join(filter(None, (reason, text(candidate.get("finishMessage")))))
        _check(reason, why, usage)
        if calls and reason == "OTHER":
            # Calls may be missing.
            raise ModelFailed("the reply ended for an unknown reason", retryable=True, usage=usage)
        plain = [
            *_text_part(reply_text),
            *({"functionCall": dict(_call(call.name, call.arguments))} for call in calls),
        ]
        verbatim = None if parts == plain else Verbatim(self.origin, [dict(part) for part in parts])
        return make_reply(reply_text, calls, usage, reason=why, cut=reason == "MAX_TOKENS", verbatim=verbatim)

    def stream(self, request: ModelRequest, emit: Emit) -> GoogleStream:
        return GoogleStream(self, request, emit)


# ------------------------------------------------------------------------- requests


def _content(turn: ChatTurn, before: ChatTurn | None) -> list[WireMessage]:
    match turn:
        case UserTurn(results=results, texts=texts, pictures=pictures):
            parts: list[dict[str, Any]] = []
            for id, result in zip(_call_ids(before) if results else (), results, strict=True):
                parts.append({"functionResponse": _response(id, result)})
            # Models before Gemini 3 refuse pictures inside a response.
            for result in results:
                if result.pictures:
                    parts += [{"text": result.label}, *map(_picture_part, result.pictures)]
            parts += map(_picture_part, pictures)
            parts += [{"text": text} for text in texts]
            return [{"role": "user", "parts": parts}]
        case ModelTurn():
            return [{"role": "model", "parts": _model_parts(turn)}]
        case _:
            assert_never(turn)


def _model_parts(turn: ModelTurn) -> list[dict[str, Any]]:
    return [part for reply in turn.replies for part in _parts(reply)]


def _call_ids(turn: ChatTurn | None) -> list[object]:
    """The model's own ids of its calls, each of which may be missing."""
    assert isinstance(turn, ModelTurn)  # results follow their calls
    return [part["functionCall"].get("id") for part in _model_parts(turn) if "functionCall" in part]


def _response(id: object, result: CallResult) -> dict[str, Any]:
    response = {"error" if result.is_error else "output": result.content}
    fields: dict[str, Any] = {"name": wire_name(result.name), "response": response}
    # Only the model's own id, because it would not know another.
    return {"id": id, **fields} if id is not None else fields


def _picture_part(picture: Picture) -> dict[str, Any]:
    return {"inlineData": {"mimeType": picture.media_type, "data": picture.data}}


def _parts(reply: PastReply) -> list[dict[str, Any]]:
    """The parts of a reply: verbatim if possible, with the final arguments."""
    kept = [
        dict(part) for part in array(reply.verbatim) if part.get("text") != "" or "thoughtSignature" in part
    ]
    given: list[dict[str, Any]] = [part for part in kept if "functionCall" in part]
    final = with_final_arguments([part["functionCall"].get("args") for part in given], reply.calls)
    if reply.verbatim is None or final is None:
        given = [{"functionCall": _call(call.name, call.arguments)} for call in reply.calls]
        kept = [*_text_part(reply.text), *given]
    else:
        for part, call, arguments in zip(given, reply.calls, final, strict=True):
            if arguments is not None or part["functionCall"].get("name") != wire_name(call.name):
                part["functionCall"] = {**part["functionCall"], **_call(call.name, call.arguments)}
    if given and not any("thoughtSignature" in part for part in given):
        given[0]["thoughtSignature"] = NO_SIGNATURE
    return kept


def _text_part(reply_text: str) -> list[dict[str, Any]]:
    return [{"text": reply_text}] if reply_text else []


def _call(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": wire_name(name), "args": dict(arguments)}


# -------------------------------------------------------------------------- replies


def _check(reason: str, why: str, usage: Usage) -> None:
    """Raise `ModelFailed` for a reason that stands for an error."""
    if reason in _BLOCKED:
        raise ModelFailed(f"the reply was blocked ({why})", usage=usage)
    if reason in _FAULTS:
        raise ModelFailed(f"the model made a mistake ({why})", retryable=True, usage=usage)
    if reason == "MISSING_THOUGHT_SIGNATURE":
        raise ModelFailed(f"the provider reports a missing signature ({why})", usage=usage)


def _is_text(part: Mapping[str, Any]) -> bool:
    return "text" in part and not part.get("thought")


def _asked(part: Mapping[str, Any]) -> CallIdentity | None:
    """The call of a part. With `partialArgs`, which the options may ask for, it is in several parts."""
    if "functionCall" not in part:
        return None
    call = part["functionCall"]
    in_parts = call.get("willContinue") or "partialArgs" in call
    return text(call.get("id")), text(call.get("name")), Unclear() if in_parts else call.get("args")


def _part(given: object) -> dict[str, Any]:
    """A part as received, without null fields, which proxies add. Its call is an object."""
    part = {key: value for key, value in mapping(given).items() if value is not None}
    return {**part, "functionCall": mapping(part["functionCall"])} if "functionCall" in part else part


def _usage(usage: object) -> Usage:
    fields = mapping(usage)
    return Usage(
        input_tokens=count(fields.get("promptTokenCount")) + count(fields.get("toolUsePromptTokenCount")),
        output_tokens=count(fields.get("candidatesTokenCount")) + count(fields.get("thoughtsTokenCount")),
        cached_tokens=count(fields.get("cachedContentTokenCount")),
    )


class GoogleStream:
    """Joins the parts of all events for `GoogleCodec.reply`. Only the end of the stream marks its end."""

    ended = False

    def __init__(self, codec: GoogleCodec, request: ModelRequest, emit: Emit) -> None:
        self._codec = codec
        self._request = request
        self._emit = emit
        self._own_names = own_names(request.tools)
        self._parts: list[dict[str, Any]] = []
        self._calls = 0
        self._text = TextPieces(emit)
        self._answer: dict[str, Any] = {}
        self._candidate: dict[str, Any] = {}

    @property
    def usage(self) -> Usage | None:
        usage = self._answer.get("usageMetadata")
        return _usage(usage) if usage else None

    def feed(self, data: str) -> None:
        body = event_body(data)
        chunk = mapping(next(iter(body), None) if isinstance(body, list) else body)
        if chunk.get("error"):
            raise from_error(chunk["error"])
        for key in ("usageMetadata", "promptFeedback"):
            if chunk.get(key):
                self._answer[key] = chunk[key]
        for candidate in map(mapping, array(chunk.get("candidates"))[:1]):
            for key in ("finishReason", "finishMessage"):
                if candidate.get(key):
                    self._candidate[key] = candidate[key]
            for part in array(mapping(candidate.get("content")).get("parts")):
                self._add(_part(part))

    def _add(self, part: dict[str, Any]) -> None:
        if "functionCall" in part:
            call = part["functionCall"]
            name = text(call.get("name"))
            arguments = dump_wire(call.get("args") or {}).decode()
            self._emit(ArgumentsDelta(self._calls, self._own_names.get(name, name), arguments))
            self._calls += 1
        elif not part.get("thought"):
            self._text.add(piece(part.get("text")))
        last = self._parts[-1] if self._parts else {}
        # Do not join a part with a signature, because the signature belongs to this part only.
        plain = part.keys() <= {"text", "thought"} and last.keys() <= {"text", "thought"}
        if plain and last and last.get("thought") == part.get("thought"):
            last["text"] = piece(last.get("text")) + piece(part.get("text"))
        elif part and part != {"text": ""}:
            self._parts.append(part)

    def reply(self) -> ModelReply:
        if not self._candidate.get("finishReason") and not self._answer.get("promptFeedback"):
            raise ended_early(self.usage)
        parts = [{**part, "text": text(part["text"])} if "text" in part else part for part in self._parts]
        candidate = {**self._candidate, "content": {"role": "model", "parts": parts}}
        candidates = [candidate] if self._candidate else []
        return self._codec.reply({**self._answer, "candidates": candidates}, self._request)
