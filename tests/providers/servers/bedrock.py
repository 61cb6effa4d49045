"""Simulations of Amazon Bedrock: Anthropic's server at its address, InvokeModel and Converse.

Rules from the API reference and the guide of Bedrock, nearai/ironclaw#1710, NousResearch/hermes-agent#55092
and strands-agents/sdk-python#2704. Frames: https://smithy.io/2.0/aws/amazon-eventstream.html.
"""

from __future__ import annotations

import json
import re
import struct
from base64 import b64encode
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote
from zlib import crc32

import attrs

from stopgo.actors.models.messages.messages import ModelTool, ToolMessage
from tests.providers.servers.anthropic_messages import AnthropicMessages
from tests.providers.servers.http import Request
from tests.providers.servers.seal import is_sealed, marked_id, seal
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

_IDS = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_NAMES = re.compile(r"[A-Za-z0-9_-]{1,64}")


def frame(payload: bytes, **headers: str) -> bytes:
    """A frame with these headers; `_` stands for `-`."""
    coded = b"".join(
        bytes([len(name) + 1])
        + f":{name}".replace("_", "-").encode()
        + b"\x07"
        + struct.pack(">H", len(value.encode()))
        + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack(">II", len(coded) + len(payload) + 16, len(coded))
    whole = prelude + struct.pack(">I", crc32(prelude)) + coded + payload
    return whole + struct.pack(">I", crc32(whole))


def event(name: str, payload: Any) -> bytes:
    data = json.dumps(payload, ensure_ascii=False).encode(errors="surrogatepass")
    return frame(data, message_type="event", event_type=name, content_type="application/json")


def exception(name: str, message: str) -> bytes:
    return frame(json.dumps({"message": message}).encode(), message_type="exception", exception_type=name)


def _refusal(status: int, why: str) -> Refusal:
    return Refusal(status, {"message": why}, why)


def _open(request: Request, key: str, *methods: str) -> tuple[str, bool]:
    """The methods: without and with a stream."""
    found = re.fullmatch(r"/model/([^/]+)/([a-z-]+)", request.path)
    if request.method != "POST" or found is None or found[2] not in methods or request.query:
        raise _refusal(404, f"<UnknownOperationException/> {request.path}")
    _check_key(request, key)
    return unquote(found[1]), found[2] == methods[1]


def _check_key(request: Request, key: str) -> None:
    if request.headers.get("authorization") != f"Bearer {key}":
        raise _refusal(403, "The security token included in the request is invalid.")
    if {"x-api-key", "x-amz-date"} & request.headers.keys():
        raise _refusal(403, "two credentials")


@attrs.frozen
class BedrockMessages(AnthropicMessages):
    name: str = "bedrock"
    cloud: str = "bdrk_"

    def open(self, request: Request, key: str) -> tuple[str, bool]:
        if request.path != "/anthropic/v1/messages":
            raise self.refusal(404, f"{request.path} not found")
        _check_key(request, key)
        return AnthropicMessages.open(self, attrs.evolve(request, path="/v1/messages"), key)


@attrs.frozen
class BedrockInvoke(AnthropicMessages):
    """Claude by InvokeModel."""

    name: str = "bedrock_invoke"
    cloud: str = "bdrk_"

    def open(self, request: Request, key: str) -> tuple[str, bool]:
        model, stream = _open(request, key, "invoke", "invoke-with-response-stream")
        body = json.loads(request.body)
        if body.get("anthropic_version") != "bedrock-2023-05-31":
            raise _refusal(400, "anthropic_version: Field required")
        if extra := {"model", "stream"} & body.keys():
            raise _refusal(400, f"{sorted(extra)}: Extra inputs are not permitted")
        if {"anthropic-version", "anthropic-beta"} & request.headers.keys():
            raise _refusal(400, "a header of another API")
        return model, stream

    def refusal(self, status: int, why: str) -> Refusal:
        return _refusal(status, why)

    def error(self, status: int, why: str) -> Json:
        return {"message": why}

    def check(self, body: Json) -> None:
        rest = {name: value for name, value in body.items() if name != "anthropic_version"}
        AnthropicMessages.check(self, {**rest, "model": "claude"})

    def frames(self, said: Said, heard: Heard) -> Iterator[Frame]:
        for each in AnthropicMessages.frames(self, said, heard):
            data = each.data.split(b"data: ", 1)[1].strip()
            yield Frame(each.mark, event("chunk", {"bytes": b64encode(data).decode(), "p": "abcdef"}))

    def error_frame(self, why: str) -> bytes:
        return exception("serviceUnavailableException", why)


@attrs.frozen
class BedrockConverse:
    name: str = "bedrock_converse"

    def open(self, request: Request, key: str) -> tuple[str, bool]:
        """Model and whether it is to be streamed. Raises `Refusal`."""
        return _open(request, key, "converse", "converse-stream")

    def error(self, status: int, why: str) -> Json:
        return {"message": why}

    def error_frame(self, why: str) -> bytes:
        return exception("serviceUnavailableException", why)

    # ------------------------------------------------------------------ requests

    def check(self, body: Json) -> None:
        """Check a request. Raises `Refusal`."""
        known = {"messages", "system", "toolConfig", "inferenceConfig", "additionalModelRequestFields"}
        if extra := body.keys() - known:
            self._no(f"extraneous key {sorted(extra)} is not permitted")
        if extra := body.get("inferenceConfig", {}).keys() - {"maxTokens", "temperature", "topP"}:
            self._no(f"#/inferenceConfig: extraneous key {sorted(extra)} is not permitted")
        open_ids: list[str] = []
        role = "assistant"
        has_tools = False
        for index, message in enumerate(body["messages"]):
            if message["role"] == role:
                self._no("A conversation must alternate between user and assistant roles.")
            role = message["role"]
            if not message["content"]:
                self._no(f"The content field in the Message object at messages.{index} is empty.")
            given = [each["toolResult"]["toolUseId"] for each in message["content"] if "toolResult" in each]
            if sorted(given) != sorted(open_ids):
                self._no(f"messages.{index}: Expected toolResult blocks for {open_ids}, found {given}")
            open_ids = []
            for at, block in enumerate(message["content"]):
                self._block(f"messages.{index}.content.{at}", block, message["content"][:at])
                if "toolUse" in block:
                    open_ids.append(block["toolUse"]["toolUseId"])
            has_tools = has_tools or bool(given or open_ids)
        if role != "user":
            self._no("A conversation must end with a user message.")
        tools = [each["toolSpec"] for each in body.get("toolConfig", {}).get("tools", ())]
        if has_tools and not tools:
            self._no("The toolConfig field must be defined when using toolUse and toolResult content blocks.")
        for tool in tools:
            if not _NAMES.fullmatch(tool["name"]) or not tool.get("description", "x"):
                self._no(f"toolConfig.tools: {tool['name']!r}: invalid name or description")
            if tool["inputSchema"]["json"].get("type") != "object":
                self._no("The value at toolConfig.tools.0.toolSpec.inputSchema.json.type must be object.")

    def _block(self, where: str, block: Json, before: list[Json]) -> None:
        match block:
            case {"text": str(text), **rest} if not rest:
                if not text.strip():
                    self._no(f"The text field in the ContentBlock object at {where} is blank.")
            case {"toolUse": {"toolUseId": str(id), "name": str(name), "input": dict(), **rest}} if not rest:
                if not _IDS.fullmatch(id) or not _NAMES.fullmatch(name):
                    self._no(f"{where}.toolUse: invalid id or name")
            case {"toolResult": {"toolUseId": str(), "content": list(), **rest}}:
                if rest not in ({}, {"status": "error"}, {"status": "success"}):
                    self._no(f"{where}.toolResult: {rest}")
                if any("toolResult" not in each for each in before):
                    self._no(f"{where}: a result after other content")
            case {"reasoningContent": {"reasoningText": {"text": str(text), "signature": str(signed)}}}:
                if not is_sealed(signed, "reasoning", text):
                    self._no(f"{where}: Invalid signature")
                if any("reasoningContent" not in each for each in before):
                    self._no(f"{where}: reasoning after other content")
            case {"reasoningContent": {"redactedContent": str(data)}}:
                if not is_sealed(data, "redacted"):
                    self._no(f"{where}: Invalid data")
            case _:
                self._no(f"{where}: unknown content {list(block)}")

    def _no(self, why: str) -> None:
        raise _refusal(400, why)

    def hear(self, body: Json, model: str, stream: bool) -> Heard:
        user, step = "", 0
        names: dict[str, str] = {}
        results: list[ToolMessage] = []
        for message in body["messages"]:
            blocks = message["content"]
            if message["role"] == "assistant":
                results, step = [], step + 1
                names |= {
                    each["toolUse"]["toolUseId"]: each["toolUse"]["name"]
                    for each in blocks
                    if "toolUse" in each
                }
                continue
            for each in blocks:
                if "toolResult" in each:
                    given = each["toolResult"]
                    text = "".join(part.get("text", "") for part in given["content"])
                    id = given["toolUseId"]
                    results.append(ToolMessage(id, names[id], text, given.get("status") == "error"))
            texts = [each["text"] for each in blocks if "text" in each]
            if texts:
                user, step = "\n".join(texts), 0
        tools = tuple(
            ModelTool(each["name"], each.get("description", ""), each["inputSchema"]["json"])
            for each in (tool["toolSpec"] for tool in body.get("toolConfig", {}).get("tools", ()))
        )
        size = len(json.dumps(body["messages"]))
        return Heard(model, user, step, tuple(results), tools, size, stream, thinks="nova" not in model)

    # ------------------------------------------------------------------- replies

    def body(self, said: Said, heard: Heard) -> Json:
        message = {"role": "assistant", "content": _content(said)}
        return {"output": {"message": message}, "stopReason": _stop(said), "usage": _usage(said)}

    def frames(self, said: Said, heard: Heard) -> Iterator[Frame]:
        yield Frame("begin", event("messageStart", {"role": "assistant"}))
        for index, block in enumerate(_content(said)):
            mark, start, deltas = _in_pieces(block)
            at = {"contentBlockIndex": index}
            if start:
                yield Frame(mark, event("contentBlockStart", {**at, "start": start}))
            for delta in deltas:
                yield Frame(mark, event("contentBlockDelta", {**at, "delta": delta}))
            yield Frame(mark, event("contentBlockStop", at))
        yield Frame("stop", event("messageStop", {"stopReason": _stop(said)}))
        yield Frame("end", event("metadata", {"usage": _usage(said), "metrics": {"latencyMs": 7}}))


def _content(said: Said) -> list[Json]:
    blocks: list[Json] = []
    if said.thinking:
        signed = {"text": said.thinking, "signature": seal("reasoning", said.thinking)}
        blocks.append({"reasoningContent": {"reasoningText": signed}})
        blocks.append({"reasoningContent": {"redactedContent": seal("redacted")}})
    if said.text:
        blocks.append({"text": said.text})
    for index, call in enumerate(said.calls):
        id = call.id if call.id is not None else f"tooluse_{marked_id(f'{said.nonce}{index}')}"
        blocks.append({"toolUse": {"toolUseId": id, "name": call.name, "input": call.arguments}})
    return blocks


def _in_pieces(block: Json) -> tuple[Mark, Json, list[Json]]:
    match block:
        case {"text": text}:
            return "text", {}, [{"text": piece} for piece in pieces(text)]
        case {"toolUse": {"toolUseId": id, "name": name, "input": given}}:
            # A call without arguments has no piece of them.
            json_pieces = pieces(arguments_text(given)) if given else ()
            start = {"toolUse": {"toolUseId": id, "name": name}}
            return "call", start, [{"toolUse": {"input": piece}} for piece in json_pieces]
        case {"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}}:
            deltas = [{"reasoningContent": {"text": piece}} for piece in pieces(text)]
            return "thinking", {}, [*deltas, {"reasoningContent": {"signature": signature}}]
        case _:
            return "thinking", {}, [block]


def _stop(said: Said) -> str:
    known = {"max_tokens": "max_tokens", "refusal": "guardrail_intervened", "filter": "content_filtered"}
    return known.get(said.stop, "tool_use" if said.calls else "end_turn")


def _usage(said: Said) -> Json:
    counts = {"inputTokens": said.tokens_in - said.tokens_cached, "outputTokens": said.tokens_out}
    return {**counts, "cacheReadInputTokens": said.tokens_cached, "totalTokens": said.tokens_in}
