"""A simulation of Ollama's own API, `/api/chat`: accepted requests, refusals with their texts, answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import attrs

from stopgo.actors.models.messages.messages import ModelTool, ToolMessage
from tests.providers.servers.http import Request
from tests.providers.servers.seal import marked_id
from tests.providers.servers.talk import Frame, Heard, Json, Mark, Refusal, Said, pieces

# api/types.go of ollama/ollama, `ChatRequest`, `Message`, `ToolCall` and `Options`, 2026-11. The real server
# ignores other members, which is the very fault that this API is used against.
_BODY = {"model", "messages", "stream", "tools", "think", "keep_alive", "truncate", "options", "format"}
_OPTIONS = {"num_ctx", "num_predict", "temperature", "top_k", "seed"}
_MESSAGE = {
    "system": {"role", "content"},
    "user": {"role", "content", "images"},
    "assistant": {"role", "content", "thinking", "tool_calls"},
    "tool": {"role", "content", "tool_name", "tool_call_id"},
}


@attrs.frozen
class OllamaNative:
    """The server of `http://localhost:11434/api/chat`."""

    name: str = "ollama_native"

    def open(self, request: Request, key: str) -> tuple[str, bool]:
        """Model and whether it is to be streamed. Raises `Refusal`."""
        if (request.method, request.path, request.query) != ("POST", "/api/chat", ""):
            raise self.refusal(404, f"404 page not found: {request.path}")
        body = json.loads(request.body)
        return body.get("model", ""), body.get("stream", True)

    def refusal(self, status: int, why: str) -> Refusal:
        return Refusal(status, self.error(status, why), why)

    def error(self, status: int, why: str) -> Json:
        return {"error": why}

    def error_frame(self, why: str) -> bytes:
        return _line(self.error(500, why))

    # ------------------------------------------------------------------ requests

    def check(self, body: Json) -> None:
        """Check a request. Raises `Refusal`."""
        self._known("", body, _BODY)
        self._known("options", body.get("options", {}), _OPTIONS)
        if not isinstance(body.get("stream", True), bool):
            self._no("json: cannot unmarshal into Go struct field ChatRequest.stream of type bool")
        if body.get("truncate", True):
            self._no("a prompt that is too long would be cut without a word")
        open_ids: list[tuple[str, str]] = []
        for index, message in enumerate(body["messages"]):
            role = message["role"]
            self._known(f"messages.{index}", message, _MESSAGE[role])
            if not isinstance(message["content"], str):
                self._no(f"json: cannot unmarshal into Go struct field Message.messages.{index}.content")
            if role == "tool":
                given = (message["tool_call_id"], message["tool_name"])
                if given not in open_ids:
                    self._no(f"messages.{index}: a result without a call")
                open_ids.remove(given)
                continue
            if open_ids:
                self._no(f"messages.{index}: calls without a result: {open_ids}")
            for call in message.get("tool_calls", ()):
                self._known(f"messages.{index}.tool_calls", call, {"id", "function"})
                if not isinstance(call["function"]["arguments"], dict):
                    self._no("json: cannot unmarshal string into Go struct field .tool_calls.arguments")
                open_ids.append((call["id"], call["function"]["name"]))
            for image in message.get("images", ()):
                if image.startswith("data:"):
                    self._no("illegal base64 data at input byte 4")

    def _known(self, where: str, value: Json, names: set[str]) -> None:
        if extra := value.keys() - names:
            self._no(f"{where}: Ollama would ignore {sorted(extra)}")

    def _no(self, why: str) -> None:
        raise self.refusal(400, why)

    def hear(self, body: Json, model: str, stream: bool) -> Heard:
        user, step = "", 0
        results: list[ToolMessage] = []
        for message in body["messages"]:
            text = message["content"]
            match message["role"]:
                case "assistant":
                    results, step = [], step + 1
                case "tool":
                    bare = text.removeprefix("Error: ")
                    result = ToolMessage(message["tool_call_id"], message["tool_name"], bare, bare != text)
                    results.append(result)
                case "user":
                    user, step = text, 0
        tools = tuple(
            ModelTool(each["name"], each["description"], each["parameters"])
            for each in (tool["function"] for tool in body.get("tools", ()))
        )
        size = len(json.dumps(body["messages"]))
        return Heard(model, user, step, tuple(results), tools, size, stream, bool(body.get("think", True)))

    # ------------------------------------------------------------------- replies

    def body(self, said: Said, heard: Heard) -> Json:
        message: Json = {"role": "assistant", "content": said.text}
        if said.thinking:
            message["thinking"] = said.thinking
        if said.calls:
            message["tool_calls"] = [self._call(said, index) for index in range(len(said.calls))]
        return {"model": heard.model, "message": message, **_end(said)}

    def frames(self, said: Said, heard: Heard) -> Iterator[Frame]:
        for piece in pieces(said.thinking, (4, 9)):
            yield _frame("thinking", heard, {"content": "", "thinking": piece})
        for piece in pieces(said.text):
            yield _frame("text", heard, {"content": piece})
        for index in range(len(said.calls)):
            yield _frame("call", heard, {"content": "", "tool_calls": [self._call(said, index)]})
        yield _frame("stop", heard, {"content": ""}, **_end(said))

    def _call(self, said: Said, index: int) -> Json:
        call = said.calls[index]
        function = {"index": index, "name": call.name, "arguments": call.arguments}
        if call.id == "":  # of an older server
            return {"function": function}
        return {"id": call.id or f"call_{marked_id(f'{said.nonce}{index}')[:8]}", "function": function}


def _frame(mark: Mark, heard: Heard, message: Json, **end: Any) -> Frame:
    line = {"model": heard.model, "message": {"role": "assistant", **message}, "done": False, **end}
    return Frame(mark, _line(line))


def _line(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


def _end(said: Said) -> Json:
    reason = {"max_tokens": "length"}.get(said.stop, "stop")
    counts = {"prompt_eval_count": said.tokens_in, "eval_count": said.tokens_out}
    return {"done": True, "done_reason": reason, **counts}
