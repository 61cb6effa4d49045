"""OpenAI's Responses API: strict checks of requests, with the server's sentences; answers and their events.

Sources of the refusals: vercel/ai#7099, openai-agents-python#1611, langchainjs#9082 (pairs of items),
litellm#13420 (`status`), agent-framework-go#784 (plain reasoning), codex#8119 (reasoning of somebody else),
pydantic-ai#7430 (order), pydantic-ai#2867 (models that do not reason); the texts are OpenAI's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from stopgo.actors.models.messages.messages import ModelTool, ToolMessage
from tests.providers.servers.http import Request
from tests.providers.servers.oracles import responses_problem
from tests.providers.servers.seal import marked_id, seal
from tests.providers.servers.talk import Frame, Heard, Json, Mark, Refusal, Said, arguments_text, pieces

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_WITHOUT_REASONING = ("gpt-4o", "gpt-4.1")


def error(status: int, why: str, code: str | None = None) -> Json:
    kind = {429: "rate_limit_error"}.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": why, "type": kind, "param": None, "code": code}}


def event(kind: str, **members: Any) -> Json:
    return {"type": f"response.{kind}", **members}


def events_of(response: Json) -> list[Json]:
    """The events of a response: its texts and arguments in pieces, and each item whole at its end."""
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    found = [event("created", response=begun), event("in_progress", response=begun)]
    for index, item in enumerate(response["output"]):
        where = {"output_index": index, "item_id": item.get("id")}
        opened = {**item, "status": "in_progress"}
        opened |= {name: empty for name, empty in (("arguments", ""), ("content", [])) if name in item}
        found.append(event("output_item.added", output_index=index, item=opened))
        for place, part in enumerate(item.get("content") or ()):
            kind, text = _text(part)
            for piece in pieces(text):
                found.append(event(f"{kind}.delta", **where, content_index=place, delta=piece))
        if item["type"] == "function_call":
            for piece in pieces(item["arguments"]):
                found.append(
                    event("function_call_arguments.delta", **where, delta=piece, obfuscation="kQ3xy")
                )
            found.append(event("function_call_arguments.done", **where, arguments=item["arguments"]))
        found.append(event("output_item.done", output_index=index, item=item))
    return [*found, event(response["status"], response=response)]


def _text(part: Json) -> tuple[str, str]:
    return ("refusal", part["refusal"]) if part["type"] == "refusal" else ("output_text", part["text"])


# ------------------------------------------------------------------- refused requests


@attrs.define
class Issued:
    """The replies of an endpoint, which it checks when they come back."""

    reasoning: dict[str, tuple[str, str]] = attrs.field(factory=dict)
    """Its encrypted content, and the id of the item after it."""
    partner: dict[str, str] = attrs.field(factory=dict)
    """The reasoning before an item, by the item's id."""
    known: set[str] = attrs.field(factory=set)

    def remember(self, output: Sequence[Json]) -> None:
        thought = ""
        for item, following in zip(output, [*output[1:], {}], strict=True):
            id = item.get("id", "")
            self.known.add(id)
            if item["type"] == "reasoning":
                thought = id
                self.reasoning[id] = (item.get("encrypted_content", ""), following.get("id", ""))
            elif thought:
                self.partner[id] = thought

    def problem(self, items: Sequence[Json]) -> tuple[str, str | None] | None:
        """What is wrong with the input, and the code of the error."""
        sent: set[str] = set()
        for index, (item, following) in enumerate(zip(items, [*items[1:], {}], strict=True)):
            kind, id = item.get("type"), item.get("id", "")
            sent.add(id)
            if kind == "reasoning":
                for name in item.keys() - {"type", "id", "summary", "encrypted_content"}:
                    if name == "content":
                        return f"Invalid 'input[{index}].content': array too long.", None
                    return f"Unknown parameter: 'input[{index}].{name}'.", "unknown_parameter"
                if id not in self.reasoning or not item.get("encrypted_content"):
                    return f"Item with id '{id}' not found.", None
                encrypted, follower = self.reasoning[id]
                if item["encrypted_content"] != encrypted:
                    return "The encrypted content could not be verified.", "invalid_encrypted_content"
                if following.get("id") != follower:
                    return (
                        f"Item '{id}' of type 'reasoning' was provided without its required following item.",
                        None,
                    )
            elif id and id not in self.known:
                return f"Item with id '{id}' not found.", None
            elif id in self.partner and self.partner[id] not in sent:
                wanted = f"its required 'reasoning' item: '{self.partner[id]}'"
                return f"Item '{id}' of type '{kind}' was provided without {wanted}.", None
            nulls = [name for name, value in item.items() if value is None]
            if nulls or (kind == "function_call" and "status" in item):
                name = nulls[0] if nulls else "status"
                return f"Unknown parameter: 'input[{index}].{name}'.", "unknown_parameter"
        return None


def order_problem(items: Sequence[Mapping[str, Any]]) -> str | None:
    """What is wrong with the calls and their outputs."""
    waiting: list[str] = []
    for item in items:
        match item.get("type"):
            case "function_call":
                waiting.append(item["call_id"])
            case "function_call_output" if item["call_id"] not in waiting:
                return f"No tool call found for function call output with call_id {item['call_id']}."
            case "function_call_output":
                if waiting[0] != item["call_id"]:
                    return "outputs come in the order of their calls"
                waiting.pop(0)
            case _ if waiting and item.get("role") in ("user", "developer"):
                break
            case _:
                pass
    return f"No tool output found for function call {waiting[0]}." if waiting else None


def request_problem(body: Json, issued: Issued) -> tuple[str, str | None] | None:
    """Why the server refuses a request, and the code of the error; also rules that are only our own."""
    if body.get("store") is not False:
        return "the reply would be stored", None
    if "instructions" in body:
        return "newer models read instructions after the input", None
    for tool in body.get("tools", ()):
        if tool.get("strict") is not False:
            return f"the schema of {tool['name']} would be made strict", None
        if tool["parameters"].get("type") != "object":
            return f"Invalid schema for function '{tool['name']}': schema must have type 'object'.", None
    if body["model"].startswith(_WITHOUT_REASONING):
        for name in ("reasoning", "include"):
            if name in body:
                return f"Unsupported parameter: '{name}' is not supported with this model.", None
    if body.get("max_output_tokens", 16) < 16:
        return "Invalid 'max_output_tokens': integer below minimum value.", None
    items = body["input"]
    for id in [item[name] for item in items for name in ("id", "call_id") if name in item]:
        if not isinstance(id, str) or not _ID.fullmatch(id):
            return f"Invalid id {id!r}", None
    found = issued.problem(items)
    if found is not None:
        return found
    if wrong := order_problem(items):
        return wrong, None
    if problem := responses_problem(body):
        where, kind, value = problem
        return f"Invalid value for '{where}': {kind}, got {value!r}.", None
    return None


# ------------------------------------------------------------------- the simulated server


@attrs.frozen
class Responses:
    """A server of `/v1/responses` for the models of `openai`."""

    name: str = "responses"
    provider: str = "openai"
    issued: Issued = attrs.field(factory=Issued)

    def open(self, request: Request, key: str) -> tuple[str, bool]:
        """Model and whether it is to be streamed. Raises `Refusal`."""
        if (request.method, request.path) != ("POST", "/v1/responses"):
            raise self.refusal(404, f"Invalid URL ({request.method} {request.path})")
        if request.headers.get("authorization") != f"Bearer {key}":
            raise self.refusal(401, "Incorrect API key provided")
        body = json.loads(request.body)
        return body.get("model", ""), bool(body.get("stream"))

    def refusal(self, status: int, why: str, code: str | None = None) -> Refusal:
        return Refusal(status, error(status, why, code), why)

    def error(self, status: int, why: str) -> Any:
        return error(status, why)

    def error_frame(self, why: str) -> bytes:
        return _frame({"type": "error", "code": "server_error", "message": why, "param": None})

    def check(self, body: Json) -> None:
        """Check a request. Raises `Refusal` with the answer of the real server."""
        if problem := request_problem(body, self.issued):
            raise self.refusal(400, *problem)

    def hear(self, body: Json, model: str, stream: bool) -> Heard:
        names: dict[str, str] = {}
        user, step = "", 0
        results: list[ToolMessage] = []
        within = False
        for item in body["input"]:
            kind = item.get("type")
            said = kind in ("reasoning", "function_call", "message") or item.get("role") == "assistant"
            step, within = step + (said and not within), said
            if said:
                results = []
            if kind == "function_call":
                names[item["call_id"]] = item["name"]
            elif kind == "function_call_output":
                id, text = item["call_id"], item["output"]
                bare = text.removeprefix("Error: ")
                results.append(ToolMessage(id, names[id], bare, bare != text))
            elif item.get("role") == "user":
                user, step = "\n\n".join(part["text"] for part in item["content"]), 0
        tools = tuple(
            ModelTool(tool["name"], tool["description"], tool["parameters"]) for tool in body.get("tools", ())
        )
        thinks = not model.startswith(_WITHOUT_REASONING)
        return Heard(model, user, step, tuple(results), tools, len(json.dumps(body["input"])), stream, thinks)

    def body(self, said: Said, heard: Heard) -> Json:
        mark = marked_id(f"{heard.model} {said.nonce}")
        output: list[Json] = []
        if heard.thinks:
            output.append(
                {"type": "reasoning", "id": f"rs_{mark}", "summary": [], "encrypted_content": seal(mark)}
            )
        if said.text:
            part = {"type": "output_text", "text": said.text, "annotations": [], "logprobs": []}
            if said.stop == "refusal":
                part = {"type": "refusal", "refusal": said.text}
            message = {"type": "message", "id": f"msg_{mark}", "role": "assistant", "status": "completed"}
            phase = "commentary" if said.calls else "final_answer"
            output.append({**message, "phase": phase, "content": [part]})
        for index, call in enumerate(said.calls):
            output.append(
                {
                    "type": "function_call",
                    "id": f"fc_{mark}_{index}",
                    "call_id": f"call_{mark}_{index}" if call.id is None else call.id,
                    "name": call.name,
                    "arguments": arguments_text(call.arguments),
                    "status": "completed",
                }
            )
        self.issued.remember(output)
        cut = {"max_tokens": "max_output_tokens", "filter": "content_filter"}.get(said.stop)
        return {
            "id": f"resp_{mark}",
            "object": "response",
            "created_at": 1_795_860_000,
            "model": heard.model,
            "status": "completed" if cut is None else "incomplete",
            "incomplete_details": None if cut is None else {"reason": cut},
            "error": None,
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": said.tokens_in,
                "input_tokens_details": {"cached_tokens": said.tokens_cached, "cache_write_tokens": 0},
                "output_tokens": said.tokens_out,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": said.tokens_in + said.tokens_out,
            },
        }

    def frames(self, said: Said, heard: Heard) -> Iterator[Frame]:
        for number, each in enumerate(events_of(self.body(said, heard))):
            yield Frame(_mark(each), _frame({**each, "sequence_number": number}))


def _mark(each: Mapping[str, Any]) -> Mark:
    kind = each["type"].removeprefix("response.")
    if kind in ("completed", "incomplete"):
        return "stop"
    if kind.startswith(("output_text", "refusal")):
        return "text"
    return "call" if kind.startswith("function_call") else "begin"


def _frame(each: Json) -> bytes:
    return f"event: {each['type']}\ndata: {json.dumps(each, ensure_ascii=False)}\n\n".encode()
