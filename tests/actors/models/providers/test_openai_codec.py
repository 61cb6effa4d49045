from __future__ import annotations

import json
import time
from typing import Any

import pytest

from stopgo.actors.models.codecs.codec import LOST, NO_NAME
from stopgo.actors.models.codecs.openai_codec import GO_ON, OpenAICodec
from stopgo.actors.models.codecs.profiles import PROFILES
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
    Verbatim,
    unheard,
)
from stopgo.config.sections.models import PROVIDERS, ModelSpec, Provider

from .conftest import Heard, request

CALL = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}
COUNTED = Usage(10, 5, 4)
HISTORY = (
    UserMessage("add 1"),
    AssistantMessage("I add.", (ToolCall("call_1", "add", {"a": 1}),)),
    ToolMessage("call_1", "add", "1"),
)


def codec(provider: Provider = "openai_compatible", **more: Any) -> OpenAICodec:
    more.setdefault("stream", False)
    return OpenAICodec(ModelSpec("m", provider, "gpt", **more), PROFILES[provider].flavour)


def answer(message: dict[str, Any], finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": USAGE, **more}


def read(body: object, provider: Provider = "openai_compatible") -> ModelReply:
    return codec(provider).reply(body, request())


def streamed(*chunks: object, heard: Heard | None = None, done: bool = True) -> ModelReply:
    stream = codec().stream(request(), heard or unheard)
    for chunk in chunks:
        stream.feed(chunk if isinstance(chunk, str) else json.dumps(chunk))
    if done:
        stream.feed("[DONE]")
    return stream.reply()


def piece(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call_piece(**fields: Any) -> dict[str, Any]:
    function = {key: fields.pop(key) for key in ("name", "arguments") if key in fields}
    return piece({"tool_calls": [{**fields, "function": function}]})


# ------------------------------------------------------------------------- requests


def test_a_request() -> None:
    assert codec(max_tokens=100, temperature=0.5).body(request(*HISTORY)) == {
        "model": "gpt",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "add 1"},
            {
                "role": "assistant",
                "content": "I add.",
                "tool_calls": [{**CALL, "function": {"name": "add", "arguments": '{"a":1}'}}],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "1", "name": "add"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "add",
                    "description": "Add two numbers.",
                    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
                },
            }
        ],
        "max_tokens": 100,
        "temperature": 0.5,
    }


@pytest.mark.parametrize(
    "provider", [each for each in PROVIDERS if PROFILES[each].kind in ("openai", "azure")]
)
def test_error_result_is_marked_in_its_text(provider: Provider) -> None:
    body = codec(provider).body(request(*HISTORY[:2], ToolMessage("call_1", "add", "42", is_error=True)))
    assert body["messages"][-1]["content"] == "Error: 42"


def test_empty_fields_are_not_sent() -> None:
    body = codec().body(request(system=" ", tools=()))
    assert body == {"model": "gpt", "messages": [{"role": "user", "content": "hi"}]}


def test_options_are_merged() -> None:
    options = {"reasoning_effort": "low", "max_tokens": 7, "stream_options": {"extra": 1}}
    body = codec(stream=True, max_tokens=100, options=options).body(request())
    assert body["reasoning_effort"] == "low"
    assert body["max_tokens"] == 7
    assert body["stream_options"] == {"include_usage": True, "extra": 1}
    assert body["stream"] is True


def test_flavours() -> None:
    assert codec("openai", max_tokens=5).body(request())["max_completion_tokens"] == 5
    assert "stream_options" not in codec("mistral", stream=True).body(request())
    assert codec("ollama", stream=True).body(request())["stream_options"] == {"include_usage": True}


def test_mistral_gets_valid_ids_and_no_user_after_a_result() -> None:
    messages = codec("mistral").body(request(*HISTORY, UserMessage("thanks")))["messages"]
    *_, asked, result, bridge, user = messages
    assert result["tool_call_id"] == asked["tool_calls"][0]["id"]
    assert len(result["tool_call_id"]) == 9
    assert bridge == {"role": "assistant", "content": GO_ON}
    assert user == {"role": "user", "content": "thanks"}


def test_adjacent_messages_of_one_role_are_joined() -> None:
    call = AssistantMessage("two", (ToolCall("call_1", "add", {}),))
    history = (UserMessage("a"), UserMessage("b"), AssistantMessage("one"), call)
    _, user, assistant, _ = codec().body(request(*history))["messages"]
    assert user == {"role": "user", "content": "a\n\nb"}
    assert assistant["content"] == "one\n\ntwo"
    assert assistant["tool_calls"][0]["id"] == "call_1"


def test_invalid_tool_names_are_translated_both_ways() -> None:
    tools = [ModelTool("files.read", "", {})]
    history = (UserMessage("x"), AssistantMessage("", (ToolCall("1", "files.read", {}),)))
    body = codec().body(request(*history, tools=tools))
    told = body["tools"][0]["function"]["name"]
    assert told.startswith("files_read_")
    assert body["messages"][2]["tool_calls"][0]["function"]["name"] == told
    assert body["messages"][2]["content"] is None
    call = {**CALL, "function": {"name": told, "arguments": "{}"}}
    (read_back,) = codec().reply(answer({"tool_calls": [call]}), request(tools=tools)).tool_calls
    assert read_back.name == "files.read"


# -------------------------------------------------------------------------- replies


def test_a_text() -> None:
    assert read(answer({"role": "assistant", "content": "hello", "refusal": None})) == ModelReply(
        "hello", usage=COUNTED
    )


@pytest.mark.parametrize("finish", ["tool_calls", "stop", "function_call", "strange", None])
def test_reply_with_calls_needs_no_reason(finish: str | None) -> None:
    reply = read(answer({"content": None, "tool_calls": [CALL]}, finish))
    assert reply == ModelReply("", (ToolCall("call_1", "add", {"a": 1}),), COUNTED, "tool_calls")


def functions(*given: dict[str, Any]) -> dict[str, Any]:
    return answer({"tool_calls": [{"id": f"{n}", "function": each} for n, each in enumerate(given)]})


def test_arguments_as_object_or_absent() -> None:
    calls = functions(*({"name": "add", "arguments": raw} for raw in ({"a": 1}, "")), {"name": "add"})
    assert [(call.arguments, call.problem) for call in read(calls).tool_calls] == [
        ({"a": 1}, None),
        ({}, None),
        ({}, None),
    ]


def test_malformed_arguments_make_missing_ones_doubtful() -> None:
    broken, whole, empty = read(
        functions(*({"name": "add", "arguments": raw} for raw in ('{"a": ', {"a": 1}, "")))
    ).tool_calls
    assert broken.problem is not None
    assert broken.problem.startswith("the arguments are not valid JSON")
    assert (whole.arguments, whole.problem) == ({"a": 1}, None)
    assert empty.problem == LOST


def test_call_without_name_is_not_made() -> None:
    (call,) = read(functions({"arguments": '{"a": 1}'})).tool_calls
    assert call.problem == NO_NAME


@pytest.mark.parametrize("finish", [None, ""])
def test_call_without_arguments_needs_a_reason(finish: str | None) -> None:
    (call,) = read(answer({"tool_calls": [{**CALL, "function": {"name": "add"}}]}, finish)).tool_calls
    assert call.problem == LOST


def test_missing_and_repeated_ids_are_replaced() -> None:
    other = {"name": "add", "arguments": "{}"}
    calls = [{**CALL, "id": "same"}, {**CALL, "id": "same", "function": other}, {**CALL, "id": None}]
    ids = [call.id for call in read(answer({"tool_calls": [*calls, {**CALL, "id": ""}]})).tool_calls]
    assert ids[0] == "same"
    assert len(set(ids)) == 4
    assert all(ids)


def test_only_text_chunks_are_shown() -> None:
    content = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "x"},
    ]
    assert read(answer({"content": content}), "mistral").text == "x"


@pytest.mark.parametrize("finish", ["length", "model_length"])
def test_a_reply_that_was_cut(finish: str) -> None:
    assert read(answer({"content": "half"}, finish)).stop == "max_tokens"
    assert read(answer({"tool_calls": [CALL]}, finish)).stop == "max_tokens"
    with pytest.raises(ModelFailed, match="token limit was reached before") as failed:
        read(answer({"content": ""}, finish))
    assert failed.value.usage == COUNTED


@pytest.mark.parametrize(
    ("body", "sentence", "retryable"),
    [
        (answer({"refusal": "I cannot."}), "the model refused: I cannot.", False),
        (answer({"content": "so"}, "content_filter"), "content filter", False),
        (answer({"content": ""}, "strange"), 'the answer is empty: .*"strange"', False),
        (answer({"content": None}, "tool_calls"), "the answer is empty", False),
        (answer({"content": "\n"}), "the answer is empty", False),
        ({"choices": [], "usage": USAGE}, "the answer is empty", False),
        ({"usage": USAGE}, "no choices", False),
        ({"error": {"message": "upstream", "code": 502}, "usage": USAGE}, "upstream", True),
        (answer({}, "error") | {"error": "boom"}, "boom", True),
        (answer({"content": "half a"}, "error"), "the provider broke the reply off", True),
        (answer({"tool_calls": [CALL]}, "insufficient_system_resource"), "broke the reply off", True),
        (answer({"content": "half a"}, "abort"), "broke the reply off", True),
        ({"choices": [{"error": {"message": "no", "code": 400}}], "usage": USAGE}, "no", False),
    ],
)
def test_unusable_answers_fail(body: object, sentence: str, retryable: bool) -> None:
    with pytest.raises(ModelFailed, match=sentence) as failed:
        read(body)
    assert failed.value.retryable is retryable
    assert failed.value.usage == COUNTED


@pytest.mark.parametrize("message", [{"content": None}, {"content": " "}, {"reasoning_content": "hm"}, {}])
def test_answer_without_text_and_calls_is_empty(message: dict[str, Any]) -> None:
    with pytest.raises(ModelFailed, match="the answer is empty") as failed:
        read(answer(message))
    assert failed.value.empty
    with pytest.raises(ModelFailed, match="the answer is empty") as failed:
        streamed(piece(message), piece({}, "stop"))
    assert failed.value.empty


# --------------------------------------------------------------------- sent back


THOUGHT = {"reasoning_content": "hm", "reasoning": None}
SIGNED = {**CALL, "extra_content": {"google": {"thought_signature": "SIG"}}}


def sent_back(reply: ModelReply, provider: Provider = "openai_compatible") -> dict[str, Any]:
    history = (UserMessage("x"), AssistantMessage(reply.text, reply.tool_calls, reply.verbatim))
    message: dict[str, Any] = codec(provider).body(request(*history))["messages"][2]
    return message


def test_reasoning_is_sent_back_with_its_calls() -> None:
    reply = read(answer({"content": "t", "tool_calls": [SIGNED], **THOUGHT}))
    assert reply.verbatim is not None
    json.dumps(reply.verbatim.content)
    message = sent_back(reply)
    assert message["reasoning_content"] == "hm"
    assert message["tool_calls"][0]["extra_content"] == SIGNED["extra_content"]
    assert message["tool_calls"][0]["function"]["arguments"] == '{"a":1}'
    assert "reasoning_content" not in sent_back(reply, "openai")


def test_reply_without_calls_keeps_no_verbatim() -> None:
    assert read(answer({"content": "t", **THOUGHT})).verbatim is None
    assert read(answer({"tool_calls": [CALL], **THOUGHT}), "openai").verbatim is None
    assert read(answer({"tool_calls": [CALL], "annotations": []})).verbatim is None


def test_edited_arguments_keep_the_signature() -> None:
    kept = read(answer({"tool_calls": [SIGNED]})).verbatim
    edited = AssistantMessage("", (ToolCall("call_1", "add", {"a": 2}),), kept)
    message = codec().body(request(UserMessage("x"), edited))["messages"][2]
    assert message["tool_calls"][0]["function"]["arguments"] == '{"a":2}'
    assert message["tool_calls"][0]["extra_content"] == SIGNED["extra_content"]


def test_verbatim_of_another_provider_is_not_sent() -> None:
    foreign = AssistantMessage(
        "t", (ToolCall("1", "add", {}),), Verbatim("anthropic", [{"type": "thinking"}])
    )
    message = codec().body(request(UserMessage("x"), foreign))["messages"][2]
    assert message.keys() == {"role", "content", "tool_calls"}


# -------------------------------------------------------------------------- streams


def test_a_text_in_pieces() -> None:
    heard = Heard()
    chunks = [
        piece({"role": "assistant", "content": ""}),
        piece({"content": "Hel"}),
        piece({"content": "lo"}),
    ]
    reply = streamed(*chunks, piece({}, "stop"), {"choices": [], "usage": USAGE}, heard=heard)
    assert reply == ModelReply("Hello", usage=COUNTED)
    assert heard.deltas == [TextDelta("Hel"), TextDelta("lo")]


def test_calls_in_pieces() -> None:
    heard = Heard()
    reply = streamed(
        call_piece(index=0, id="call_1", name="add", arguments=""),
        call_piece(index=0, arguments='{"a":'),
        call_piece(index=1, id="call_2", name="sub", arguments="{}"),
        call_piece(index=0, arguments=" 1}"),
        piece({}, "tool_calls"),
        heard=heard,
    )
    assert reply.tool_calls == (ToolCall("call_1", "add", {"a": 1}), ToolCall("call_2", "sub", {}))
    assert reply.stop == "tool_calls"
    assert heard.deltas == [
        ArgumentsDelta(0, "add", '{"a":'),
        ArgumentsDelta(1, "sub", "{}"),
        ArgumentsDelta(0, "add", " 1}"),
    ]


def test_thoughts_in_pieces() -> None:
    details = [
        {"type": "reasoning.text", "index": 0, "text": "h"},
        {"type": "reasoning.text", "index": 0, "text": "m", "signature": "S"},
        {"type": "reasoning.encrypted", "index": 1, "data": "E"},
    ]
    reply = streamed(
        *(piece({"reasoning_details": [each], "reasoning_content": "x"}) for each in details),
        call_piece(index=0, id="call_1", name="add", arguments="{}", extra_content={"s": 1}),
        piece({}, "tool_calls"),
    )
    assert reply.verbatim is not None
    assert reply.verbatim.content == {
        "reasoning_details": [
            {"type": "reasoning.text", "index": 0, "text": "hm", "signature": "S"},
            {"type": "reasoning.encrypted", "index": 1, "data": "E"},
        ],
        "reasoning_content": "xxx",
        "tool_calls": [{"extra_content": {"s": 1}}],
    }


@pytest.mark.parametrize(("first", "then"), [("h", ["m"]), (["h"], "m"), ("h", {"text": "m"})])
def test_thought_of_changing_type_is_the_last_value(first: Any, then: Any) -> None:
    reply = streamed(
        *(piece({"reasoning_content": each}) for each in (first, then)),
        call_piece(index=0, id="call_1", name="add", arguments="{}"),
        piece({}, "tool_calls"),
    )
    assert reply.verbatim is not None
    assert reply.verbatim.content["reasoning_content"] == then


@pytest.mark.bench
def test_many_calls_take_time_in_proportion(capsys: pytest.CaptureFixture[str]) -> None:
    def seconds(calls: int) -> float:
        pieces = [call_piece(index=n, id=f"{n}", name="add", arguments="{}") for n in range(calls)]
        chunks = [json.dumps(each) for each in pieces]
        began = time.process_time()
        streamed(*chunks)
        return time.process_time() - began

    ratio = min(seconds(4000) for _ in range(2)) / min(seconds(250) for _ in range(3))
    with capsys.disabled():
        print(f"\n16 times as many calls take {ratio:.0f} times as long (linear: 16, quadratic: 256)")


def test_events_of_a_content_filter_change_nothing() -> None:
    # Azure OpenAI, "Content Streaming": the first event is about the prompt, later ones are about the text.
    offsets = {"check_offset": 0, "start_offset": 0, "end_offset": 2}
    late = {"index": 0, "delta": None, "finish_reason": None, "content_filter_offsets": offsets}
    first = {"choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}]}
    events = [first, piece({"content": "hi"}), {"choices": [late]}, piece({}, "stop")]
    assert streamed(*events, {"choices": [late]}).text == "hi"


def test_whole_answer_in_one_event_is_read() -> None:
    # loreai#605: the event has a message where others have a delta.
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}
    whole_answer = answer({"content": "hm", "tool_calls": [call]}, "tool_calls")
    assert streamed(whole_answer) == read(whole_answer)


def test_stream_ends_with_reason_or_done() -> None:
    assert streamed(piece({"content": "x"}, "stop"), done=False).text == "x"
    assert streamed(piece({"content": "x"})).text == "x"
    with pytest.raises(ModelFailed, match="ended before it was complete") as failed:
        streamed({"choices": [], "usage": USAGE}, piece({"content": "x"}), done=False)
    assert failed.value.retryable
    assert failed.value.usage == COUNTED
    with pytest.raises(ModelFailed, match="ended before"):
        streamed(done=False)


def test_incomplete_call_of_a_broken_reply_is_not_made() -> None:
    begun = {"index": 0, "id": "c", "function": {"name": "remove_all", "arguments": ""}}
    with pytest.raises(ModelFailed, match="broke the reply off") as failed:
        streamed(piece({"tool_calls": [begun]}), piece({}, "insufficient_system_resource"))
    assert failed.value.retryable


@pytest.mark.parametrize(
    "chunk", [{"error": {"message": "boom", "code": 502}}, {"choices": [{"error": "boom"}]}]
)
def test_an_error_in_the_middle(chunk: object) -> None:
    with pytest.raises(ModelFailed, match="boom") as failed:
        streamed(piece({"content": "x"}), chunk)
    assert failed.value.retryable


def test_an_event_that_is_not_json() -> None:
    with pytest.raises(ModelFailed, match="an event is not JSON"):
        streamed("<html>")


def test_stream_gives_the_same_reply_as_a_whole_answer() -> None:
    refusal = [piece({"refusal": "I "}), piece({"refusal": "cannot."}, "stop")]
    with pytest.raises(ModelFailed, match=r"the model refused: I cannot\."):
        streamed(*refusal)
    assert (
        streamed(call_piece(index=0, name="add", arguments='{"a'), piece({}, "length")).stop == "max_tokens"
    )
