"""OpenAI's chat completions, as OpenAI and others speak them: requests, refusals and answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import attrs

from stopgo.actors.models.messages.messages import ModelTool, ToolMessage
from tests.providers.servers.flavours import (
    MISTRAL_FIELDS,
    MISTRAL_MESSAGE_FIELDS,
    Flavour,
    without_own,
)
from tests.providers.servers.http import Request
from tests.providers.servers.oracles import openai_problem
from tests.providers.servers.seal import marked_id, seal
from tests.providers.servers.talk import Frame, Heard, Json, Mark, Refusal, Said, arguments_text, pieces

DONE = b"data: [DONE]\n\n"


@attrs.frozen
class Chat:
    """A server of `/v1/chat/completions`."""

    flavour: Flavour

    @property
    def name(self) -> str:
        return self.flavour.name

    def open(self, request: Request, key: str) -> tuple[str, bool]:
        """Model and whether it is to be streamed. Raises `Refusal`."""
        if (request.method, request.path) != ("POST", "/v1/chat/completions"):
            raise self.refusal(404, f"Invalid URL ({request.method} {request.path})")
        given = request.headers.get("authorization")
        if self.flavour.needs_key and given is None:
            raise self.refusal(401, self.flavour.no_key)
        if self.flavour.needs_key and given != f"Bearer {key}":
            raise self.refusal(401, f"Incorrect API key provided: {key[:7]}***.")
        body = json.loads(request.body)
        return body.get("model", ""), bool(body.get("stream"))

    def refusal(self, status: int, why: str) -> Refusal:
        return Refusal(status, self.error(status, why), why)

    def error(self, status: int, why: str) -> Any:
        return self.flavour.error(status, why)

    def error_frame(self, why: str) -> bytes:
        if self.flavour.name == "openrouter":
            choice = {"index": 0, "delta": {"content": ""}, "finish_reason": "error"}
            return _event({"id": "gen-1", "error": {"code": 502, "message": why}, "choices": [choice]})
        return _event(self.error(500, why))

    # ------------------------------------------------------------------ requests

    def check(self, body: Json) -> None:
        """Check a request. Raises `Refusal` with the answer of the real server."""
        _Check(self, body).all()

    def hear(self, body: Json, model: str, stream: bool) -> Heard:
        names: dict[str, str] = {}
        user, step = "", 0
        results: list[ToolMessage] = []
        for message in body["messages"]:
            text = _text(message.get("content"))
            match message["role"]:
                case "assistant":
                    results, step = [], step + 1
                    for call in message.get("tool_calls") or ():
                        names[call["id"]] = call["function"]["name"]
                case "tool":
                    id = message["tool_call_id"]
                    results.append(_result(id, names[id], text))
                case "user":
                    user, step = text, 0
        tools = tuple(
            ModelTool(
                tool["function"]["name"],
                tool["function"].get("description", ""),
                tool["function"].get("parameters", {}),
            )
            for tool in body.get("tools", ())
        )
        wants = self.flavour.usage != "asked" or body.get("stream_options", {}).get("include_usage", False)
        thinks = self.flavour.reasoning is not None or model.startswith("magistral")
        size = len(json.dumps(body["messages"]))
        return Heard(model, user, step, tuple(results), tools, size, stream, thinks, wants)

    # ------------------------------------------------------------------- replies

    def body(self, said: Said, heard: Heard) -> Json:
        message: Json = {"role": "assistant", **self._thinking(said), "content": self._content(said)}
        if said.calls:
            message["tool_calls"] = [self._call(said, index) for index in range(len(said.calls))]
        if said.stop == "refusal":
            message |= {"content": None, "refusal": said.text}
        choice = {"index": 0, "message": message, "finish_reason": self._reason(said)}
        return {**self._envelope(said, heard, ""), "choices": [choice], "usage": self._usage(said)}

    def frames(self, said: Said, heard: Heard) -> Iterator[Frame]:
        if self.flavour.comments:
            yield Frame("begin", b": OPENROUTER PROCESSING\n\n")
        yield self._frame("begin", said, heard, {"role": "assistant", "content": ""})
        if said.thinking:
            for piece in pieces(said.thinking, (4, 9)):
                yield self._frame("thinking", said, heard, self._thinking(attrs.evolve(said, thinking=piece)))
        field = "refusal" if said.stop == "refusal" else "content"
        for piece in pieces(said.text):
            if self.flavour.comments:
                yield Frame("text", b": OPENROUTER PROCESSING\n\n")
            yield self._frame("text", said, heard, {field: piece})
        for index in range(len(said.calls)):
            for delta in self._call_deltas(said, index):
                yield self._frame("call", said, heard, {"tool_calls": [{"index": index, **delta}]})
        usage = {"usage": self._usage(said)} if self.flavour.usage == "with_stop" else {}
        yield self._frame("stop", said, heard, {}, self._reason(said), **usage)
        if self.flavour.usage != "with_stop" and heard.wants_usage:
            last = {**self._envelope(said, heard, ".chunk"), "choices": [], "usage": self._usage(said)}
            yield Frame("end", _event(last))
        yield Frame("end", DONE)

    def _frame(
        self, mark: Mark, said: Said, heard: Heard, delta: Json, reason: str | None = None, **more: Any
    ) -> Frame:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return Frame(mark, _event({**self._envelope(said, heard, ".chunk"), "choices": [choice], **more}))

    def _envelope(self, said: Said, heard: Heard, kind: str) -> Json:
        return {
            "id": f"chatcmpl-{marked_id(said.nonce)}",
            "object": f"chat.completion{kind}",
            "created": 1_763_700_000,
            "model": heard.model,
        }

    def _content(self, said: Said) -> Any:
        if self.flavour.name == "mistral" and said.thinking:
            thought = {"type": "thinking", "thinking": [{"type": "text", "text": said.thinking}]}
            return [thought, {"type": "text", "text": said.text}]
        return said.text or (None if said.calls and self.flavour.name == "openai" else "")

    def _thinking(self, said: Said) -> Json:
        if not said.thinking:
            return {}
        if self.flavour.name == "mistral":
            thought = {"type": "thinking", "thinking": [{"type": "text", "text": said.thinking}]}
            return {"content": [thought]}
        if self.flavour.name == "openrouter":
            details = {"type": "reasoning.text", "text": said.thinking, "index": 0}
            details["signature"] = seal("openrouter")
            return {"reasoning": said.thinking, "reasoning_details": [details]}
        return {self.flavour.reasoning or "": said.thinking}

    def _id(self, said: Said, index: int) -> str:
        call = said.calls[index]
        return self.flavour.make_id(said.nonce, call.name, index) if call.id is None else call.id

    def _call(self, said: Said, index: int) -> Json:
        call = said.calls[index]
        function = {"name": call.name, "arguments": arguments_text(call.arguments)}
        made = {"id": self._id(said, index), "function": function}
        return made if self.flavour.name == "mistral" else {**made, "type": "function"}

    def _call_deltas(self, said: Said, index: int) -> Iterator[Json]:
        whole = self._call(said, index)
        if self.flavour.whole_calls:
            yield whole
            return
        arguments = whole["function"]["arguments"]
        yield {**whole, "function": {"name": said.calls[index].name, "arguments": ""}}
        for piece in pieces(arguments):
            yield {"function": {"arguments": piece}}

    def _reason(self, said: Said) -> str:
        reason = self.flavour.stops_for_calls if said.calls else "stop"
        return {"max_tokens": "length", "filter": "content_filter"}.get(said.stop, reason)

    def _usage(self, said: Said) -> Json:
        usage = {
            "prompt_tokens": said.tokens_in,
            "completion_tokens": said.tokens_out,
            "total_tokens": said.tokens_in + said.tokens_out,
        }
        if self.flavour.name == "ollama":
            return usage
        return {**usage, "prompt_tokens_details": {"cached_tokens": said.tokens_cached}}


def _event(value: Any) -> bytes:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part["type"] == "text")
    return content or ""


def _result(id: str, name: str, text: str) -> ToolMessage:
    """There is no mark for failures here, so the text has to say it."""
    bare = text.removeprefix("Error: ")
    return ToolMessage(id, name, bare, bare != text)


# ------------------------------------------------------------------- refused requests


@attrs.frozen
class _Check:
    _server: Chat
    _body: Json

    def all(self) -> None:
        if self._server.flavour.name == "mistral":
            self._mistral_fields()
        else:
            self._openai_fields()
        if not self._body["messages"]:
            self._no("[] is too short - 'messages'")
        if self._server.flavour.name == "mistral":
            self._mistral_order()
        self._ids_and_names()
        self._pairs()
        if self._server.flavour.name == "openai":
            self._newest_models()

    def _no(self, why: str, status: int = 400) -> None:
        raise self._server.refusal(status, why)

    def _openai_fields(self) -> None:
        problem = openai_problem(without_own(self._server.flavour, self._body))
        if problem is not None:
            where, kind, value = problem
            if kind == "extra_forbidden":
                self._no(f"Unknown parameter: '{where}'.")
            self._no(f"Invalid value for '{where}': {kind}, got {value!r}.")

    def _mistral_fields(self) -> None:
        extra = [["body", name] for name in self._body if name not in MISTRAL_FIELDS]
        extra += [["body", "stream_options", name] for name in self._body.get("stream_options") or ()]
        for index, message in enumerate(self._body["messages"]):
            allowed = MISTRAL_MESSAGE_FIELDS[message["role"]]
            where = ["body", "messages", str(index), message["role"]]
            extra += [[*where, name] for name in message if name not in allowed]
            for call in message.get("tool_calls") or ():
                extra += [
                    [*where, "tool_calls", name] for name in call.keys() - {"id", "type", "function", "index"}
                ]
                extra += [
                    [*where, "tool_calls", name] for name in call["function"].keys() - {"name", "arguments"}
                ]
        if extra:
            self._no(f"extra_forbidden: {extra}: Extra inputs are not permitted", 422)

    def _mistral_order(self) -> None:
        """As mistral-common checks it."""
        follows = {
            "system": {"user", "assistant", "system"},
            "user": {"user", "assistant", "system"},
            "assistant": {"assistant", "user", "tool"},
            "tool": {"assistant", "tool"},
        }
        messages = self._body["messages"]
        for before, message in pairwise(messages):
            if message["role"] not in follows[before["role"]]:
                self._no(f"Unexpected role '{message['role']}' after role '{before['role']}'")
        if messages[-1]["role"] not in {"user", "tool"}:
            self._no(
                "Expected last role User or Tool (or Assistant with prefix True) for serving but got "
                f"{messages[-1]['role']}"
            )
        for message in messages:
            if (
                message["role"] == "assistant"
                and not message.get("content")
                and not message.get("tool_calls")
            ):
                self._no("Assistant message must have either content or tool_calls, but not none.")

    def _pairs(self) -> None:
        open_ids: list[str] = []
        for index, message in enumerate(self._body["messages"]):
            role = message["role"]
            if role == "tool":
                if message["tool_call_id"] not in open_ids:
                    self._no(
                        f"Invalid parameter: messages with role 'tool' must be a response to a preceeding "
                        f"message with 'tool_calls' (messages[{index}])."
                    )
                open_ids.remove(message["tool_call_id"])
                continue
            self._answered(open_ids)
            open_ids = [call["id"] for call in message.get("tool_calls") or ()]
            if role == "assistant" and "tool_calls" in message and not open_ids:
                self._no(f"[] is too short - 'messages.{index}.tool_calls'")
            if role == "assistant" and message.get("content") is None and not open_ids:
                self._no(f"Invalid value for 'content': expected a string, got null (messages[{index}]).")
            if role == "user" and not message.get("content"):
                self._no(f"messages[{index}]: the content of a user message must not be empty")
        self._answered(open_ids)

    def _answered(self, open_ids: list[str]) -> None:
        if open_ids and self._server.flavour.name == "mistral":
            self._no("Not the same number of function calls and responses")
        if open_ids:
            self._no(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                "'tool_call_id'. The following tool_call_ids did not have response messages: "
                f"{', '.join(open_ids)}"
            )

    def _ids_and_names(self) -> None:
        flavour = self._server.flavour
        calls = [call for message in self._body["messages"] for call in message.get("tool_calls") or ()]
        ids = [call["id"] for call in calls]
        ids += [message["tool_call_id"] for message in self._body["messages"] if message["role"] == "tool"]
        for id in ids:
            if not flavour.id.fullmatch(id):
                if flavour.name == "mistral":
                    self._no(f"Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9.")
                self._no(
                    "Invalid 'messages[].tool_calls[].id': string too long. Expected a string with maximum "
                    f"length 40, but got a string with length {len(id)} instead."
                )
        names = [call["function"]["name"] for call in calls]
        names += [tool["function"]["name"] for tool in self._body.get("tools", ())]
        for name in names:
            if not flavour.tool_name.fullmatch(name):
                self._no(
                    f"Function name was {name} but must be a-z, A-Z, 0-9, or contain underscores and dashes, "
                    "with a maximum length of 64."
                )
        for tool in self._body.get("tools", ()):
            function = tool["function"]
            if (problem := _schema_problem(function["parameters"])) is not None:
                self._no(f"Invalid schema for function '{function['name']}': {problem}")
        for call in calls:
            self._arguments(call["function"]["arguments"])
        if self._body.get("tools") == []:
            self._no("[] is too short - 'tools'")
        if ("tool_choice" in self._body or "parallel_tool_calls" in self._body) and not self._body.get(
            "tools"
        ):
            self._no(
                "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
            )

    def _arguments(self, text: Any) -> None:
        """Check arguments as templates of local models read them: other values than objects break the
        request."""
        try:
            value = json.loads(text)
        except (TypeError, ValueError):
            value = None
        if not isinstance(value, dict):
            self._no(f"Invalid tool call arguments: {text!r} is not a JSON object")

    def _newest_models(self) -> None:
        body = self._body
        if not body["model"].startswith(("gpt-5", "o1", "o3", "o4")):
            return
        if "max_tokens" in body:
            self._no(
                "Unsupported parameter: 'max_tokens' is not supported with this model. "
                "Use 'max_completion_tokens' instead."
            )
        if body.get("temperature", 1) != 1:
            self._no("Unsupported value: 'temperature' does not support this value with this model.")


def _schema_problem(schema: Any) -> str | None:
    if schema.get("type") != "object" or schema.keys() & {"oneOf", "anyOf", "allOf", "enum", "not"}:
        unions = "'oneOf'/'anyOf'/'allOf'/'enum'/'not'"
        return f"schema must have type 'object' and not have {unions} at the top level."
    todo = list(schema.get("properties", {}).items())
    while todo:
        name, each = todo.pop()
        if isinstance(each, dict):
            if "array" in (each.get("type") or ()) and "items" not in each:
                return f"In context=('properties', '{name}'), array schema missing items."
            todo += [(name, each.get("items")), *each.get("properties", {}).items()]
    return None
