"""A simulation of Anthropic's Messages API: accepted requests, refusals with their texts, answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
from jsonschema.validators import Draft202012Validator

from stopgo.actors.models.messages.messages import ModelTool, ToolMessage
from tests.providers.servers.http import Request
from tests.providers.servers.oracles import anthropic_problem
from tests.providers.servers.seal import came_with, is_ours, is_sealed, marked_id, seal
from tests.providers.servers.talk import (
    Frame,
    Heard,
    Json,
    Mark,
    Refusal,
    Said,
    arguments_text,
    pieces,
)

THINKING: Final = {"thinking", "redacted_thinking"}
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_ID = re.compile(r"[a-zA-Z0-9_-]+")


@attrs.frozen
class AnthropicMessages:
    """The server of `https://api.anthropic.com`."""

    name: str = "anthropic"
    cloud: str = ""
    """In its ids, as on Bedrock and Vertex. It does not know the thoughts of another one."""

    def open(self, request: Request, key: str) -> tuple[str, bool]:
        """Model and whether it is to be streamed. Raises `Refusal`."""
        if (request.method, request.path) != ("POST", "/v1/messages"):
            raise self.refusal(404, f"{request.path} not found")
        given = request.headers.get("x-api-key") or request.headers.get("authorization")
        if given is None:
            raise self.refusal(401, "x-api-key header is required")
        if given.removeprefix("Bearer ") != key:
            raise self.refusal(401, "invalid x-api-key")
        if "anthropic-version" not in request.headers:
            raise self.refusal(400, "anthropic-version: header is required")
        body = json.loads(request.body)
        sampling = [name for name in ("temperature", "top_p", "top_k") if name in body]
        if sampling and request.headers["anthropic-version"] >= "2026-10-21":
            raise self.refusal(400, f"{sampling[0]}: Extra inputs are not permitted")
        return body.get("model", ""), bool(body.get("stream"))

    def refusal(self, status: int, why: str) -> Refusal:
        return Refusal(status, self.error(status, why), why)

    def error(self, status: int, why: str) -> Json:
        kind = _TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": why}, "request_id": "req_011CSHoEeqs5"}

    def error_frame(self, why: str) -> bytes:
        return _event(self.error(529, why))

    # ------------------------------------------------------------------ requests

    def check(self, body: Json) -> None:
        """Check a request. Raises `Refusal` with the answer of the real server."""
        problem = anthropic_problem(body)
        if problem is not None:
            where, kind, _ = problem
            said = {"extra_forbidden": "Extra inputs are not permitted", "missing": "Field required"}
            raise self.refusal(400, f"{where}: {said.get(kind, kind)}")
        _Check(self, body).all()

    def hear(self, body: Json, model: str, stream: bool) -> Heard:
        messages = body["messages"]
        names: dict[str, str] = {}
        user, step = "", 0
        results: list[ToolMessage] = []
        for message in messages:
            blocks = _blocks(message)
            if message["role"] == "assistant":
                results, step = [], step + 1
                names |= {block["id"]: block["name"] for block in blocks if block["type"] == "tool_use"}
                continue
            texts = [block["text"] for block in blocks if block["type"] == "text"]
            for block in blocks:
                if block["type"] == "tool_result":
                    id = block["tool_use_id"]
                    results.append(
                        ToolMessage(id, names[id], _text(block.get("content")), block.get("is_error", False))
                    )
            if texts:
                user, step = "\n".join(texts), 0
        tools = tuple(
            ModelTool(tool["name"], tool.get("description", ""), tool["input_schema"])
            for tool in body.get("tools", ())
        )
        thinking = body.get("thinking", {}).get("type", "disabled")
        size = len(json.dumps(messages))
        return Heard(model, user, step, tuple(results), tools, size, stream, thinking != "disabled")

    # ------------------------------------------------------------------- replies

    def body(self, said: Said, heard: Heard) -> Json:
        return {
            **_envelope(said, heard),
            "content": _content(said, self.cloud),
            **_stop(said),
            "usage": _usage(said),
        }

    def frames(self, said: Said, heard: Heard) -> Iterator[Frame]:
        usage = {**_usage(said), "output_tokens": 1}
        start = {**_envelope(said, heard), "content": [], "stop_reason": None, "stop_sequence": None}
        yield _frame("begin", {"type": "message_start", "message": {**start, "usage": usage}})
        yield _frame("begin", {"type": "ping"})
        for index, block in enumerate(_content(said, self.cloud)):
            mark, empty, deltas = _in_pieces(block)
            yield _frame(mark, {"type": "content_block_start", "index": index, "content_block": empty})
            for delta in deltas:
                yield _frame(mark, {"type": "content_block_delta", "index": index, "delta": delta})
            yield _frame(mark, {"type": "content_block_stop", "index": index})
        total = {"output_tokens": said.tokens_out}
        yield _frame("stop", {"type": "message_delta", "delta": _stop(said), "usage": total})
        yield _frame("end", {"type": "message_stop"})


def _event(value: Json) -> bytes:
    # Not escaped, as the real one: a piece of the wire may end inside a character.
    return f"event: {value['type']}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def _frame(mark: Mark, value: Json) -> Frame:
    return Frame(mark, _event(value))


def _envelope(said: Said, heard: Heard) -> Json:
    id = f"msg_01{marked_id(said.nonce)}"
    return {"id": id, "type": "message", "role": "assistant", "model": heard.model}


def _content(said: Said, cloud: str) -> list[Json]:
    blocks: list[Json] = []
    if said.thinking:
        signature = seal(f"{cloud}thinking", said.thinking)
        blocks.append({"type": "thinking", "thinking": said.thinking, "signature": signature})
        blocks.append({"type": "redacted_thinking", "data": seal(f"{cloud}redacted")})
    thoughts = list(blocks)
    if said.text:
        blocks.append({"type": "text", "text": said.text})
    for index, call in enumerate(said.calls):
        own = f"toolu_{cloud}01{marked_id(f'{said.nonce}{index}', thoughts)}"
        id = call.id if call.id is not None else own
        blocks.append({"type": "tool_use", "id": id, "name": call.name, "input": call.arguments})
    return blocks


def _in_pieces(block: Json) -> tuple[Mark, Json, list[Json]]:
    match block["type"]:
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return "thinking", {"type": "thinking", "thinking": "", "signature": ""}, deltas
        case "text":
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
            return "text", {"type": "text", "text": ""}, deltas
        case "tool_use":
            deltas = [{"type": "input_json_delta", "partial_json": ""}]
            text = arguments_text(block["input"])
            deltas += [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(text)]
            return "call", {**block, "input": {}}, deltas
        case _:
            return "thinking", block, []


def _stop(said: Said) -> Json:
    reason = "tool_use" if said.calls else "end_turn"
    known = {"max_tokens": "max_tokens", "refusal": "refusal", "filter": "refusal"}
    return {"stop_reason": known.get(said.stop, reason), "stop_sequence": None}


def _usage(said: Said) -> Json:
    return {
        "input_tokens": said.tokens_in - said.tokens_cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": said.tokens_cached,
        "output_tokens": said.tokens_out,
    }


# ------------------------------------------------------------------- refused requests


def _blocks(message: Mapping[str, Any]) -> list[Json]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(block["text"] for block in content if block["type"] == "text")
    return content or ""


@attrs.frozen
class _Check:
    _server: AnthropicMessages
    _body: Json

    def all(self) -> None:
        messages = self._body["messages"]
        if not messages:
            self._no("messages: at least one message is required")
        if messages[0]["role"] != "user":
            self._no('messages: first message must use the "user" role')
        if messages[-1]["role"] == "assistant":
            self._no(
                "This model does not support assistant message prefill. "
                "The conversation must end with a user message."
            )
        for index, message in enumerate(messages):
            if not message["content"]:
                self._no(f"messages.{index}: all messages must have non-empty content")
            for at, block in enumerate(_blocks(message)):
                self._block(f"messages.{index}.content.{at}", block)
        self._pairs(messages)
        self._thoughts(messages)
        self._settings()
        self._cache()

    def _no(self, why: str) -> None:
        raise self._server.refusal(400, why)

    def _block(self, where: str, block: Json) -> None:
        cloud = self._server.cloud
        match block["type"]:
            case "text" if not block["text"].strip():
                self._no(f"{where}.text: text content blocks must contain non-whitespace text")
            case "tool_use" if not _ID.fullmatch(block["id"]):
                self._no(f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
            case "tool_use" if not 0 < len(block["name"]) <= 200:
                self._no(f"{where}.tool_use.name: String should have at most 200 characters")
            case "tool_result" if not block.get("content") and block.get("is_error"):
                self._no(f"{where}.tool_result: content cannot be empty if `is_error` is true")
            case "thinking" if not is_sealed(block["signature"], f"{cloud}thinking", block["thinking"]):
                self._no(f"{where}: Invalid `signature` in `thinking` block")
            case "redacted_thinking" if not is_sealed(block["data"], f"{cloud}redacted"):
                self._no(f"{where}: Invalid `data` in `redacted_thinking` block")

    def _pairs(self, messages: list[Json]) -> None:
        open_ids: list[str] = []
        used: set[str] = set()
        for index, message in enumerate(messages):
            blocks = _blocks(message)
            is_result = [block["type"] == "tool_result" for block in blocks]
            given = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
            for at, id in enumerate(given):
                if id not in open_ids:
                    self._no(
                        f"messages.{index}.content.{at}: unexpected `tool_use_id` found in `tool_result` "
                        f"blocks: {id}. Each `tool_result` block must have a corresponding `tool_use` block "
                        "in the previous message."
                    )
            if len(given) != len(set(given)):
                self._no(f"messages.{index}: each tool_use must have a single result")
            missing = [id for id in open_ids if id not in given]
            if missing or is_result != sorted(is_result, reverse=True):
                self._no(
                    f"messages.{index - 1}: `tool_use` ids were found without `tool_result` blocks "
                    f"immediately after: {', '.join(missing or given)}. Each `tool_use` block must have a "
                    "corresponding `tool_result` block in the next message."
                )
            open_ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
            if message["role"] != "assistant" and open_ids:
                self._no(f"messages.{index}: `tool_use` blocks can only be in `assistant` messages")
            if used & set(open_ids) or len(open_ids) != len(set(open_ids)):
                self._no("messages: `tool_use` ids must be unique")
            used |= set(open_ids)

    def _thoughts(self, messages: list[Json]) -> None:
        kind = self._body.get("thinking", {}).get("type", "disabled")
        if kind == "disabled":
            return
        turn = max(
            (
                index
                for index, message in enumerate(messages)
                if message["role"] == "user"
                and not any(block["type"] == "tool_result" for block in _blocks(message))
            ),
            default=0,
        )
        replies = [
            (index, _blocks(message))
            for index, message in enumerate(messages)
            if index > turn and message["role"] == "assistant"
        ]
        for index, blocks in replies:
            thoughts = [block for block in blocks if block["type"] in THINKING]
            bare = [{key: block[key] for key in block if key != "cache_control"} for block in thoughts]
            for block in blocks:
                id = block.get("id", "").removeprefix(f"toolu_{self._server.cloud}01")
                if block["type"] == "tool_use" and is_ours(id) and not came_with(id, bare):
                    self._no(
                        f"messages.{index}.content.0: `thinking` or `redacted_thinking` blocks in the latest "
                        "assistant message cannot be modified. These blocks must remain as they were in the "
                        "original response."
                    )
        if kind == "enabled" and replies and replies[-1][1][0]["type"] not in THINKING:
            index, blocks = replies[-1]
            self._no(
                f"messages.{index}.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
                f"`{blocks[0]['type']}`. When `thinking` is enabled, a final `assistant` message must start "
                "with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks). "
                "To avoid this requirement, disable `thinking`."
            )

    def _settings(self) -> None:
        body = self._body
        thinking = body.get("thinking", {})
        if body["max_tokens"] < 1:
            self._no("max_tokens: must be greater than or equal to 1")
        if thinking.get("type") == "enabled" and body["max_tokens"] <= thinking["budget_tokens"]:
            self._no("`max_tokens` must be greater than `thinking.budget_tokens`.")
        if thinking.get("type") == "enabled" and body.get("temperature", 1) != 1:
            self._no("`temperature` may only be set to 1 when thinking is enabled.")
        if body.get("tool_choice") and not body.get("tools"):
            self._no("tool_choice: may only be specified while providing tools")
        names = [tool["name"] for tool in body.get("tools", ())]
        for index, name in enumerate(names):
            if not _NAME.fullmatch(name):
                self._no(f"tools.{index}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        for index, tool in enumerate(body.get("tools", ())):
            if (problem := _schema_problem(tool["input_schema"])) is not None:
                self._no(f"tools.{index}.custom.input_schema{problem}")
        if len(names) != len(set(names)):
            self._no("tools: Tool names must be unique.")
        if not names and any(b["type"] == "tool_use" for m in body["messages"] for b in _blocks(m)):
            self._no(
                "Requests which include `tool_use` or `tool_result` blocks must define tools; "
                "tools: Field required"
            )

    def _cache(self) -> None:
        system = self._body.get("system", [])
        marked = [
            block
            for block in [
                *self._body.get("tools", ()),
                *(system if isinstance(system, list) else []),
                *(block for message in self._body["messages"] for block in _blocks(message)),
            ]
            if block.get("cache_control") is not None
        ]
        for block in system if isinstance(system, list) else []:
            if not block["text"].strip():
                self._no("system: text content blocks must be non-empty")
        if len(marked) + (self._body.get("cache_control") is not None) > 4:
            self._no(f"A maximum of 4 blocks with cache_control may be provided. Found {len(marked)}.")
        for block in marked:
            if block.get("type") in THINKING:
                self._no(f"cache_control cannot be set for {block['type']} blocks")


def _schema_problem(schema: Mapping[str, Any]) -> str | None:
    if schema.get("type") != "object":
        return ".type: Input should be 'object'"
    if schema.keys() & {"oneOf", "allOf", "anyOf"}:
        return ": input_schema does not support oneOf, allOf, or anyOf at the top level"
    if not Draft202012Validator(Draft202012Validator.META_SCHEMA).is_valid(schema):
        return ": JSON schema is invalid. It must match JSON Schema draft 2020-12"
    if not all(map(_PROPERTY.fullmatch, schema.get("properties", {}))):
        return f".properties: Property keys should match pattern '^{_PROPERTY.pattern}$'"
    return None
