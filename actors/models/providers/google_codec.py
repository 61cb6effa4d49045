"""Gemini's generateContent. Pure.

Written from https://ai.google.dev/api/generate-content, and function-calling and thought-signatures under
https://ai.google.dev/gemini-api/docs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import attrs

from ....config.models import ModelSpec
from ....runtime.json_text import dump_wire
from ..messages import (
    ArgumentsDelta,
    Emit,
    ModelFailed,
    ModelReply,
    ModelRequest,
    Usage,
    Verbatim,
)
from .codec import (
    ANY_ID,
    emit_text,
    ended_early,
    event_body,
    make_reply,
    merged,
    own_names,
    tool_calls,
    wire_name,
    with_final_arguments,
)
from .faults import from_error
from .json_fields import array, count, mapping, text
from .turns import ModelTurn, Result, Said, UserTurn, turns

NO_SIGNATURE = "skip_thought_signature_validator"
"""In the place of a signature, for a call that another model made: Gemini 3 refuses one without any."""

_BLOCKED = ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE")
_SLIPS = ("MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS")
"""Slips of the model; another try may well succeed."""


def path(spec: ModelSpec) -> str:
    """Where the model is asked, from the base URL."""
    model = spec.model if "/" in spec.model else f"models/{spec.model}"
    method = "streamGenerateContent?alt=sse" if spec.stream else "generateContent"
    return f"/v1beta/{quote(model)}:{method}"


@attrs.frozen
class GoogleCodec:
    spec: ModelSpec

    def body(self, request: ModelRequest) -> dict[str, Any]:
        spec = self.spec
        body: dict[str, Any] = {"contents": _contents(request)}
        if request.system.strip():
            body["systemInstruction"] = {"parts": [{"text": request.system}]}
        if request.tools:
            declared = [
                {
                    "name": wire_name(tool.name),
                    "description": tool.plain[0],
                    "parametersJsonSchema": tool.plain[1],
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
            raise ModelFailed("the answer holds no candidate", retryable=bool(answer), usage=usage)
        candidate = mapping(candidates[0])
        parts = [_part(part) for part in array(mapping(candidate.get("content")).get("parts"))]
        said = "".join(text(part.get("text")) for part in parts if not part.get("thought"))
        given = [part["functionCall"] for part in parts if "functionCall" in part]
        calls = tool_calls(
            ((text(call.get("id")), text(call.get("name")), call.get("args")) for call in given),
            own_names(request.tools),
        )
        reason = text(candidate.get("finishReason"))
        self._check(reason, text(candidate.get("finishMessage")), usage, empty=not said and not calls)
        if calls and reason == "OTHER":
            # Whether these are all the calls, nobody knows.
            raise ModelFailed("the reply ended for a reason that is not told", retryable=True, usage=usage)
        plain = [
            *_text_part(said),
            *({"functionCall": dict(_call(call.name, call.arguments))} for call in calls),
        ]
        verbatim = None if parts == plain else Verbatim(self.spec.provider, [dict(part) for part in parts])
        return make_reply(said, calls, usage, cut=reason == "MAX_TOKENS", verbatim=verbatim)

    def _check(self, reason: str, detail: str, usage: Usage, *, empty: bool) -> None:
        """Raises `ModelFailed` for a reply that ended otherwise than well."""
        why = f"{reason}: {detail}" if detail else reason
        if reason in _BLOCKED:
            raise ModelFailed(f"the reply was blocked ({why})", usage=usage)
        if reason in _SLIPS:
            raise ModelFailed(f"the model made a mistake ({why})", retryable=True, usage=usage)
        if reason == "MISSING_THOUGHT_SIGNATURE":
            raise ModelFailed(f"the provider misses a signature ({why})", usage=usage)
        if empty and reason != "MAX_TOKENS":
            # A known weakness: the same request often gets an answer.
            raise ModelFailed(
                f"the model answered with nothing ({why or 'no reason'})",
                retryable=reason == "STOP",
                usage=usage,
            )

    def stream(self, request: ModelRequest, emit: Emit) -> GoogleStream:
        return GoogleStream(self, request, emit)


# ------------------------------------------------------------------------- requests


def _contents(request: ModelRequest) -> list[dict[str, Any]]:
    contents: list[dict[str, Any]] = []
    ids: list[object] = []
    for turn in turns(request.messages, provider="google", ids=ANY_ID):
        parts: list[dict[str, Any]] = []
        match turn:
            case UserTurn(results=results, texts=texts):
                for id, result in zip(ids, results, strict=True):
                    parts.append({"functionResponse": _response(id, result)})
                parts += [{"text": text} for text in texts]
                contents.append({"role": "user", "parts": parts})
            case ModelTurn(replies=replies):
                for said in replies:
                    parts += _parts(said)
                ids = [part["functionCall"].get("id") for part in parts if "functionCall" in part]
                contents.append({"role": "model", "parts": parts})
    return contents


def _response(id: object, result: Result) -> dict[str, Any]:
    response = {"error" if result.is_error else "output": result.content}
    told: dict[str, Any] = {"name": wire_name(result.name), "response": response}
    # The model's own id, if it gave one: what it did not give it would not know.
    return {"id": id, **told} if id is not None else told


def _parts(said: Said) -> list[dict[str, Any]]:
    """What the model said, as it said it if that is known; with the arguments that count."""
    kept = [
        dict(part) for part in array(said.verbatim) if part.get("text") != "" or "thoughtSignature" in part
    ]
    given: list[dict[str, Any]] = [part for part in kept if "functionCall" in part]
    final = with_final_arguments([part["functionCall"].get("args") for part in given], said.calls)
    if said.verbatim is None or final is None:
        given = [{"functionCall": _call(call.name, call.arguments)} for call in said.calls]
        kept = [*_text_part(said.text), *given]
    else:
        for part, call, arguments in zip(given, said.calls, final, strict=True):
            if arguments is not None or part["functionCall"].get("name") != wire_name(call.name):
                part["functionCall"] = {**part["functionCall"], **_call(call.name, call.arguments)}
    if given and not any("thoughtSignature" in part for part in given):
        given[0]["thoughtSignature"] = NO_SIGNATURE
    return kept


def _text_part(said: str) -> list[dict[str, Any]]:
    return [{"text": said}] if said else []


def _call(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": wire_name(name), "args": dict(arguments)}


# -------------------------------------------------------------------------- replies


def _part(given: object) -> dict[str, Any]:
    """A part as it came: what is null is not there (proxies write what is not), and a call is an object."""
    part = {key: value for key, value in mapping(given).items() if value is not None}
    return {**part, "functionCall": mapping(part["functionCall"])} if "functionCall" in part else part


def _usage(usage: object) -> Usage:
    told = mapping(usage)
    return Usage(
        input_tokens=count(told.get("promptTokenCount")) + count(told.get("toolUsePromptTokenCount")),
        output_tokens=count(told.get("candidatesTokenCount")) + count(told.get("thoughtsTokenCount")),
        cached_tokens=count(told.get("cachedContentTokenCount")),
    )


class GoogleStream:
    """Joins the parts of all events; nothing but the end of the stream says that there is no more."""

    ended = False

    def __init__(self, codec: GoogleCodec, request: ModelRequest, emit: Emit) -> None:
        self._codec = codec
        self._request = request
        self._emit = emit
        self._own_names = own_names(request.tools)
        self._parts: list[dict[str, Any]] = []
        self._calls = 0
        self._answer: dict[str, Any] = {}
        self._candidate: dict[str, Any] = {}

    @property
    def usage(self) -> Usage | None:
        told = self._answer.get("usageMetadata")
        return _usage(told) if told else None

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
            emit_text(self._emit, text(part.get("text")))
        last = self._parts[-1] if self._parts else {}
        # A signature belongs to the very part it came with.
        plain = part.keys() <= {"text", "thought"} and last.keys() <= {"text", "thought"}
        if plain and last and last.get("thought") == part.get("thought"):
            last["text"] = text(last.get("text")) + text(part.get("text"))
        elif part and part != {"text": ""}:
            self._parts.append(part)

    def reply(self) -> ModelReply:
        if not self._candidate.get("finishReason") and not self._answer.get("promptFeedback"):
            raise ended_early(self.usage)
        candidate = {**self._candidate, "content": {"role": "model", "parts": self._parts}}
        candidates = [candidate] if self._candidate else []
        return self._codec.reply({**self._answer, "candidates": candidates}, self._request)
