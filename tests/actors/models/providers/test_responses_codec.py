"""The codec of the Responses API against the checks of its server (`tests/providers/servers/responses.py`).

The right values are those of OpenAI's reference of the API and of its guides "Reasoning models", "Function
calling" and "Using GPT-6.2"; where a client's issue is the source, a comment names it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, cast

import attrs
import pytest

from stopgo.actors.models.codecs.responses_codec import (
    COMPATIBLE,
    ResponsesCodec,
    ResponsesFlavour,
    origin_of,
)
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
    unheard,
)
from stopgo.config.sections.models import ModelSpec, Provider
from stopgo.runtime.json_text import dump_wire, load_provider
from tests.providers.servers.responses import Issued, event, events_of, request_problem
from tests.providers.servers.talk import Json

from .conftest import Heard, kept, request

URL = "https://api.openai.com/v1/responses"
TANK = ModelTool(
    "tank_level",
    "Fill level of one tank.",
    {"type": "object", "properties": {"tank": {"type": "integer"}}, "required": ["tank"]},
)
SYSTEM = "You look after rain tanks."
DEVELOPER: Json = {"role": "developer", "content": SYSTEM}
ASKED: Json = {"role": "user", "content": [{"type": "input_text", "text": "Is tank 7 above half?"}]}
THOUGHT: Json = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA-tank7=="}
CALL: Json = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_A",
    "name": "tank_level",
    "arguments": '{"tank":7}',
    "status": "completed",
}
SENT_CALL: Json = {name: value for name, value in CALL.items() if name != "status"}
RESULT = '{"litres":310,"of":500}'
OUTPUT: Json = {"type": "function_call_output", "call_id": "call_A", "output": RESULT}
USAGE: Json = {
    "input_tokens": 91,
    "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 20},
    "output_tokens": 60,
    "output_tokens_details": {"reasoning_tokens": 40},
    "total_tokens": 151,
}
COUNTED = Usage(91, 60, 30, 20)


def message(text: str, id: str = "msg_1", **more: Any) -> Json:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    found = {"type": "message", "id": id, "role": "assistant", "status": "completed", "content": [part]}
    return {**found, **more}


ANSWER = message("Yes, 62 %.", "msg_2", phase="final_answer")


def response(*output: Json, status: str = "completed", **more: Any) -> Json:
    return {"id": "resp_1", "status": status, "output": list(output), "usage": USAGE, **more}


def codec(
    model: str = "gpt-6.2-sol", flavour: ResponsesFlavour | None = None, url: str = URL, **more: Any
) -> ResponsesCodec:
    spec = ModelSpec("m", "openai", model, **more)
    made = ResponsesCodec(spec, origin_of(spec, url, {}))
    return made if flavour is None else attrs.evolve(made, flavour=flavour)


def read(
    events: Sequence[object], heard: Heard | None = None, made: ResponsesCodec | None = None
) -> ModelReply:
    stream = (made or codec()).stream(request(tools=[TANK]), heard or unheard)
    for each in events:
        if not stream.ended:
            stream.feed(each if isinstance(each, str) else json.dumps(each))
    return stream.reply()


def read_both(whole: Json, heard: Heard | None = None) -> ModelReply:
    """The reply, which is the same with and without streaming."""
    reply = codec().reply(whole, request(tools=[TANK]))
    assert read(events_of(whole), heard) == reply
    return reply


@attrs.define
class Talk:
    """A conversation with a strict server."""

    codec: ResponsesCodec = attrs.field(factory=codec)
    issued: Issued = attrs.field(factory=Issued)
    messages: list[ChatMessage] = attrs.field(factory=lambda: [UserMessage("Is tank 7 above half?")])
    used: Usage = attrs.field(factory=Usage)

    def input(self, made: ResponsesCodec | None = None, issued: Issued | None = None) -> list[Json]:
        """The input of the next request, which the server accepts."""
        body = self.body(made)
        assert request_problem(body, issued or self.issued) is None
        found: list[Json] = body["input"]
        return found

    def body(self, made: ResponsesCodec | None = None) -> Json:
        asked = request(*self.messages, system=SYSTEM, tools=[TANK])
        body: Json = load_provider(dump_wire((made or self.codec).body(asked)))
        return body

    def take(self, *output: Json, results: Sequence[str] = (RESULT,)) -> ModelReply:
        """A reply with these items, and the results of its calls."""
        self.issued.remember(output)
        reply = read_both(response(*output))
        self.messages.append(kept(reply))
        for call, result in zip(reply.tool_calls, results, strict=False):
            self.messages.append(ToolMessage(call.id, call.name, result))
        self.used += reply.usage
        return reply


def test_tool_turn_sends_the_reasoning_and_the_call_back() -> None:
    talk = Talk(codec(max_tokens=32000, options={"reasoning": {"effort": "medium"}}))
    body = talk.body()
    assert len(body.pop("prompt_cache_key")) == 32
    assert body == {
        "model": "gpt-6.2-sol",
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "medium"},
        "max_output_tokens": 32000,
        "input": [DEVELOPER, ASKED],
        "tools": [
            {
                "type": "function",
                "name": "tank_level",
                "description": "Fill level of one tank.",
                "strict": False,
                "parameters": TANK.input_schema,
            }
        ],
    }
    reply = talk.take(THOUGHT, CALL)
    assert reply.tool_calls == (ToolCall("call_A", "tank_level", {"tank": 7}),)
    assert reply.stop == "tool_calls"
    assert talk.input() == [DEVELOPER, ASKED, THOUGHT, SENT_CALL, OUTPUT]
    assert talk.take(ANSWER).text == "Yes, 62 %."
    assert talk.used == COUNTED + COUNTED


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"store": None}, "the reply would be stored"),
        ({"instructions": "x"}, "newer models read instructions after the input"),
        ({"tools": [{"type": "function", "name": "f", "parameters": {}}]}, "would be made strict"),
        ({"input": [DEVELOPER, THOUGHT, OUTPUT]}, "without its required following item"),
        ({"input": [DEVELOPER, SENT_CALL, OUTPUT]}, "without its required 'reasoning' item: 'rs_1'"),
        ({"input": [THOUGHT, CALL, OUTPUT]}, r"Unknown parameter: 'input\[1\].status'"),
        ({"input": [{**THOUGHT, "status": "completed"}]}, r"Unknown parameter: 'input\[0\].status'"),
        ({"input": [{**THOUGHT, "content": []}]}, "array too long"),
        ({"input": [{**THOUGHT, "encrypted_content": "x"}, SENT_CALL]}, "could not be verified"),
        ({"input": [THOUGHT, SENT_CALL, ASKED]}, "No tool output found for function call call_A"),
        ({"input": [OUTPUT]}, "No tool call found"),
        ({"input": [{"type": "reasoning", "id": "rs_9", "summary": []}]}, "not found"),
        ({"model": "gpt-4o"}, "'include' is not supported"),
        ({"seed": 7}, "extra_forbidden"),
    ],
)
def test_the_server_of_these_tests_is_strict(change: Json, why: str) -> None:
    talk = Talk()
    talk.take(THOUGHT, CALL)
    problem = request_problem({**talk.body(), **change}, talk.issued)
    assert problem is not None
    assert re.search(why, problem[0])


def test_parallel_calls_with_interleaved_pieces_have_their_results_in_order() -> None:
    second = {**CALL, "id": "fc_2", "call_id": "call_B", "arguments": '{"tank":8}'}
    events = [
        event("output_item.added", output_index=0, item={**CALL, "arguments": ""}),
        event("output_item.added", output_index=2, item={**second, "arguments": ""}),
        event("function_call_arguments.delta", output_index=2, item_id="fc_2", delta='{"tank"'),
        event("function_call_arguments.delta", output_index=0, item_id="fc_1", delta='{"ta'),
        event("function_call_arguments.delta", output_index=2, item_id="fc_2", delta=":8}"),
        event("function_call_arguments.delta", output_index=0, item_id="fc_1", delta='nk":7}'),
        event("output_item.done", output_index=2, item=second),
        event("output_item.done", output_index=0, item=CALL),
        event("completed", response=response()),
    ]
    heard = Heard()
    reply = read(events, heard)
    assert [(call.id, call.arguments["tank"]) for call in reply.tool_calls] == [("call_A", 7), ("call_B", 8)]
    assert heard.deltas[0] == ArgumentsDelta(1, "tank_level", '{"tank"')
    talk = Talk()
    talk.issued.remember([CALL, second])
    talk.messages += [kept(reply), *(ToolMessage(id, "tank_level", id) for id in ("call_B", "call_A"))]
    assert [item["output"] for item in talk.input()[4:]] == ["call_A", "call_B"]


def test_call_without_a_result_gets_one() -> None:
    talk = Talk()
    talk.take(THOUGHT, CALL, {**CALL, "id": "fc_2", "call_id": "call_B"}, results=["one"])
    assert [item["output"] for item in talk.input()[-2:]] == [
        "one",
        "Error: There is no result of this call.",
    ]


def test_reasoning_that_cannot_be_sent_takes_the_ids_after_it_along() -> None:
    # vercel/ai#7543: with `store: false`, an id without its content is not found.
    talk = Talk()
    opaque = {"type": "reasoning", "id": "rs_0", "summary": []}
    talk.take(
        opaque, message("I look."), CALL, {**THOUGHT, "id": "rs_2"}, {**CALL, "id": "fc_2", "call_id": "B"}
    )
    said, first, thought, second, *_ = talk.input()[2:]
    assert said == {"role": "assistant", "content": "I look."}
    assert "id" not in first
    assert (thought["id"], second["id"]) == ("rs_2", "fc_2")


def test_reasoning_at_the_end_is_left_out() -> None:
    talk = Talk()
    talk.take(THOUGHT, CALL, {**THOUGHT, "id": "rs_2"})
    assert talk.input() == [DEVELOPER, ASKED, THOUGHT, SENT_CALL, OUTPUT]


def test_reasoning_is_that_of_the_last_event() -> None:
    events = [
        event("output_item.added", output_index=0, item={**THOUGHT, "encrypted_content": "gAA"}),
        *events_of(response(THOUGHT, CALL))[3:],
    ]
    reply = read(events)
    assert reply.verbatim is not None
    assert reply.verbatim.content[0]["encrypted_content"] == "gAAA-tank7=="


def test_members_that_the_server_refuses_are_not_sent_back() -> None:
    # litellm#13420, pydantic-ai#3245, agent-framework-go#784
    odd = {"status": "completed", "content": [{"type": "reasoning_text", "text": "hm"}], "extra": 1}
    talk = Talk()
    talk.take({**THOUGHT, **odd}, {**CALL, "parsed_arguments": None, "namespace": None})
    assert talk.input()[2:4] == [THOUGHT, SENT_CALL]


@pytest.mark.parametrize(
    "other",
    [
        codec(url="https://eu.api.openai.com/v1/responses"),
        codec("gpt-5.4"),
        attrs.evolve(codec(), origin=origin_of(codec().spec, URL, {"OpenAI-Organization": "org-2"})),
    ],
)
def test_other_endpoint_family_or_organization_gets_texts_and_calls_only(other: ResponsesCodec) -> None:
    talk = Talk()
    talk.take(THOUGHT, message("I look.", phase="commentary"), CALL)
    sent = talk.input(other, Issued())
    assert "rs_1" not in str(sent)
    assert "gAAA" not in str(sent)
    call = {name: value for name, value in SENT_CALL.items() if name != "id"}
    assert sent[2:] == [{"role": "assistant", "content": "I look.", "phase": "commentary"}, call, OUTPUT]


def test_same_family_keeps_the_reasoning() -> None:
    talk = Talk()
    talk.take(THOUGHT, CALL)
    assert talk.input(codec("gpt-6.2-sol-2026-11-17"))[2] == THOUGHT


def test_request_without_reasoning_keeps_everything_else_in_place() -> None:
    talk = Talk()
    talk.take(THOUGHT, message("I look.", phase="commentary"), CALL)
    sent = talk.input(attrs.evolve(talk.codec, plain=True))
    assert [item.get("phase", item.get("type")) for item in sent[2:]] == [
        "commentary",
        "function_call",
        "function_call_output",
    ]
    assert not any("id" in item for item in sent)


@pytest.mark.parametrize("reason", ["max_output_tokens", "content_filter", "max_messages", "steered"])
def test_text_of_an_incomplete_reply_is_kept(reason: str) -> None:
    whole = response(message("Tank 7 is"), status="incomplete", incomplete_details={"reason": reason})
    reply = read_both(whole)
    assert (reply.text, reply.stop, reply.usage) == ("Tank 7 is", "max_tokens", COUNTED)


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("max_output_tokens", "no room left for an answer: .* max_output_tokens"),
        ("content_filter", "the provider's content filter stopped the reply"),
        ("steered", 'reason "steered"'),
    ],
)
def test_incomplete_reply_without_text_is_a_failure(reason: str, said: str) -> None:
    whole = response(THOUGHT, status="incomplete", incomplete_details={"reason": reason})
    with pytest.raises(ModelFailed, match=said) as failed:
        codec().reply(whole, request())
    assert not failed.value.retryable
    assert failed.value.usage == COUNTED


@pytest.mark.parametrize("ends", ["output_item.done", "output_item.added"])
def test_open_call_of_an_incomplete_reply_is_marked_as_cut(ends: str) -> None:
    # `stop="max_tokens"` with calls is refused by the node: none of the calls is made.
    item = {**CALL, "arguments": '{"tank"', "status": "incomplete"}
    reply = read(
        [
            event(ends, output_index=0, item=item),
            event("incomplete", response=response(incomplete_details={"reason": "max_output_tokens"})),
        ]
    )
    assert reply.stop == "max_tokens"
    assert len(reply.tool_calls) == 1


def test_incomplete_call_of_a_complete_reply_is_marked_as_cut() -> None:
    assert read_both(response({**CALL, "status": "incomplete"})).stop == "max_tokens"


def test_refusal_is_the_text_and_goes_back_as_a_refusal() -> None:
    item = message("", content=[{"type": "refusal", "refusal": "I cannot."}])
    heard = Heard()
    talk = Talk()
    assert talk.take(THOUGHT, item).text == "I cannot."
    read(events_of(response(item)), heard)
    assert "".join(each.text for each in heard.deltas if isinstance(each, TextDelta)) == "I cannot."
    assert talk.input()[3]["content"] == [{"type": "refusal", "refusal": "I cannot."}]


@pytest.mark.parametrize(
    ("error", "status", "retryable"),
    [
        ({"code": "rate_limit_exceeded", "message": "m"}, 429, True),
        ({"code": "server_error", "message": "m"}, 500, True),
        ({"code": "vector_store_timeout", "message": "m"}, 504, True),
        ({"code": "server_is_overloaded", "message": "m"}, 503, True),
        ({"code": "slow_down", "message": "m"}, 429, True),
        ({"code": "context_length_exceeded", "message": "m"}, 400, False),
        ({"code": "invalid_prompt", "message": "m"}, 400, False),
        ({"code": "bio_policy", "message": "m"}, 400, False),
        ({"code": "image_too_large", "message": "m"}, 400, False),
        ({"code": "credit_balance_exhausted", "message": "m"}, 429, False),
        ({"code": "new_trouble", "message": "m"}, None, True),
        (None, None, True),
    ],
)
def test_failed_response_has_the_status_of_its_code(error: Any, status: int | None, retryable: bool) -> None:
    whole = response(message("Tank"), status="failed", error=error)
    for streamed in (False, True):
        with pytest.raises(ModelFailed) as failed:
            read(events_of(whole)) if streamed else codec().reply(whole, request())
        assert (failed.value.status, failed.value.retryable) == (status, retryable)
        assert failed.value.usage == COUNTED


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        ({"type": "error", "code": "server_error", "message": "m", "param": None}, 500, "m"),
        ({"type": "error", "error": {"type": "rate_limit_error", "code": None, "message": "m"}}, 429, "m"),
        # Kilo-Org/kilocode#11249
        (
            {"type": "error", "code": "slow_down", "message": ""},
            429,
            "an error without a message (slow_down)",
        ),
        ({"type": "error"}, None, "an error without a message"),
        ({"error": {"message": "m", "code": 502}}, 502, "m"),
    ],
)
def test_error_in_the_middle_of_a_text_is_a_failure(error: Json, status: int | None, said: str) -> None:
    begun = events_of(response(message("Tank 7 is half full.")))[:6]
    with pytest.raises(ModelFailed) as failed:
        read([*begun, error])
    assert failed.value.status == status
    assert failed.value.retryable
    assert str(failed.value).startswith(said)


def test_stream_without_its_last_event_is_cut_off() -> None:
    events = events_of(response(THOUGHT, CALL))
    for end in range(len(events)):
        with pytest.raises(ModelFailed, match="ended before it was complete") as failed:
            read([*events[:end], "[DONE]"])
        assert failed.value.retryable


@pytest.mark.parametrize("listed", [[], None, "absent"])
def test_items_of_the_stream_do_without_the_list(listed: Any) -> None:
    # NousResearch/hermes-agent#5758, bytedance/deer-flow#1928
    *events, last = events_of(response(THOUGHT, CALL))
    last = {**last, "response": {**last["response"], "output": listed}}
    if listed == "absent":
        del last["response"]["output"]
    assert read([*events, last]) == read_both(response(THOUGHT, CALL))


KINDS = {
    "whole items only": ("output_item.done", "completed"),
    "the list only": ("completed",),
    "no beginnings": ("output_item.done", "delta", "arguments.done", "completed"),
    "no ends": ("output_item.added", "delta", "arguments.done"),
}


@pytest.mark.parametrize("kinds", KINDS.values(), ids=KINDS)
def test_missing_events_change_nothing(kinds: Sequence[str]) -> None:
    # litellm#22102
    said = message("I look.", phase="commentary")
    whole = response(said, CALL)
    events = [each for each in events_of(whole) if each["type"].endswith(tuple(kinds))]
    if "completed" not in kinds:
        events.append(event("completed", response=response()))
    heard = Heard()
    reply = read(events, heard)
    assert (reply.text, reply.tool_calls) == (read_both(whole).text, read_both(whole).tool_calls)
    if "completed" not in kinds or "output_item.done" in kinds:
        assert "".join(each.text for each in heard.deltas if isinstance(each, TextDelta)) == "I look."
        assert "".join(e.json for e in heard.deltas if isinstance(e, ArgumentsDelta)) == '{"tank":7}'


def test_events_that_mean_nothing_are_harmless() -> None:
    noise: list[object] = [
        {"type": "keepalive", "sequence_number": 3},  # openai-node#1964
        {"type": "response.queued"},
        {"type": "response.new_kind", "output_index": 0, "item": {"type": "function_call"}},
        {"type": "response.output_item.added", "output_index": 0, "item": None},
        {"type": "response.output_text.annotation.added", "output_index": 0},
        {"type": 7},
        {},
        [],
        "[DONE]",
    ]
    whole = response(THOUGHT, message("I look."), CALL)
    mixed = [each for known in events_of(whole) for each in (*noise, known)]
    assert read([*mixed, "[DONE]"]) == read_both(whole)


def test_items_with_one_index_are_all_read() -> None:
    second = {**CALL, "id": "fc_2", "call_id": "call_B"}
    events = [
        {**each, "output_index": 0} if "output_index" in each else each
        for each in events_of(response(message("I look."), CALL, second))
    ]
    assert [call.id for call in read(events).tool_calls] == ["call_A", "call_B"]


def test_piece_after_the_end_of_an_item_belongs_to_the_next_one() -> None:
    # With one index and no ids, a call without arguments got those of the call after it.
    empty = {"type": "function_call", "call_id": "c1", "name": "empty_all", "arguments": ""}
    second = {"type": "function_call", "call_id": "c2", "name": "water", "arguments": '{"tank":8}'}
    events = [
        event("output_item.done", output_index=0, item=empty),
        event("function_call_arguments.delta", output_index=0, delta='{"tank":8}'),
        event("output_item.done", output_index=0, item=second),
        event("completed", response={"status": "completed", "output": []}),
    ]
    assert [(call.name, call.arguments) for call in read(events).tool_calls] == [
        ("empty_all", {}),
        ("water", {"tank": 8}),
    ]


def test_pieces_without_index_belong_to_their_id() -> None:
    events = [
        {name: value for name, value in each.items() if name != "output_index"}
        for each in events_of(response(THOUGHT, message("I look."), CALL))
    ]
    assert read(events) == read_both(response(THOUGHT, message("I look."), CALL))


def test_call_whose_arguments_did_not_end_is_not_made() -> None:
    events = [each for each in events_of(response(CALL)) if not each["type"].endswith(".done")]
    events[-1] = event("completed", response=response())
    with pytest.raises(ModelFailed, match="ended before it was complete"):
        read(events)


def test_arguments_that_the_last_event_leaves_out_are_those_of_the_pieces() -> None:
    events = events_of(response(CALL))
    for each in events:
        if each["type"] == "response.output_item.done":
            each["item"] = {**CALL, "arguments": ""}
    assert read(events).tool_calls[0].arguments == {"tank": 7}


def test_phases_come_back_in_place() -> None:
    # "Using GPT-6.2": a model stops early if the phase of an earlier text is missing.
    talk = Talk()
    talk.take(THOUGHT, message("I look.", phase="commentary"), CALL)
    talk.take({**THOUGHT, "id": "rs_2"}, ANSWER)
    talk.messages.append(UserMessage("And 8?"))
    sent = talk.input()
    assert [item.get("phase") for item in sent if item.get("role") == "assistant"] == [
        "commentary",
        "final_answer",
    ]
    assert sent[-2]["content"] == [{"type": "output_text", "text": "Yes, 62 %.", "annotations": []}]
    # The answer of an earlier turn is kept as its text.
    talk.messages[-2] = AssistantMessage("Yes, 62 %.")
    assert talk.input()[-2] == {"role": "assistant", "content": "Yes, 62 %.", "phase": "final_answer"}


def test_edited_arguments_replace_those_of_the_model() -> None:
    talk = Talk()
    reply = talk.take(THOUGHT, CALL)
    (call,) = reply.tool_calls
    talk.messages[1] = AssistantMessage("", (attrs.evolve(call, arguments={"tank": 8}),), reply.verbatim)
    assert talk.input()[2:4] == [THOUGHT, {**SENT_CALL, "arguments": '{"tank":8}'}]


def test_unknown_item_is_kept_in_place_and_not_run() -> None:
    action = {"type": "search", "query": "tanks"}
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": action}
    talk = Talk()
    reply = talk.take(THOUGHT, search, CALL)
    assert len(reply.tool_calls) == 1
    assert talk.input()[2:5] == [THOUGHT, search, SENT_CALL]


def test_removed_reasoning_is_told() -> None:
    told: list[str] = []
    made = attrs.evolve(codec(), removed=told.append)
    change = {"id": "rs_1", "type": "reasoning", "action": "removed", "reason": "prefix_mismatch"}
    read(events_of(response(ANSWER, input_transformations=[change])), made=made)
    assert told == ["prefix_mismatch"]


def test_model_that_does_not_reason_gets_a_plain_request() -> None:
    # pydantic-ai#2867: it refuses `include`.
    body = Talk(codec("gpt-4o", temperature=0.5)).body()
    assert request_problem(body, Issued()) is None
    assert body["temperature"] == 0.5
    assert not body.keys() & {"include", "reasoning"}


@pytest.mark.parametrize(
    ("options", "members"),
    [
        (
            {"reasoning_effort": "low", "reasoning": {"summary": "auto"}},
            {"reasoning": {"effort": "low", "summary": "auto"}},
        ),
        (
            {"verbosity": "low", "max_completion_tokens": 20},
            {"text": {"verbosity": "low"}, "max_output_tokens": 20},
        ),
        ({"reasoning_effort": "low", "reasoning": {"effort": "high"}}, {"reasoning": {"effort": "high"}}),
    ],
)
def test_options_of_chat_completions_are_translated(options: Json, members: Json) -> None:
    body = codec(options=options).body(request())
    assert {name: body[name] for name in members} == members
    assert not body.keys() & {"reasoning_effort", "verbosity", "max_completion_tokens"}


def test_token_limit_is_at_least_what_the_server_accepts() -> None:
    assert codec(max_tokens=5).body(request())["max_output_tokens"] == 16


def test_ids_that_the_server_refuses_are_replaced_or_left_out() -> None:
    # jlcodes99/cockpit-tools#2090: proxies make long ids.
    talk = Talk()
    talk.take({**THOUGHT, "id": "r" * 65}, {**CALL, "id": "fc_1", "call_id": "call:" + "x" * 80})
    thought, call, result = talk.body()["input"][2:]
    assert "id" not in thought
    assert "id" not in call
    assert call["call_id"] == result["call_id"] != "call:" + "x" * 80
    assert len(call["call_id"]) <= 64


def test_compatible_server_gets_instructions_and_plain_reasoning() -> None:
    # vLLM gives its reasoning as text, and wants it back.
    made = codec(flavour=COMPATIBLE)
    thought = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}],
    }
    reply = made.reply(response({**thought, "status": None}, CALL), request(tools=[TANK]))
    history = (UserMessage("hi"), kept(reply), ToolMessage("call_A", "tank_level", RESULT))
    body = made.body(request(*history, system=SYSTEM))
    assert body["instructions"] == SYSTEM
    assert body["input"][1:3] == [thought, SENT_CALL]
    assert not body.keys() & {"include", "prompt_cache_key"}


def test_schemas_are_in_the_dialect_of_the_server() -> None:
    # ggml-org/llama.cpp#26930: a `pattern` makes every turn fail.
    zone = {"type": "string", "pattern": "^[a-z]+$"}
    tool = ModelTool("f", "", {"type": "object", "properties": {"zone": zone}})
    for provider, has_pattern in (("openai", True), ("ollama", False)):
        spec = ModelSpec("m", cast(Provider, provider), "m")
        body = ResponsesCodec(spec, "here").body(request(tools=[tool]))
        assert ("pattern" in body["tools"][0]["parameters"]["properties"]["zone"]) == has_pattern


def test_deltas_of_several_messages_are_those_of_the_text() -> None:
    heard = Heard()
    reply = read_both(response(message("I look."), message("Yes.", "msg_2")), heard)
    assert "".join(each.text for each in heard.deltas if isinstance(each, TextDelta)) == reply.text
    assert reply.text == "I look.\n\nYes."


@pytest.mark.parametrize("status", ["queued", "in_progress", "cancelled", ""])
def test_response_of_another_status_is_not_understood(status: str) -> None:
    with pytest.raises(ModelFailed, match="not understood"):
        codec().reply(response(message("x"), status=status), request())


@pytest.mark.parametrize("usage", [None, {}, {"input_tokens": 5, "input_tokens_details": None}, [], "x"])
def test_usage_may_be_missing_or_odd(usage: Any) -> None:
    assert codec().reply(response(ANSWER, usage=usage), request()).usage in (Usage(), Usage(5))


def test_origin_names_no_address() -> None:
    assert "secret" not in codec(url="https://user:secret@proxy.example/v1/responses").origin
