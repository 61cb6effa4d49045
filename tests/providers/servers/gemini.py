"""A simulation of Google's Gemini API: accepted requests, refusals with their texts, answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import attrs
from pydantic.alias_generators import to_camel

from stopgo.actors.models.messages.messages import ModelTool, ToolMessage
from tests.providers.servers.http import Request
from tests.providers.servers.oracles import google_problem
from tests.providers.servers.seal import marked_id, seal
from tests.providers.servers.talk import Frame, Heard, Json, Mark, Refusal, Said, pieces

ESCAPES: Final = {"skip_thought_signature_validator", "context_engineering_is_the_way_to_go"}
"""Signatures for calls that another model made, from Google's page on thought signatures."""
_PATH = re.compile(r"/v1(?:beta)?/models/([^/:]+):(generateContent|streamGenerateContent)")
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_FREE = {"args", "response", "parameters", "parametersJsonSchema"}
"""Fields whose content is the user's own."""
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


@attrs.frozen
class Gemini:
    """The server of `https://generativelanguage.googleapis.com`.

    `gemini-3-*` signs its calls and wants the signatures back, `-flash` gives its calls ids as well, and
    `gemini-2.5-*` does neither.
    """

    name: str = "google"

    def open(self, request: Request, key: str) -> tuple[str, bool]:
        """Model and whether it is to be streamed. Raises `Refusal`."""
        found = _PATH.fullmatch(request.path)
        if request.method != "POST" or found is None:
            raise self.refusal(404, f"Requested entity {request.path} was not found.")
        stream = found[2] == "streamGenerateContent"
        if request.query != ("alt=sse" if stream else ""):
            raise self.refusal(400, f"unexpected query: {request.query}")
        given = request.headers.get("x-goog-api-key")
        if given is None:
            raise self.refusal(
                403,
                "Method doesn't allow unregistered callers (callers without established identity). Please "
                "use API Key or other form of API consumer identity to call this API.",
            )
        if given != key:
            raise self.refusal(400, "API key not valid. Please pass a valid API key.")
        return found[1], stream

    def refusal(self, status: int, why: str) -> Refusal:
        return Refusal(status, self.error(status, why), why)

    def error(self, status: int, why: str) -> Json:
        return {"error": {"code": status, "message": why, "status": _STATUS.get(status, "UNKNOWN")}}

    def error_frame(self, why: str) -> bytes:
        return _event(self.error(503, why))

    # ------------------------------------------------------------------ requests

    def check(self, body: Json) -> None:
        """Check a request. Raises `Refusal` with the answer of the real server."""
        problem = google_problem(body)
        if problem is not None:
            where, kind, value = problem
            path, _, field = where.rpartition(".")
            at = f" at '{path}'" if path else ""
            if kind == "extra_forbidden":
                why = f'Invalid JSON payload received. Unknown name "{field}"{at}: Cannot find field.'
            else:
                why = f"Invalid value at '{where}': {value!r}"
            raise self.refusal(400, why)
        _Check(self, in_camel_case(body)).all()

    def check_model(self, body: Json, model: str) -> None:
        """Check rules of some models only. Raises `Refusal`."""
        if model.startswith("gemini-3"):
            _Check(self, in_camel_case(body)).signatures()

    def hear(self, body: Json, model: str, stream: bool) -> Heard:
        body = in_camel_case(body)
        user, step = "", 0
        results: list[ToolMessage] = []
        for content in body["contents"]:
            if content["role"] == "model":
                results, step = [], step + 1
                continue
            for part in content["parts"]:
                if "functionResponse" in part:
                    given = part["functionResponse"]
                    results.append(_result(given.get("id", ""), given["name"], given["response"]))
            texts = [part["text"] for part in content["parts"] if "text" in part]
            if texts:
                user, step = "\n".join(texts), 0
        tools = tuple(
            ModelTool(
                declared["name"],
                declared.get("description", ""),
                declared.get("parametersJsonSchema") or declared.get("parameters") or {},
            )
            for tool in body.get("tools", ())
            for declared in tool.get("functionDeclarations", ())
        )
        thinks = body.get("generationConfig", {}).get("thinkingConfig", {}).get("includeThoughts", False)
        size = len(json.dumps(body["contents"]))
        return Heard(model, user, step, tuple(results), tools, size, stream, thinks)

    # ------------------------------------------------------------------- replies

    def body(self, said: Said, heard: Heard) -> Json:
        return _reply(said, heard, _parts(said, heard), _finish(said))

    def frames(self, said: Said, heard: Heard) -> Iterator[Frame]:
        for part in _parts(said, heard):
            if "functionCall" in part:
                yield _frame("call", _reply(said, heard, [part], None))
                continue
            mark: Mark = "thinking" if part.get("thought") else "text"
            several = list(pieces(part["text"], (3, 7, 4)))
            for piece in several[:-1]:
                whole = {key: part[key] for key in part if key != "thoughtSignature"}
                yield _frame(mark, _reply(said, heard, [{**whole, "text": piece}], None))
            yield _frame(mark, _reply(said, heard, [{**part, "text": several[-1]}], None))
        # The signature of a text comes late, on a part that says nothing.
        last = [] if said.calls else [{"text": "", "thoughtSignature": seal("gemini", "text")}]
        yield _frame("stop", _reply(said, heard, last, _finish(said)))


def in_camel_case(value: Any) -> Any:
    """The names of fields as the documentation has them; Google's servers take both spellings."""
    if isinstance(value, list):
        return [in_camel_case(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        (name := to_camel(key)): each if name in _FREE else in_camel_case(each) for key, each in value.items()
    }


def _event(value: Any) -> bytes:
    return f"data: {json.dumps(value, ensure_ascii=False)}\r\n\r\n".encode()


def _frame(mark: Mark, value: Json) -> Frame:
    return Frame(mark, _event(value))


def _result(id: str, name: str, response: Json) -> ToolMessage:
    for key, is_error in (("output", False), ("error", True)):
        if key in response:
            value = response[key]
            return ToolMessage(id, name, value if isinstance(value, str) else json.dumps(value), is_error)
    return ToolMessage(id, name, json.dumps(response))


def _parts(said: Said, heard: Heard) -> list[Json]:
    parts: list[Json] = []
    if said.thinking:
        parts.append({"text": said.thinking, "thought": True})
    if said.text:
        parts.append({"text": said.text})
    for index, call in enumerate(said.calls):
        assert not isinstance(call.arguments, str), "arguments are an object here"
        function: Json = {"name": call.name, "args": dict(call.arguments)}
        part: Json = {"functionCall": function}
        if heard.model.startswith("gemini-3") and heard.model.endswith("-flash"):
            function["id"] = f"fc-{marked_id(f'{said.nonce}{index}')}"
        if heard.model.startswith("gemini-3") and index == 0:
            part["thoughtSignature"] = _signature(function)
        parts.append(part)
    return parts


def _signature(function: Json) -> str:
    """Of the call it came with, whose arguments a human may have edited since."""
    return seal("gemini", function["name"], function.get("id"))


def _finish(said: Said) -> str:
    known = {"max_tokens": "MAX_TOKENS", "refusal": "SAFETY", "filter": "PROHIBITED_CONTENT"}
    return known.get(said.stop, "STOP")


def _reply(said: Said, heard: Heard, parts: list[Json], finish: str | None) -> Json:
    candidate: Json = {"index": 0}
    if parts:
        candidate["content"] = {"role": "model", "parts": parts}
    if finish is not None:
        candidate["finishReason"] = finish
    thoughts = len(said.thinking) // 4
    usage = {
        "promptTokenCount": said.tokens_in,
        "candidatesTokenCount": said.tokens_out - thoughts if thoughts < said.tokens_out else said.tokens_out,
        "totalTokenCount": said.tokens_in + said.tokens_out,
    }
    if thoughts and thoughts < said.tokens_out:
        usage["thoughtsTokenCount"] = thoughts
    if said.tokens_cached:
        usage["cachedContentTokenCount"] = said.tokens_cached
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": heard.model,
        "responseId": marked_id(said.nonce),
    }


# ------------------------------------------------------------------- refused requests


@attrs.frozen
class _Check:
    _server: Gemini
    _body: Json

    def all(self) -> None:
        contents = self._body["contents"]
        if not contents:
            self._no("* GenerateContentRequest.contents: contents is not specified\n")
        for index, content in enumerate(contents):
            where = f"* GenerateContentRequest.contents[{index}]"
            if content.get("role") not in {"user", "model"}:
                self._no("Please use a valid role: user, model.")
            if not content.get("parts"):
                self._no(f"{where}.parts: contents.parts must not be empty.\n")
            for at, part in enumerate(content["parts"]):
                self._part(f"{where}.parts[{at}]", part)
        if contents[-1]["role"] != "user":
            self._no(
                "Please ensure that single turn requests end with a user role or the role field is empty."
            )
        self._turns(contents)
        self._tools()
        self._settings()

    def _no(self, why: str) -> None:
        raise self._server.refusal(400, why)

    def _part(self, where: str, part: Json) -> None:
        data = [key for key in part if key not in {"thought", "thoughtSignature"}]
        if len(data) != 1:
            self._no(f"{where}.data: required oneof field 'data' must have one initialized field\n")
        if part.get("text") == "" and "thoughtSignature" not in part:
            self._no(f"{where}.text: Unable to submit request because it must have a text parameter.")
        if "functionCall" in part and not _NAME.fullmatch(part["functionCall"]["name"]):
            self._no(f"{where}.function_call.name: Invalid function name.")
        if "functionResponse" in part and not isinstance(part["functionResponse"].get("response"), dict):
            self._no(f"{where}.function_response.response: must be an object")

    def _turns(self, contents: list[Json]) -> None:
        calls: list[Json] = []
        before = ""
        for content in contents:
            made = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
            given = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
            if given and not calls:
                self._no(
                    "Please ensure that function response turn comes immediately after a function call turn."
                )
            if len(given) != len(calls):
                self._no(
                    "Please ensure that the number of function response parts is equal to the number of "
                    "function call parts of the function call turn."
                )
            for call, response in zip(calls, given, strict=True):
                if call["name"] != response["name"]:
                    self._no(f"function response {response['name']} does not match call {call['name']}")
                if call.get("id") is not None and call["id"] != response.get("id"):
                    self._no(f"function response id {response.get('id')} does not match call {call['id']}")
            if made and (content["role"] != "model" or before != "user"):
                self._no(
                    "Please ensure that function call turn comes immediately after a user turn or after a "
                    "function response turn."
                )
            calls, before = made, content["role"]

    def signatures(self) -> None:
        """The contents of the current turn, after the last text of the user."""
        contents = self._body["contents"]
        turn = max(
            (
                index
                for index, content in enumerate(contents)
                if content["role"] == "user"
                and any("functionResponse" not in part for part in content["parts"])
            ),
            default=-1,
        )
        for position, content in enumerate(contents):
            parts = [part for part in content["parts"] if "functionCall" in part]
            for part in parts:
                signature = part.get("thoughtSignature")
                if signature is not None and signature not in ESCAPES | {_signature(part["functionCall"])}:
                    self._no("Corrupted thought signature.")
            if position > turn and parts and "thoughtSignature" not in parts[0]:
                name = parts[0]["functionCall"]["name"]
                self._no(
                    "Function call is missing a thought_signature in functionCall parts. This is required "
                    "for tools to work correctly, and missing thought_signature may lead to degraded model "
                    f"performance. Additional data, function call `default_api:{name}` , position "
                    f"{position + 1}. Please refer to "
                    "https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
                )

    def _tools(self) -> None:
        names = set()
        for at, tool in enumerate(self._body.get("tools", ())):
            for index, declared in enumerate(tool.get("functionDeclarations", ())):
                where = f"tools[{at}].function_declarations[{index}]"
                if "parameters" in declared and "parametersJsonSchema" in declared:
                    self._no(
                        f"Invalid value at '{where}' (oneof), oneof field '_parameters' is already set. "
                        "Cannot set 'parametersJsonSchema'"
                    )
                if not _NAME.fullmatch(declared.get("name", "")):
                    self._no(
                        f"* GenerateContentRequest.{where}.name: Invalid function name. Must start with a "
                        "letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), "
                        "dots (.), colons (:), or dashes (-), with a maximum length of 128.\n"
                    )
                if declared["name"] in names:
                    self._no(f"Duplicate function declaration found: {declared['name']}")
                names.add(declared["name"])

    def _settings(self) -> None:
        config = self._body.get("generationConfig", {})
        if config.get("maxOutputTokens", 1) < 1:
            self._no("* GenerateContentRequest.generation_config.max_output_tokens: must be positive.\n")
        if not 0 <= config.get("temperature", 1) <= 2:
            self._no(
                "* GenerateContentRequest.generation_config.temperature: must be in the range [0.0, 2.0].\n"
            )
        instruction = self._body.get("systemInstruction")
        if instruction is not None and not any(part.get("text") for part in instruction.get("parts", ())):
            self._no("* GenerateContentRequest.system_instruction.parts: contents.parts must not be empty.\n")
