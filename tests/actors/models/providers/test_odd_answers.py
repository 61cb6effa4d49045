"""Answers that are nearly right: each is a reply or a failure, and no reply spoils the requests after it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.models.codecs.anthropic_codec import AnthropicCodec
from stopgo.actors.models.codecs.codec import Codec
from stopgo.actors.models.codecs.google_codec import GoogleCodec
from stopgo.actors.models.codecs.ollama_codec import OllamaCodec
from stopgo.actors.models.codecs.openai_codec import OpenAICodec
from stopgo.actors.models.codecs.profiles import PROFILES
from stopgo.actors.models.codecs.responses_codec import COMPATIBLE, ResponsesCodec
from stopgo.actors.models.messages.messages import (
    AssistantMessage,
    ModelFailed,
    ModelReply,
    ToolMessage,
    UserMessage,
)
from stopgo.config.sections.models import ModelSpec
from stopgo.runtime.json_text import dump_wire
from tests.providers.servers.responses import events_of

from .conftest import request

ODD: list[Any] = [
    None,
    0,
    -1,
    1.5,
    True,
    10**30,
    "",
    "x",
    '{"a":',
    "stop",
    "\ud800",
    [],
    {},
    [[]],
    [{}],
    [None],
    {"a": None},
]

CALLS = [
    {
        "id": "c1",
        "type": "function",
        "function": {"name": "add", "arguments": '{"a":1}'},
        "extra_content": {"s": 1},
    },
    {"id": "c2", "type": "function", "function": {"name": "add", "arguments": "{}"}},
]
THOUGHTS = [{"type": "reasoning.text", "text": "hm", "index": 0}]
CHAT_USAGE = {"prompt_tokens": 5, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 1}}
CHAT = {
    "choices": [
        {
            "message": {"content": "hi", "reasoning_details": THOUGHTS, "tool_calls": CALLS},
            "finish_reason": "stop",
        }
    ],
    "usage": CHAT_USAGE,
}
CHAT_EVENTS = [
    {"choices": [{"delta": {"content": "hi", "reasoning_details": THOUGHTS}, "finish_reason": None}]},
    {"choices": [{"delta": {"reasoning_details": THOUGHTS, "tool_calls": [{"index": 0, **CALLS[0]}]}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": " "}}]}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 1, **CALLS[1]}]}, "finish_reason": "tool_calls"}]},
    {"choices": [], "usage": CHAT_USAGE},
]
CALL_PART = {"functionCall": {"id": "1", "name": "add", "args": {"a": 1}}, "thoughtSignature": "S"}
PARTS = [{"text": "hm", "thought": True}, {"text": "hi"}, CALL_PART, {"functionCall": {"name": "add"}}]
GEMINI_USAGE = {"promptTokenCount": 5, "candidatesTokenCount": 1, "thoughtsTokenCount": 2}
GEMINI = {
    "candidates": [{"content": {"role": "model", "parts": PARTS}, "finishReason": "STOP"}],
    "usageMetadata": GEMINI_USAGE,
}
GEMINI_EVENTS = [
    *({"candidates": [{"content": {"parts": [part]}}]} for part in PARTS),
    {"candidates": [{"content": {"parts": [{"text": "", "thoughtSignature": "S"}]}, "finishReason": "STOP"}]},
    {"usageMetadata": GEMINI_USAGE},
]
CLAUDE_USAGE = {"input_tokens": 5, "output_tokens": 3, "cache_read_input_tokens": 1}
CLAUDE = {
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "S"},
        {"type": "text", "text": "hi", "citations": None},
        {"type": "tool_use", "id": "t", "name": "add", "input": {"a": 1}},
    ],
    "stop_reason": "tool_use",
    "usage": CLAUDE_USAGE,
}
CLAUDE_EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"usage": CLAUDE_USAGE}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "S"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "hi"}},
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "t", "name": "add"},
    },
    {
        "type": "content_block_delta",
        "index": 2,
        "delta": {"type": "input_json_delta", "partial_json": '{"a":1}'},
    },
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
]
ITEMS = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "phase": "commentary",
        "content": [{"type": "output_text", "text": "hi", "annotations": []}],
    },
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "add", "arguments": '{"a":1}'},
    {"type": "web_search_call", "id": "ws_1"},
]
RESPONSE = {
    "status": "completed",
    "output": ITEMS,
    "input_transformations": [{"id": "rs_0", "reason": "prefix_mismatch"}],
    "usage": {"input_tokens": 5, "input_tokens_details": {"cached_tokens": 1}, "output_tokens": 3},
}


OLLAMA_CALLS = [{"id": "c1", "function": {"name": "add", "arguments": {"a": 1}}}]
OLLAMA = {
    "message": {"content": "hi", "thinking": "hm", "tool_calls": OLLAMA_CALLS},
    "done": True,
    "done_reason": "stop",
    "prompt_eval_count": 5,
    "eval_count": 3,
}
OLLAMA_LINES = [{**OLLAMA, "done": False}, {**OLLAMA, "message": {"content": ""}}]


def spec(provider: Any) -> ModelSpec:
    return ModelSpec("m", provider, "m", max_tokens=100)


SPOKEN: list[tuple[Codec, object, list[Any]]] = [
    (AnthropicCodec(spec("anthropic")), CLAUDE, CLAUDE_EVENTS),
    (GoogleCodec(spec("google")), GEMINI, GEMINI_EVENTS),
    (OpenAICodec(spec("mistral"), PROFILES["mistral"].flavour), CHAT, CHAT_EVENTS),
    (OpenAICodec(spec("openrouter"), PROFILES["openrouter"].flavour), CHAT, CHAT_EVENTS),
    (ResponsesCodec(spec("openai"), "here"), RESPONSE, events_of(RESPONSE)),
    (ResponsesCodec(spec("openai_compatible"), "here", COMPATIBLE), RESPONSE, events_of(RESPONSE)),
    (OllamaCodec(spec("ollama")), OLLAMA, OLLAMA_LINES),
]


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places(each, (*at, key))


def nearly(answer: Any, random: Random) -> Any:
    """The answer with something left out of it, twice in it, or odd."""
    answer = copy.deepcopy(answer)
    for _ in range(random.randint(1, 3)):
        *path, last = random.choice([at for at in places(answer) if at] or [(None,)])
        if last is None:
            break
        holder = answer
        for key in path:
            holder = holder[key]
        match random.randrange(4):
            case 0:
                del holder[last]
            case 1 if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[last]))
            case _:
                holder[last] = copy.deepcopy(random.choice(ODD))
    return answer


def told_again(codec: Codec, reply: ModelReply) -> None:
    """A reply goes to the journal, and to the provider with everything after it."""
    json.dumps(attrs.asdict(reply), allow_nan=False)
    said = AssistantMessage(reply.text, reply.tool_calls, reply.verbatim)
    results = [ToolMessage(call.id, call.name, "done") for call in reply.tool_calls]
    dump_wire(codec.body(request(UserMessage("hi"), said, *results, UserMessage("go on"))))


def streamed(codec: Codec, events: list[Any]) -> ModelReply:
    stream = codec.stream(request(), lambda _: None)
    for event in events:
        stream.feed(json.dumps(event))
    return stream.reply()


@pytest.mark.parametrize(("codec", "answer", "events"), SPOKEN)
def test_valid_answer_is_a_reply(codec: Codec, answer: object, events: list[Any]) -> None:
    for reply in (codec.reply(answer, request()), streamed(codec, events)):
        assert [call.name for call in reply.tool_calls][:1] == ["add"]
        told_again(codec, reply)


@pytest.mark.parametrize(("codec", "answer", "events"), SPOKEN)
@given(st.randoms(use_true_random=False))
def test_mutated_answer_is_a_reply_or_a_failure(
    codec: Codec, answer: object, events: list[Any], random: Random
) -> None:
    with suppress(ModelFailed):
        told_again(codec, codec.reply(nearly(answer, random), request()))
    with suppress(ModelFailed):
        told_again(codec, streamed(codec, nearly(events, random)))


@pytest.mark.parametrize("codec", [codec for codec, *_ in SPOKEN])
@pytest.mark.parametrize(
    "odd",
    [
        *(None, 3, "x", [], [1], {}),
        *({"content": 3}, {"content": [3], "stop_reason": 3}),
        *({"candidates": {}}, {"candidates": ["x"]}, {"choices": {}}, {"choices": ["x"]}),
    ],
)
def test_json_of_another_shape_fails(codec: Codec, odd: object) -> None:
    with pytest.raises(ModelFailed, match=r"not understood|no candidate|the answer is empty"):
        codec.reply(odd, request())


@pytest.mark.parametrize(("codec", "events"), [(codec, events) for codec, _, events in SPOKEN])
@pytest.mark.parametrize(
    "odd",
    [
        *(3, [], {}, {"type": "message_delta", "delta": 3}),
        *({"candidates": 3}, {"candidates": [{"content": {"parts": [3]}}]}),
        *({"choices": [3]}, {"choices": [{"delta": {"tool_calls": 3}}]}),
    ],
)
def test_events_of_unknown_shape_are_ignored(codec: Codec, events: list[Any], odd: object) -> None:
    first, *others = events
    assert streamed(codec, [first, odd, *others]) == streamed(codec, events)


@pytest.mark.parametrize("call", [None, [], "add"])
def test_invalid_call_of_gemini_does_not_hide_later_ones(call: object) -> None:
    codec = GoogleCodec(spec("google"))
    parts = [{"text": "hi", "functionCall": call}]
    answer = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
    for reply in (codec.reply(answer, request()), streamed(codec, [answer])):
        assert reply.text == "hi"
        assert len(reply.tool_calls) == (call is not None)
        told_again(codec, reply)


def test_odd_pieces_of_claude_fail_the_reply_only() -> None:
    events = copy.deepcopy(CLAUDE_EVENTS)
    for event in events:
        if event.get("index") == 0:
            event["index"] = []
    events[2]["delta"] = {"type": {}}
    assert streamed(AnthropicCodec(spec("anthropic")), events).text == "hi"
