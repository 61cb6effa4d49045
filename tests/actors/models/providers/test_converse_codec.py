"""Bedrock's Converse API. Right values: its API reference, `Converse` and `ConverseStream`."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from stopgo.actors.models.codecs.converse_codec import ConverseCodec
from stopgo.actors.models.messages.messages import (
    ArgumentsDelta,
    AssistantMessage,
    ModelFailed,
    ModelReply,
    ModelTool,
    TextDelta,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    unheard,
)
from stopgo.actors.tools.pictures import Picture
from stopgo.config.sections.models import ModelSpec

from .conftest import ADD, Heard, kept, request

SIGNED = {"reasoningContent": {"reasoningText": {"text": "", "signature": "sig7"}}}


def codec(**more: Any) -> ConverseCodec:
    return ConverseCodec(ModelSpec("m", "bedrock", "amazon.nova-pro-v1:0", **more))


def piece(delta: Any, index: int = 0) -> tuple[str, Any]:
    return "contentBlockDelta", {"contentBlockIndex": index, "delta": delta}


def call(id: str, name: str, index: int = 0) -> tuple[str, Any]:
    start = {"toolUse": {"toolUseId": id, "name": name}}
    return "contentBlockStart", {"contentBlockIndex": index, "start": start}


def stop(reason: str) -> tuple[str, Any]:
    return "messageStop", {"stopReason": reason}


COUNTED = ("metadata", {"usage": {"inputTokens": 3, "cacheReadInputTokens": 2, "outputTokens": 1}})


def streamed(*events: tuple[str, Any], emit: Any = unheard) -> ModelReply:
    stream = codec().stream(request(), emit)
    for name, payload in events:
        assert not stream.ended
        stream.feed(json.dumps({"event": name, "payload": payload}))
    assert stream.ended == (events[-1] == COUNTED)
    return stream.reply()


def whole(*content: Any, reason: str = "end_turn", **more: Any) -> ModelReply:
    body = {
        "output": {"message": {"role": "assistant", "content": list(content)}},
        "stopReason": reason,
        **more,
    }
    return codec().reply(body, request())


def test_request_has_settings_and_tools_in_their_places() -> None:
    options = {"additionalModelRequestFields": {"k": 1}, "inferenceConfig": {"topP": 0.5}}
    body = codec(max_tokens=400, temperature=0.2, options=options).body(request())
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    spec = {"name": "add", "description": "Add two numbers.", "inputSchema": {"json": schema}}
    assert body == {
        "messages": [{"role": "user", "content": [{"text": "hi"}]}],
        "system": [{"text": "Be brief."}],
        "toolConfig": {"tools": [{"toolSpec": spec}]},
        "inferenceConfig": {"maxTokens": 400, "temperature": 0.2, "topP": 0.5},
        "additionalModelRequestFields": {"k": 1},
    }


def test_empty_description_is_left_out() -> None:
    (tool,) = codec().body(request(tools=[ModelTool("t", "", {"type": "object"})]))["toolConfig"]["tools"]
    assert "description" not in tool["toolSpec"]


def test_history_of_calls_goes_with_its_tools_when_none_is_offered() -> None:
    """nearai/ironclaw#1710"""
    history = (
        UserMessage("go"),
        AssistantMessage("", (ToolCall("a", "add", {}),)),
        ToolMessage("a", "add", ""),
    )
    body = codec().body(request(*history, tools=()))
    assert [tool["toolSpec"]["name"] for tool in body["toolConfig"]["tools"]] == ["add"]
    assert "toolConfig" not in codec().body(request(tools=()))


def test_results_have_their_pictures_inside_and_come_before_texts() -> None:
    calls = (ToolCall("a/b", "shot", {"a": 7}), ToolCall("b", "list", {}))
    shot = ToolMessage("a/b", "shot", "the screen", pictures=(Picture("image/jpeg", "/9j/4AAQ"),))
    bad = ToolMessage("b", "list", "no", is_error=True)
    _, asked, answered = codec().body(
        request(UserMessage("go"), AssistantMessage(" ", calls), shot, bad, UserMessage("more"))
    )["messages"]
    id = asked["content"][0]["toolUse"]["toolUseId"]
    assert id.isalnum()
    assert asked["content"][0]["toolUse"] == {"toolUseId": id, "name": "shot", "input": {"a": 7}}
    image = {"format": "jpeg", "source": {"bytes": "/9j/4AAQ"}}
    assert answered["content"] == [
        {"toolResult": {"toolUseId": id, "content": [{"text": "the screen"}, {"image": image}]}},
        {"toolResult": {"toolUseId": "b", "content": [{"text": "no"}], "status": "error"}},
        {"text": "more"},
    ]


@pytest.mark.parametrize(
    ("before", "trimmed", "sent"), [(0, False, True), (1, False, True), (2, False, False), (0, True, False)]
)
def test_signed_thoughts_go_back_first_while_their_turn_lasts(before: int, trimmed: bool, sent: bool) -> None:
    """strands-agents/sdk-python#2704: the text is needed even if it is empty."""
    reply = streamed(
        piece({"reasoningContent": {"signature": "si"}}),
        piece({"reasoningContent": {"signature": "g7"}}),
        piece({"text": "ok"}, 1),
        call("x", "add", 2),
        stop("tool_use"),
        COUNTED,
    )
    history = request(UserMessage("go"), kept(reply), ToolMessage("x", "add", "1"))
    content = codec().body(attrs.evolve(history, before=before, trimmed=trimmed))["messages"][1]["content"]
    assert content[: -2 or None] == ([SIGNED] if sent else [])
    assert [next(iter(block)) for block in content[-2:]] == ["text", "toolUse"]


def test_reasoning_in_a_text_is_no_answer() -> None:
    heard = Heard()
    given = "<think>hm</think>yes"
    reply = streamed(
        *(piece({"text": each}) for each in (given[:9], given[9:])), stop("end_turn"), COUNTED, emit=heard
    )
    assert reply.text == whole({"text": given}).text == "yes"
    assert heard.deltas == [TextDelta("yes")]


def test_thoughts_without_a_signature_are_not_sent_back() -> None:
    thought = {"reasoningContent": {"reasoningText": {"text": "hm"}}}
    reply = whole(thought, {"toolUse": {"toolUseId": "x", "name": "add", "input": {}}}, reason="tool_use")
    assert reply.verbatim is None
    assert reply.text == ""


def test_stream_is_read_to_the_usage_after_the_end() -> None:
    heard = Heard()
    reply = streamed(
        ("messageStart", {"role": "assistant"}),
        piece({"text": "Let "}),
        piece({"text": "me."}),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        call("x", "add", 1),
        piece({"toolUse": {"input": '{"a":'}}, 1),
        call("y", "list", 2),
        piece({"toolUse": {"input": "7}"}}, 1),
        ("anEventOfTomorrow", {}),
        stop("tool_use"),
        COUNTED,
        emit=heard,
    )
    # The arguments of `y` may have been lost only if those of another call are damaged.
    assert reply.tool_calls == (ToolCall("x", "add", {"a": 7}), ToolCall("y", "list", {}))
    assert (reply.text, reply.stop, reply.usage) == ("Let me.", "tool_calls", Usage(5, 1, 2))
    assert heard.deltas == [
        TextDelta("Let "),
        TextDelta("me."),
        ArgumentsDelta(0, "add", '{"a":'),
        ArgumentsDelta(0, "add", "7}"),
    ]


def test_start_of_a_call_again_is_no_other_call() -> None:
    begun = (call("x", "add"), piece({"toolUse": {"input": '{"a":'}}))
    reply = streamed(*begun, call("x", "add"), piece({"toolUse": {"input": "7}"}}), stop("tool_use"), COUNTED)
    assert reply.tool_calls == (ToolCall("x", "add", {"a": 7}),)
    # The pieces may be those of either call.
    late = piece({"toolUse": {"input": '{"a":7}'}})
    reply = streamed(call("x", "add"), call("y", "add"), late, stop("tool_use"), COUNTED)
    assert [bool(each.problem) for each in reply.tool_calls] == [True, True]


@pytest.mark.parametrize(
    ("reason", "sentence", "retryable", "empty"),
    [
        ("guardrail_intervened", "refused", False, False),
        ("content_filtered", "refused", False, False),
        ("malformed_tool_use", "made an error", True, False),
        ("malformed_model_output", "made an error", True, False),
        ("end_turn", "empty", False, True),
        ("max_tokens", "token limit", False, False),
    ],
)
def test_end_without_a_reply_is_a_failure(reason: str, sentence: str, retryable: bool, empty: bool) -> None:
    with pytest.raises(ModelFailed, match=sentence) as failed:
        whole(reason=reason)
    assert (failed.value.retryable, failed.value.empty) == (retryable, empty)
    with pytest.raises(ModelFailed, match=sentence):
        streamed(stop(reason), COUNTED)


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
def test_reply_at_the_token_limit_is_cut(reason: str) -> None:
    assert whole({"text": "hello"}, reason=reason).stop == "max_tokens"


def test_stream_without_its_reason_to_end_is_no_reply() -> None:
    """litellm#32159: it happens under load."""
    with pytest.raises(ModelFailed, match="ended before") as failed:
        streamed(call("x", "add"), ("contentBlockStop", {"contentBlockIndex": 0}))
    assert failed.value.retryable
    # The usage alone may be missing.
    assert streamed(piece({"text": "hello"}), stop("end_turn")).text == "hello"


def test_offered_tools_are_not_declared_twice() -> None:
    history = (
        UserMessage("go"),
        AssistantMessage("", (ToolCall("a", "old", {}),)),
        ToolMessage("a", "old", ""),
    )
    (tool,) = codec().body(request(*history, tools=(ADD,)))["toolConfig"]["tools"]
    assert tool["toolSpec"]["name"] == "add"
