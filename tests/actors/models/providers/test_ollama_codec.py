"""Ollama's own API. Right values: https://docs.ollama.com/api/chat, and api/types.go of ollama/ollama."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stopgo.actors.models.codecs.ollama_codec import OllamaCodec
from stopgo.actors.models.messages.messages import (
    ArgumentsDelta,
    AssistantMessage,
    ModelFailed,
    ModelReply,
    TextDelta,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    unheard,
)
from stopgo.actors.tools.pictures import Picture
from stopgo.config.sections.models import ModelSpec

from .conftest import Heard, kept, request

END: dict[str, Any] = {"message": {"content": ""}, "done": True, "done_reason": "stop"}
COUNTED = {**END, "prompt_eval_count": 61, "eval_count": 24}
CALL = {"id": "call_x1", "function": {"index": 0, "name": "add", "arguments": {"a": 7}}}


def codec(*, stream: bool = True, **more: Any) -> OllamaCodec:
    return OllamaCodec(ModelSpec("m", "ollama", "qwen3", stream=stream, **more))


def streamed(*lines: object, emit: Any = unheard) -> ModelReply:
    stream = codec().stream(request(), emit)
    for line in lines:
        stream.feed(json.dumps(line))
    return stream.reply()


def said(**message: object) -> dict[str, object]:
    return {"message": {"role": "assistant", "content": "", **message}, "done": False}


def test_settings_of_the_runner_are_in_options_and_others_beside_them() -> None:
    options = {"num_ctx": 32768, "keep_alive": -1, "think": "low", "options": {"numa": True}}
    body = codec(options=options, max_tokens=400, temperature=0.5).body(request(tools=()))
    assert body == {
        "model": "qwen3",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
        "stream": True,
        "truncate": False,
        "keep_alive": -1,
        "think": "low",
        "options": {"num_ctx": 32768, "num_predict": 400, "temperature": 0.5, "numa": True},
    }
    assert codec(stream=False).body(request(tools=()))["stream"] is False


def test_a_call_goes_back_as_an_object_with_its_thoughts() -> None:
    reply = streamed(said(thinking="Ask "), said(thinking="it."), said(tool_calls=[CALL]), COUNTED)
    assert reply.tool_calls == (ToolCall("call_x1", "add", {"a": 7}),)
    assert reply.usage == Usage(61, 24)
    result = ToolMessage("call_x1", "add", "no", is_error=True)
    _, _, asked, answered = codec().body(request(UserMessage("hi"), kept(reply), result))["messages"]
    assert asked == {
        "role": "assistant",
        "content": "",
        "thinking": "Ask it.",
        "tool_calls": [{"id": "call_x1", "function": {"name": "add", "arguments": {"a": 7}}}],
    }
    assert answered == {
        "role": "tool",
        "tool_name": "add",
        "tool_call_id": "call_x1",
        "content": "Error: no",
    }


def test_pictures_are_in_a_user_message_after_all_results() -> None:
    """Templates leave them out of results: ollama#16038."""
    calls = (ToolCall("a", "shot", {}), ToolCall("b", "list", {}))
    shot = ToolMessage("a", "shot", "the screen", pictures=(Picture("image/png", "iVBORw0K"),))
    history = (UserMessage("go"), AssistantMessage("", calls), shot, ToolMessage("b", "list", "none"))
    *_, first, second, last = codec().body(request(*history, UserMessage("more")))["messages"]
    assert (first["content"], second["content"]) == ("the screen", "none")
    text = "Pictures in the result of shot:\n\nmore"
    assert last == {"role": "user", "content": text, "images": ["iVBORw0K"]}


def test_calls_without_ids_are_two_calls() -> None:
    bare = [{"function": {"name": "add", "arguments": {"a": each}}} for each in (1, 2)]
    heard = Heard()
    reply = streamed(said(tool_calls=bare), END, emit=heard)
    assert [(call.id, call.arguments) for call in reply.tool_calls] == [
        ("call_0", {"a": 1}),
        ("call_1", {"a": 2}),
    ]
    assert heard.deltas == [ArgumentsDelta(0, "add", '{"a":1}'), ArgumentsDelta(1, "add", '{"a":2}')]


def test_text_is_emitted_as_it_arrives() -> None:
    heard = Heard()
    assert streamed(said(content="hel"), said(content="lo"), END, emit=heard).text == "hello"
    assert heard.deltas == [TextDelta("hel"), TextDelta("lo")]


def test_reasoning_in_the_text_is_no_part_of_the_answer() -> None:
    """A template without `think` leaves the tags in the text."""
    heard = Heard()
    lines = [said(content="<think>hm"), said(content="</think>\n"), said(content="hello"), END]
    assert streamed(*lines, emit=heard).text == "hello"
    assert heard.deltas == [TextDelta("hello")]


@pytest.mark.parametrize(
    ("lines", "sentence", "retryable", "empty"),
    [
        # A line of a stream may be an error; status 200 has been sent by then.
        ([said(content="x"), {"error": "llama runner has terminated"}], "llama runner", True, False),
        ([said(content="x")], "ended before", True, False),
        ([said(tool_calls=[CALL]), {**END, "done": False}], "ended before", True, False),
        # The model was only loaded.
        ([{**END, "done_reason": "load"}], r'empty.*"load"', False, True),
        ([{**END, "done_reason": "length"}], "token limit", False, False),
    ],
)
def test_stream_without_a_whole_reply_fails(
    lines: list[object], sentence: str, retryable: bool, empty: bool
) -> None:
    with pytest.raises(ModelFailed, match=sentence) as failed:
        streamed(*lines)
    assert (failed.value.retryable, failed.value.empty) == (retryable, empty)


def test_reply_at_the_token_limit_is_cut() -> None:
    cut = {**END, "done_reason": "length"}
    assert streamed(said(content="hello"), cut).stop == "max_tokens"
    assert streamed(said(tool_calls=[CALL]), cut).stop == "max_tokens"
