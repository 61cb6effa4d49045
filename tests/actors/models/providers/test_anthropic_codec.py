from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from stopgo.actors.models.codecs.anthropic_codec import CACHED, MAX_TOKENS, AnthropicCodec
from stopgo.actors.models.messages.messages import (
    ArgumentsDelta,
    AssistantMessage,
    ChatMessage,
    ModelFailed,
    ModelReply,
    ModelTool,
    TextDelta,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    Verbatim,
    unheard,
)
from stopgo.config.sections.models import ModelSpec

from .conftest import Heard, kept, request

USAGE = {
    "input_tokens": 10,
    "cache_read_input_tokens": 7,
    "cache_creation_input_tokens": 3,
    "output_tokens": 5,
}
COUNTED = Usage(20, 5, 7, 3)
TEXT = {"type": "text", "text": "so"}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "SIG=="}
REDACTED = {"type": "redacted_thinking", "data": "ENC"}
NEW = {"type": "future_block", "x": [1]}


def codec(**more: Any) -> AnthropicCodec:
    more.setdefault("stream", False)
    return AnthropicCodec(ModelSpec("m", "anthropic", "claude", **more))


def answer(*blocks: dict[str, Any], stop: str | None = "end_turn", **more: Any) -> dict[str, Any]:
    return {"type": "message", "content": list(blocks), "stop_reason": stop, "usage": USAGE, **more}


def read(body: object) -> ModelReply:
    return codec().reply(body, request())


def event(type: str, **fields: Any) -> dict[str, Any]:
    return {"type": type, **fields}


def begin(index: int, block: dict[str, Any]) -> dict[str, Any]:
    return event("content_block_start", index=index, content_block=block)


def more(index: int, type: str, **fields: Any) -> dict[str, Any]:
    return event("content_block_delta", index=index, delta={"type": type, **fields})


START = event("message_start", message={"usage": {**USAGE, "output_tokens": 1}})
STOP = [
    event(
        "message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 5, "input_tokens": None}
    ),
    event("message_stop"),
]


def streamed(*events: object, heard: Heard | None = None) -> ModelReply:
    stream = codec().stream(request(), heard or unheard)
    for each in events:
        stream.feed(each if isinstance(each, str) else json.dumps(each))
    return stream.reply()


def sent(*history: ChatMessage, **settings: Any) -> list[dict[str, Any]]:
    """The messages, without cache marks."""
    body = codec(options={"cache_control": None, **settings}).body(request(*history))
    found: list[dict[str, Any]] = body["messages"]
    return found


# ------------------------------------------------------------------------- requests

HISTORY = (
    UserMessage("add 1"),
    AssistantMessage("I add.", (ToolCall("x", "add", {"a": 1}), ToolCall("y", "add", {"a": 2}))),
    ToolMessage("x", "add", ""),
    ToolMessage("y", "add", "too large", is_error=True),
)


def test_a_request() -> None:
    assert codec(max_tokens=100, temperature=0.5).body(request(*HISTORY)) == {
        "model": "claude",
        "max_tokens": 100,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": CACHED}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "add 1", "cache_control": CACHED}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I add."},
                    {"type": "tool_use", "id": "x", "name": "add", "input": {"a": 1}},
                    {"type": "tool_use", "id": "y", "name": "add", "input": {"a": 2}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "x"},
                    {
                        "type": "tool_result",
                        "tool_use_id": "y",
                        "content": "too large",
                        "is_error": True,
                        "cache_control": CACHED,
                    },
                ],
            },
        ],
        "tools": [
            {
                "name": "add",
                "description": "Add two numbers.",
                "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}},
                "cache_control": CACHED,
            }
        ],
        "temperature": 0.5,
    }


def test_empty_fields_are_not_sent() -> None:
    body = codec(options={"cache_control": None}).body(request(system=" ", tools=()))
    assert body == {
        "model": "claude",
        "max_tokens": MAX_TOKENS,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }


def marks(value: object) -> int:
    return json.dumps(value).count('"cache_control"')


def test_request_has_four_cache_marks_at_most() -> None:
    longer = (*HISTORY, AssistantMessage("done"), UserMessage("again"))
    before, after = codec().body(request(*HISTORY)), codec().body(request(*longer))
    assert marks(before) == marks(after) == 4
    assert before["messages"][2] == after["messages"][2]
    assert marks(after["messages"][0]) == 0


def test_cache_control_of_the_agent_file_replaces_marks() -> None:
    body = codec(options={"cache_control": {"type": "ephemeral", "ttl": "1h"}}).body(request(*HISTORY))
    assert body["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert marks(body) == 1
    assert marks(codec(options={"cache_control": None}).body(request(*HISTORY))) == 0


def test_cache_marks_do_not_change_the_history() -> None:
    request_ = request(*HISTORY)
    assert codec().body(request_) == codec().body(request_)


def test_thinking_leaves_room_for_an_answer() -> None:
    thinking = {"type": "enabled", "budget_tokens": 20_000}
    body = codec(options={"thinking": thinking}).body(request())
    assert body["thinking"] == thinking
    assert body["max_tokens"] == 20_000 + MAX_TOKENS
    assert codec(max_tokens=30_000, options={"thinking": thinking}).body(request())["max_tokens"] == 30_000


def test_thinking_is_disabled_in_a_turn_of_another_model() -> None:
    options = {"thinking": {"type": "enabled", "budget_tokens": 2_000}}
    body = codec(options=options).body(request(*HISTORY))
    assert body["thinking"] == {"type": "disabled"}
    body = codec(options=options).body(request(*HISTORY, AssistantMessage("done"), UserMessage("again")))
    assert body["thinking"] == options["thinking"]
    own = kept(read(answer(THOUGHT, CALL, stop="tool_use")))
    body = codec(options=options).body(request(UserMessage("x"), own, ToolMessage("toolu_1", "add", "1")))
    assert body["thinking"] == options["thinking"]


def test_thoughts_are_sent_back_only_with_the_same_prefix() -> None:
    one, two = (kept(read(answer(THOUGHT, {**CALL, "id": id}))) for id in ("one", "two"))
    only = AssistantMessage("", (), Verbatim("anthropic", [THOUGHT]))
    whole = request(
        UserMessage("x"),
        one,
        ToolMessage("one", "add", "1"),
        attrs.evolve(only, text="so"),
        UserMessage("y"),
        two,
        ToolMessage("two", "add", "1"),
    )

    def thoughts(thinking: Mapping[str, Any], **changes: Any) -> list[int]:
        body = codec(options={"thinking": thinking}).body(attrs.evolve(whole, **changes))
        types = [[block["type"] for block in message["content"]] for message in body["messages"]]
        assert all(types)
        return [index for index, each in enumerate(types) if "thinking" in each]

    adaptive, manual = {"type": "adaptive"}, {"type": "enabled", "budget_tokens": 2_000}
    assert thoughts(adaptive) == [1, 3, 5]
    assert thoughts(adaptive, before=5) == thoughts(manual, before=5) == [5]
    assert thoughts(adaptive, before=5, trimmed=True) == []
    assert thoughts(manual, before=5, trimmed=True) == [5]


def test_tools_of_past_calls_are_declared() -> None:
    body = codec().body(request(*HISTORY, tools=()))
    assert [(tool["name"], tool["input_schema"]) for tool in body["tools"]] == [("add", {"type": "object"})]
    assert body["tool_choice"] == {"type": "none"}


def test_adjacent_messages_of_one_role_are_joined() -> None:
    call = AssistantMessage("two", (ToolCall("1", "add", {}),))
    messages = sent(UserMessage("a"), UserMessage("b"), AssistantMessage("one"), call, UserMessage("c"))
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert [block["type"] for block in messages[1]["content"]] == ["text", "text", "tool_use"]
    assert [block["type"] for block in messages[2]["content"]] == ["tool_result", "text"]


def test_invalid_tool_names_are_translated_both_ways() -> None:
    tools = [ModelTool("files.read", "", {})]
    told = codec().body(request(tools=tools))["tools"][0]["name"]
    reply = codec().reply(answer({**CALL, "name": told}), request(tools=tools))
    assert reply.tool_calls[0].name == "files.read"
    assert sent(UserMessage("x"), kept(reply))[1]["content"][0]["name"] == told


# -------------------------------------------------------------------------- replies


def test_a_text() -> None:
    assert read(answer(TEXT)) == ModelReply("so", usage=COUNTED)
    assert read(answer(TEXT, TEXT)).text == "soso"


@pytest.mark.parametrize("stop", ["tool_use", "end_turn", "new_reason", None])
def test_reply_with_calls_needs_no_reason(stop: str | None) -> None:
    reply = read(answer(TEXT, CALL, stop=stop))
    assert reply == ModelReply("so", (ToolCall("toolu_1", "add", {"a": 1}),), COUNTED, "tool_calls")


@pytest.mark.parametrize("blocks", [(), ({"type": "text", "text": "\n"},), (THOUGHT,)])
def test_answer_without_text_and_calls_is_empty(blocks: tuple[dict[str, Any], ...]) -> None:
    with pytest.raises(ModelFailed, match="the answer is empty") as failed:
        read(answer(*blocks))
    assert failed.value.empty
    with pytest.raises(ModelFailed, match="the answer is empty") as failed:
        streamed(START, *(begin(index, block) for index, block in enumerate(blocks)), *STOP)
    assert failed.value.empty


def test_missing_and_repeated_ids_are_replaced() -> None:
    calls: list[dict[str, Any]] = [
        {**CALL, "id": "same"},
        {**CALL, "id": "same", "input": {"a": 2}},
        {**CALL, "id": None},
    ]
    ids = [call.id for call in read(answer(*calls)).tool_calls]
    assert ids[0] == "same"
    assert len(set(ids)) == 3


@pytest.mark.parametrize("stop", ["max_tokens", "model_context_window_exceeded"])
def test_a_reply_that_was_cut(stop: str) -> None:
    assert read(answer(TEXT, stop=stop)).stop == "max_tokens"
    assert read(answer(CALL, stop=stop)).stop == "max_tokens"
    with pytest.raises(ModelFailed) as failed:
        read(answer(THOUGHT, stop=stop))
    assert failed.value.usage == COUNTED


@pytest.mark.parametrize(
    ("body", "sentence", "retryable"),
    [
        (answer(TEXT, stop="refusal"), "the model refused to answer", False),
        (
            answer(stop="refusal", stop_details={"explanation": "not this"}),
            "the model refused: not this",
            False,
        ),
        (answer(TEXT, stop="pause_turn"), "paused the reply", False),
        (answer(stop="model_context_window_exceeded"), "fills the context window of the model", False),
        (answer(stop="max_tokens"), "token limit was reached before", False),
        (answer(stop="new_reason"), '"new_reason"', False),
        (answer(THOUGHT, stop=None), "the answer is empty", False),
        (answer(stop="tool_use"), "the answer is empty", False),
        ({"usage": USAGE}, "no content", False),
    ],
)
def test_unusable_answers_fail(body: object, sentence: str, retryable: bool) -> None:
    with pytest.raises(ModelFailed, match=sentence) as failed:
        read(body)
    assert failed.value.retryable is retryable
    assert failed.value.usage == COUNTED


def test_an_error_with_status_200() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with pytest.raises(ModelFailed, match=r"Overloaded \(status 529\)") as failed:
        read(error)
    assert failed.value.retryable


# --------------------------------------------------------------------- sent back


def test_verbatim_reply_is_sent_back_unchanged() -> None:
    blocks: list[dict[str, Any]] = [THOUGHT, REDACTED, TEXT, CALL, NEW, {**TEXT, "citations": None}]
    reply = read(answer(*blocks, stop="tool_use"))
    assert json.loads(json.dumps(reply.verbatim and reply.verbatim.content)) == blocks
    assert sent(UserMessage("x"), kept(reply))[1] == {"role": "assistant", "content": blocks}


def test_plain_reply_keeps_no_verbatim() -> None:
    assert read(answer(TEXT)).verbatim is None
    assert read(answer(TEXT, CALL)).verbatim is None
    assert read(answer(CALL, TEXT)).verbatim is not None


def test_edited_arguments_replace_those_of_the_model() -> None:
    reply = read(answer(THOUGHT, CALL, {**CALL, "id": "toolu_2"}))
    one, two = reply.tool_calls
    edited = AssistantMessage("", (ToolCall(one.id, one.name, {"a": 7}), two), reply.verbatim)
    assert sent(UserMessage("x"), edited)[1]["content"] == [
        THOUGHT,
        {**CALL, "input": {"a": 7}},
        {**CALL, "id": "toolu_2"},
    ]
    assert reply.verbatim is not None
    assert reply.verbatim.content[1] == CALL


def test_empty_texts_are_not_sent_back() -> None:
    reply = read(answer(THOUGHT, {"type": "text", "text": "\n"}, CALL))
    assert sent(UserMessage("x"), kept(reply))[1]["content"] == [THOUGHT, CALL]


@pytest.mark.parametrize("input", [None, "null", "[1]", 3])
def test_input_of_another_type_is_not_sent_back(input: object) -> None:
    reply = read(answer(THOUGHT, {**CALL, "input": input}))
    assert sent(UserMessage("x"), kept(reply))[1]["content"] == [THOUGHT, {**CALL, "input": {}}]


def test_invalid_ids_are_replaced_in_verbatim_content() -> None:
    reply = read(answer(THOUGHT, {**CALL, "id": "bad id"}))
    _, model, user = sent(UserMessage("x"), kept(reply), ToolMessage("bad id", "add", "1"))
    assert model["content"][1]["id"] == user["content"][0]["tool_use_id"] != "bad id"


@pytest.mark.parametrize("provider", ["google", "anthropic"])
def test_verbatim_of_another_provider_or_reply_is_not_sent(provider: str) -> None:
    message = AssistantMessage("so", (ToolCall("1", "add", {}),), Verbatim(provider, [THOUGHT, CALL, CALL]))
    found = sent(UserMessage("x"), message)[1]["content"]
    assert found == [TEXT, {"type": "tool_use", "id": "1", "name": "add", "input": {}}]


# -------------------------------------------------------------------------- streams


def test_everything_in_pieces() -> None:
    heard = Heard()
    reply = streamed(
        START,
        event("ping"),
        begin(0, {"type": "thinking", "thinking": "", "signature": ""}),
        more(0, "thinking_delta", thinking="h"),
        more(0, "thinking_delta", thinking="m"),
        more(0, "signature_delta", signature="SIG=="),
        event("content_block_stop", index=0),
        begin(1, REDACTED),
        begin(2, {"type": "text", "text": ""}),
        more(2, "text_delta", text="s"),
        more(2, "new_delta", x=1),
        more(2, "text_delta", text="o"),
        begin(3, {**CALL, "input": {}}),
        more(3, "input_json_delta", partial_json=""),
        more(3, "input_json_delta", partial_json='{"a"'),
        more(3, "input_json_delta", partial_json=": 1}"),
        begin(4, NEW),
        event("new_event"),
        *STOP,
        heard=heard,
    )
    assert reply.verbatim is not None
    assert reply.verbatim.content == [THOUGHT, REDACTED, TEXT, CALL, NEW]
    assert (reply.text, reply.usage) == ("so", COUNTED)
    assert heard.deltas == [
        TextDelta("s"),
        TextDelta("o"),
        ArgumentsDelta(0, "add", '{"a"'),
        ArgumentsDelta(0, "add", ": 1}"),
    ]


def test_plain_pieces_leave_nothing_to_keep() -> None:
    pieces = [begin(0, {"type": "text", "text": ""}), more(0, "text_delta", text="so"), begin(1, CALL)]
    assert streamed(START, *pieces, *STOP).verbatim is None


def test_citations_are_kept() -> None:
    cited = more(0, "citations_delta", citation={"c": 1})
    reply = streamed(START, begin(0, TEXT), cited, *STOP)
    assert reply.verbatim is not None
    assert reply.verbatim.content == [{**TEXT, "citations": [{"c": 1}]}]


@pytest.mark.parametrize("input", ['{"a": ', "[1]", "garbage"])
def test_arguments_that_are_no_json_object(input: str) -> None:
    piece = more(0, "input_json_delta", partial_json=input)
    (call,) = streamed(START, begin(0, CALL), piece, *STOP).tool_calls
    assert call.problem is not None
    assert call.arguments == {}


def test_a_call_that_was_cut() -> None:
    piece = more(0, "input_json_delta", partial_json='{"a": 1, "b')
    cut = event("message_delta", delta={"stop_reason": "max_tokens"}, usage={"output_tokens": 5})
    assert streamed(START, begin(0, CALL), piece, cut, event("message_stop")).stop == "max_tokens"


@pytest.mark.parametrize("after", [[], [{"type": "ping"}], [{"type": "ping"}, {"type": "ping"}], [STOP[1]]])
def test_reason_of_the_end_is_enough(after: list[Any]) -> None:
    # DeepSeek-Reasonix#8756, better-ccflare#307: gateways without `message_stop`
    stream = codec().stream(request(), unheard)
    for event in [START, begin(0, {"type": "text", "text": "x"}), STOP[0], *after]:
        stream.feed(json.dumps(event))
    assert stream.reply().text == "x"
    assert stream.ended is bool(after)


@pytest.mark.parametrize(
    "events",
    [
        [],
        [START],
        [START, begin(0, TEXT)],
        [START, begin(0, TEXT), STOP[1]],
    ],
)
def test_an_end_that_is_missing(events: list[Any]) -> None:
    with pytest.raises(ModelFailed, match="ended before it was complete") as failed:
        streamed(*events)
    assert failed.value.retryable
    assert (failed.value.usage is None) == (not events)


def test_an_error_in_the_middle() -> None:
    error = event("error", error={"type": "overloaded_error", "message": "Overloaded"})
    with pytest.raises(ModelFailed, match=r"Overloaded \(status 529\)") as failed:
        streamed(START, begin(0, TEXT), error)
    assert failed.value.retryable


@pytest.mark.parametrize("body", ["<html>", more(7, "text_delta", text="x")])
def test_unreadable_events_fail(body: object) -> None:
    with pytest.raises(ModelFailed, match="not understood"):
        streamed(START, body)


def test_block_may_start_with_text() -> None:
    heard = Heard()
    block = begin(0, {"type": "text", "text": "hel"})
    assert streamed(START, block, more(0, "text_delta", text="lo"), *STOP, heard=heard).text == "hello"
    assert heard.deltas == [TextDelta("hel"), TextDelta("lo")]
