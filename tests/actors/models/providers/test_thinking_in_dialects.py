"""In each dialect, reasoning in the text reaches neither people nor the answer nor the next request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from stopgo.actors.models.codecs.anthropic_codec import AnthropicCodec
from stopgo.actors.models.codecs.codec import Codec
from stopgo.actors.models.codecs.google_codec import GoogleCodec
from stopgo.actors.models.codecs.ollama_codec import OllamaCodec
from stopgo.actors.models.codecs.openai_codec import OpenAICodec
from stopgo.actors.models.codecs.profiles import PROFILES
from stopgo.actors.models.codecs.responses_codec import COMPATIBLE, OPENAI, ResponsesCodec
from stopgo.actors.models.messages.messages import ModelFailed, TextDelta, ToolMessage, UserMessage
from stopgo.config.sections.models import ModelSpec, Provider
from tests.providers.servers.responses import events_of

from .conftest import Heard, kept, request


def spec(provider: Provider) -> ModelSpec:
    return ModelSpec("m", provider, "m", max_tokens=100)


@attrs.frozen
class Dialect:
    name: str
    codec: Codec

    def whole(self, text: str, *, asks: bool) -> dict[str, Any]:
        """An answer with a text and perhaps a call."""
        match self.name:
            case "claude":
                call = {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}}
                content = [{"type": "text", "text": text}, *([call] if asks else [])]
                return {"type": "message", "content": content, "stop_reason": "end_turn"}
            case "gemini":
                parts: list[dict[str, Any]] = [{"text": text}]
                parts += [{"functionCall": {"name": "add", "args": {"a": 1}}}] if asks else []
                content_of = {"role": "model", "parts": parts}
                return {"candidates": [{"content": content_of, "finishReason": "STOP"}]}
            case "chat" | "azure":
                function = {"name": "add", "arguments": '{"a":1}'}
                calls = [{"id": "c1", "type": "function", "function": function}] if asks else []
                message = {"role": "assistant", "content": text, "tool_calls": calls}
                return {"choices": [{"message": message, "finish_reason": "stop"}]}
            case "ollama":
                asked = [{"function": {"name": "add", "arguments": {"a": 1}}}] if asks else []
                said = {"role": "assistant", "content": text, "tool_calls": asked}
                return {"message": said, "done": True, "done_reason": "stop"}
            case _:
                item = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": '{"a":1}'}
                spoken = {"type": "output_text", "text": text, "annotations": []}
                output: list[dict[str, Any]] = [
                    {"type": "message", "id": "msg_1", "role": "assistant", "content": [spoken]}
                ]
                return {"status": "completed", "output": [*output, *([item] if asks else [])]}

    def events(self, pieces: Sequence[str]) -> list[Any]:
        """A stream with a text."""
        match self.name:
            case "claude":
                block = {
                    "type": "content_block_start",
                    "index": 0,
                    "content_block": {"type": "text", "text": ""},
                }
                deltas = [
                    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": each}}
                    for each in pieces
                ]
                end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
                return [
                    {"type": "message_start", "message": {}},
                    block,
                    *deltas,
                    end,
                    {"type": "message_stop"},
                ]
            case "gemini":
                said = [{"candidates": [{"content": {"parts": [{"text": each}]}}]} for each in pieces]
                return [*said, {"candidates": [{"finishReason": "STOP"}]}]
            case "chat" | "azure":
                chunks = [{"choices": [{"delta": {"content": each}}]} for each in pieces]
                return [*chunks, {"choices": [{"delta": {}, "finish_reason": "stop"}]}]
            case "ollama":
                return [*({"message": {"content": each}} for each in pieces), {"done": True}]
            case _:
                return list(events_of(self.whole("".join(pieces), asks=False)))


DIALECTS = [
    Dialect("claude", AnthropicCodec(spec("anthropic"))),
    Dialect("gemini", GoogleCodec(spec("google"))),
    Dialect("chat", OpenAICodec(spec("openai_compatible"), PROFILES["openai_compatible"].flavour)),
    Dialect("azure", OpenAICodec(spec("azure"), PROFILES["azure"].flavour)),
    Dialect("ollama", OllamaCodec(spec("ollama"))),
    Dialect("responses of OpenAI", ResponsesCodec(spec("openai"), "here", OPENAI)),
    Dialect("responses of others", ResponsesCodec(spec("openai_compatible"), "here", COMPATIBLE)),
]
# anthropic-sdk-python#1109: vLLM passes the tags on in a text block of its Messages API.
TEXTS = ["<think>hmm</think>\n\nyes", "[THINK]hmm[/THINK]yes", "hmm\n</think>\n\nyes"]
each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


@each_dialect
@pytest.mark.parametrize("text", TEXTS)
def test_reply_has_only_the_answer(dialect: Dialect, text: str) -> None:
    assert dialect.codec.reply(dialect.whole(text, asks=False), request()).text == "yes"


@each_dialect
@pytest.mark.parametrize("text", [*TEXTS, "<think>hmm</think>"])
def test_next_request_has_no_reasoning(dialect: Dialect, text: str) -> None:
    reply = dialect.codec.reply(dialect.whole(text, asks=True), request())
    assert [call.arguments for call in reply.tool_calls] == [{"a": 1}]
    messages = (UserMessage("hi"), kept(reply), ToolMessage(reply.tool_calls[0].id, "add", "2"))
    following = json.dumps(dialect.codec.body(request(*messages)))
    assert "hmm" not in following
    assert ("yes" in following) == ("yes" in text)


@each_dialect
def test_stream_shows_only_the_answer(dialect: Dialect) -> None:
    heard = Heard()
    stream = dialect.codec.stream(request(), heard)
    for event in dialect.events(["<th", "ink>hm", "m</think", ">\n\n", "y", "es"]):
        stream.feed(json.dumps(event))
    assert stream.reply().text == "yes"
    assert "".join(each.text for each in heard.deltas if isinstance(each, TextDelta)) == "yes"


@each_dialect
def test_reasoning_alone_is_an_empty_answer(dialect: Dialect) -> None:
    with pytest.raises(ModelFailed) as failed:
        dialect.codec.reply(dialect.whole("<think>hmm</think>", asks=False), request())
    assert failed.value.empty
