from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.common.errors import Fault
from stopgo.actors.log.words import events as e
from stopgo.actors.log.words.outcomes import Replied, StepFailed
from stopgo.actors.models.messages.messages import (
    ModelFailed,
    ModelReply,
    ModelRequest,
    ToolCall,
    Usage,
    unheard,
)
from stopgo.actors.models.messages.usage import StepUsage
from stopgo.actors.models.offline.script import ScriptModel
from stopgo.actors.models.offline.script_reader import parse_script
from stopgo.actors.workers.recorder import file_name, script_of

NOTHING = StepUsage(0, 0)


def model_step(
    key: str,
    node: str = "main",
    *,
    text: str = "",
    tool_calls: Sequence[ToolCall] = (),
    usage: StepUsage = NOTHING,
) -> e.LogEvent:
    return e.StepFinished.of(key, "model", node, Replied(text=text, tool_calls=tool_calls, usage=usage))


def failed_step(key: str, code: str, message: str) -> e.LogEvent:
    return e.StepFinished.of(key, "model", "main", StepFailed(error=Fault(code, message)))


def replayed(text: str) -> ScriptModel:
    return ScriptModel(parse_script(text, "recording.yaml"))


def asked(step: str, *, node: str = "main", turn: int = 1, call: int = 1, iteration: int = 1) -> ModelRequest:
    return ModelRequest("", (), (), "anything", node, turn, call, iteration=iteration, step=step)


def test_no_recording_before_the_first_reply() -> None:
    assert script_of([e.ConversationCreated("s", "You help."), e.MessageAdded("hi", "k")]) == ""


@pytest.mark.parametrize(
    ("conversation", "name"),
    [
        ("5d6a7c4e-6f0b-4b0e-9d3c-5f0f5a0c7b11", "5d6a7c4e-6f0b-4b0e-9d3c-5f0f5a0c7b11.yaml"),
        ("agent", "context-agent.yaml"),
    ],
)
def test_client_chosen_id_gets_a_file_prefix(conversation: str, name: str) -> None:
    assert file_name(conversation) == name


def test_recording_is_readable_yaml() -> None:
    history = [
        model_step("1/:1", tool_calls=[ToolCall("x", "add", {"name": "a"})]),
        model_step("1/:2", text="made a", usage=StepUsage(7, 2, cost_usd=0.1)),
    ]
    assert script_of(history) == (
        "replies:\n"
        "- when:\n    turn: 1\n    node: main\n    call: 1\n"
        "  tool_calls:\n  - name: add\n    arguments:\n      name: a\n"
        "- when:\n    turn: 1\n    node: main\n    call: 2\n"
        "  text: made a\n"
        "  usage:\n    input_tokens: 7\n    output_tokens: 2\n"
    )


async def test_replies_match_by_turn_node_iteration_and_call() -> None:
    places: list[tuple[str, dict[str, Any]]] = [
        ("1/:1", {"call": 1}),
        ("1/:2", {"call": 2}),
        ("2/:1", {"turn": 2}),
        ("1/.0@1.0:1", {"node": "looped"}),
        ("1/.0@12.0.3:1", {"node": "looped", "iteration": 12}),
    ]
    history = [model_step(key, where.get("node", "main"), text=key) for key, where in places]
    model = replayed(script_of(history))
    for key, where in places:
        assert (await model.complete(asked(key, **where), unheard)).text == key


async def test_ambiguous_replies_match_by_step() -> None:
    keys = ["1/:1", "1/!2:1", "1/!3:1"]
    text = script_of(model_step(key, text=key) for key in keys)
    assert text.count("step:") == len(keys)
    model = replayed(text)
    for key in reversed(keys):
        assert (await model.complete(asked(key), unheard)).text == key


async def test_recorded_failure_is_replayed_without_retries() -> None:
    model = replayed(script_of([failed_step("1/:1", "model_error", "overloaded (status 529)")]))
    with pytest.raises(ModelFailed, match=r"^overloaded \(status 529\)$") as failed:
        await model.complete(asked("1/:1"), unheard)
    assert not failed.value.retryable


def test_limit_failures_are_not_recorded() -> None:
    assert script_of([failed_step("1/:1", "limit_reached", "the run stopped")]) == ""


async def test_malformed_arguments_stay_malformed() -> None:
    call = ToolCall("x", "add", {}, "not JSON")
    model = replayed(script_of([model_step("1/:1", tool_calls=[call])]))
    reply = await model.complete(asked("1/:1"), unheard)
    assert reply.tool_calls == (ToolCall("call_1_0", "add", {}, "not JSON"),)


# What JSON can hold and YAML can: no lone surrogates, which no provider sends either.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    [
        "${x}",
        "$${x}",
        "$$${",
        "yes",
        "1e3",
        "2026-01-01",
        " x ",
        "a: b",
        "- a",
        "\x85",
        "\ufeff",
        "\t",
        "\x00",
    ]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
calls = st.builds(ToolCall, st.just("x"), texts.filter(bool), st.dictionaries(texts, json_values, max_size=3))


@given(text=texts, tool_calls=st.lists(calls, max_size=3), count=st.integers(0, 10**9))
async def test_any_reply_round_trips_through_a_recording(
    text: str, tool_calls: list[ToolCall], count: int
) -> None:
    usage = StepUsage(count, 1, count // 2)
    history = [model_step("1/:1", text=text, tool_calls=tool_calls, usage=usage)]
    reply = await replayed(script_of(history)).complete(asked("1/:1"), unheard)
    assert reply == ModelReply(
        text,
        tuple(attrs.evolve(call, id=f"call_1_{index}") for index, call in enumerate(tool_calls)),
        Usage(count, 1, count // 2),
        stop="tool_calls" if tool_calls else "end",
    )
