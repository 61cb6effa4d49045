"""The AG-UI events of single log events; `test_any_log` has whole logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from stopgo.actors.approvals.asked import Occasion
from stopgo.actors.approvals.proxy_approval import ProxyQuestion
from stopgo.actors.common.errors import Fault
from stopgo.actors.log.fold.state import Conversation
from stopgo.actors.log.words import events as e
from stopgo.actors.log.words.deltas import ModelDelta
from stopgo.actors.log.words.outcomes import Delegation, Ended, NodeEnd, NotSent, Replied, StepFailed
from stopgo.actors.models.messages.messages import TextDelta, ToolCall
from stopgo.actors.models.messages.usage import StepUsage
from stopgo.actors.tools.delegation import RemoteItem, RemoteTask
from stopgo.actors.tools.needs import NeedsDecisions
from stopgo.actors.tools.tool import ToolResult
from stopgo.gateway.agui.agui_events import Operation, event_json
from stopgo.gateway.agui.agui_run import AGUIRun
from stopgo.gateway.agui.node_keys import executions

from .ui import interrupts, kinds, of_kind, texts
from .verifier import Json, check_stream

TREE = {
    "type": "sequential",
    "name": "all",
    "agents": [
        {"type": "llm", "name": "first"},
        {
            "type": "parallel",
            "name": "both",
            "agents": [{"type": "llm", "name": "left"}, {"type": "loop", "name": "right", "agents": [{}]}],
        },
        {"type": "a2a", "name": "ask", "agent": "other"},
    ],
}


def stream(*events: e.LogEvent | ModelDelta) -> list[Json]:
    """Of a run with these events."""
    run = AGUIRun(conversation=Conversation("c"), thread="t", run="r", command="k")
    told, seq = [run.start()], 0
    begin = (
        e.ConversationCreated("s", "p"),
        e.MessageAdded("hi", "k"),
        e.RunStarted("run", 1, "k", "tree", 1, False, TREE),
    )
    for event in (*begin, *events):
        if isinstance(event, ModelDelta):
            told += run.delta(event)
        else:
            seq += 1
            told += run.apply(e.Entry(seq, 1.5, event))
    if not run.ended:
        told += run.pause() if run.pauses.rests else run.fail("open", "")
    found: list[Json] = [event_json(event) for event in told]
    check_stream(found)
    return found


def replied(
    key: str, text: str, *calls: ToolCall, usage: StepUsage | None = None, model: str = "m"
) -> e.StepFinished:
    return e.StepFinished.of(
        key, "model", "n", Replied(text=text, tool_calls=calls, usage=usage, model=model)
    )


def ended(key: str, text: str = "", **writes: str) -> e.StepFinished:
    return e.StepFinished.of(key, "node", "n", Ended(NodeEnd(text, writes=writes)))


def piece(key: str, text: str, attempt: int = 1) -> ModelDelta:
    return ModelDelta("c", 0, key, "n", "m", attempt, TextDelta(text))


FINISHED = e.RunFinished("run", "", ())


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("1/", ["all"]),
        ("1/.0:2", ["all", "first"]),
        ("1/!2.0:2.1", ["all", "first"]),
        ("1/.0!", ["all", "first"]),
        ("1/.1.0:1.0~1", ["all", "both", "left*"]),
        ("1/.1!3.1@12.0>", ["all", "both", "right*", "1/.1!3.1@12.0"]),
        ("1/.7:1", ["all", "1/.7"]),
        ("else", []),
    ],
)
def test_a_key_names_executions(key: str, names: list[str]) -> None:
    assert [each.name + "*" * each.is_branch for each in executions(key, TREE)] == names


def test_a_step_is_closed_by_the_end_of_its_node() -> None:
    told = stream(replied("1/.0:1", "one"), ended("1/.0", "one"), replied("1/.1.0:1", "two"), FINISHED)
    steps = [(event["type"][5:], event["stepName"]) for event in told if event["type"].startswith("STEP")]
    assert steps == [
        ("STARTED", "all"),
        ("STARTED", "first"),
        ("FINISHED", "first"),
        ("STARTED", "both"),
        ("STARTED", "left"),
        ("FINISHED", "left"),
        ("FINISHED", "both"),
        ("FINISHED", "all"),
    ]
    [subagent] = of_kind(told, "SUBAGENT_STARTED")
    assert subagent["name"] == "left"


def test_a_node_that_is_tried_again_is_one_step() -> None:
    failed = e.StepFinished.of("1/.1!", "attempt", "both", StepFailed(error=Fault("c", "m")))
    told = stream(piece("1/.1.0:1", "a"), failed, replied("1/.1!2.0:1", "b"), ended("1/.1"), FINISHED)
    assert [event["stepName"] for event in of_kind(told, "STEP_STARTED")] == ["all", "both", "left", "left"]
    assert len({event["subagentRunId"] for event in of_kind(told, "SUBAGENT_STARTED")}) == 2
    assert texts(told) == ["b"]


def test_a_branch_that_fails_is_an_error_of_the_subagent() -> None:
    failed = e.StepFinished.of("1/.1.0", "node", "left", StepFailed(error=Fault("model_error", "no")))
    told = stream(failed, FINISHED)
    [error] = of_kind(told, "SUBAGENT_ERROR")
    assert (error["code"], error["message"]) == ("model_error", "no")


def test_ended_node_closes_its_open_parts() -> None:
    failed = e.StepFinished.of("1/.1", "node", "both", StepFailed(error=Fault("c", "m")))
    told = stream(piece("1/.1.0:1", "a"), failed, replied("1/.0:1", "b"), FINISHED)
    assert kinds(told)[7:12] == [
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "STEP_FINISHED",
        "SUBAGENT_ERROR",
        "STEP_FINISHED",
    ]


def test_a_node_that_has_ended_does_not_begin_again() -> None:
    told = stream(ended("1/.1.0"), piece("1/.1.0:1", "late"), FINISHED)
    assert [event["stepName"] for event in of_kind(told, "STEP_STARTED")] == ["all", "both", "left"]


def test_the_end_of_a_node_corrects_the_state() -> None:
    """Of two branches that write one key, the later one counts, whichever ends first."""
    told = stream(e.StateSet("x", "two", "n"), e.StateSet("x", "one", "n"), ended("1/.1", x="two"), FINISHED)
    assert [event["delta"][0]["value"] for event in of_kind(told, "STATE_DELTA")] == ["two", "one", "two"]


def test_a_pointer_is_escaped() -> None:
    assert Operation.setting("a/b~c", "v").path == "/a~1b~0c"


def test_usage_is_summed_by_model() -> None:
    used = [StepUsage(3, 2, 1), StepUsage(5, 1), StepUsage(7, 1, 0, 4)]
    told = stream(
        replied("1/.0:1", "", usage=used[0], model="anthropic:a"),
        replied("1/.0:2", "", usage=used[1], model="anthropic:a"),
        replied("1/.0:3", "", usage=used[2], model="own"),
        FINISHED,
    )
    assert told[-1]["usage"] == [
        {
            "provider": "anthropic",
            "model": "a",
            "inputTokens": 8,
            "outputTokens": 3,
            "totalTokens": 11,
            "cachedInputTokens": 1,
        },
        {"model": "own", "inputTokens": 7, "outputTokens": 1, "totalTokens": 8, "cacheWriteInputTokens": 4},
    ]


def test_a_late_piece_of_an_earlier_attempt_is_ignored() -> None:
    told = stream(piece("1/.0:1", "He", 2), piece("1/.0:1", "By", 1), replied("1/.0:1", "Hello"), FINISHED)
    assert [event["delta"] for event in of_kind(told, "TEXT_MESSAGE_CONTENT")] == ["He", "llo"]


def test_text_without_a_recorded_text_is_superseded() -> None:
    told = stream(piece("1/.0:1", "He"), replied("1/.0:1", "", ToolCall("i", "x", {})), FINISHED)
    assert texts(told) == []
    assert of_kind(told, "TOOL_CALL_START")[0]["toolCallId"] == "run:1/.0:1.0"


@pytest.mark.parametrize("end", [FINISHED, e.RunCancelled("run", ())])
def test_a_call_without_a_result_gets_one_at_the_end(end: e.RunEnd) -> None:
    told = stream(replied("1/.0:1", "", ToolCall("i", "x", {})), end)
    [result] = of_kind(told, "TOOL_CALL_RESULT")
    assert (result["content"], result["metadata"]) == ("It was stopped before its end.", {"is_error": True})


def test_unsent_call_has_the_result_the_model_gets() -> None:
    denied = e.StepFinished.of("1/.0:1.0", "call", "n", NotSent("denied", "Not allowed."))
    told = stream(replied("1/.0:1", "", ToolCall("i", "x", {})), denied, FINISHED)
    assert [event["content"] for event in of_kind(told, "TOOL_CALL_RESULT")] == ["Not allowed."]


def test_answer_without_a_model_is_a_message() -> None:
    told = stream(replied("1/.0:1", "one"), e.RunFinished("run", "one\ntwo", ()))
    assert texts(told) == ["one", "one\ntwo"]
    assert texts(stream(replied("1/.0:1", "one"), e.RunFinished("run", "one", ()))) == ["one"]


# ------------------------------------------------------------ calls of other agents

CALL = e.StepFinished.of(
    "1/.2:1", "delegation", "ask", Delegation(ToolCall("i", "a2a_other", {"message": "m"}))
)


def started(attempt: int = 1, brings: Sequence[str] = ()) -> e.ToolStarted:
    return e.ToolStarted(
        "1/.2:1.0", attempt, "a2a_other", "a2a:other", {"message": "m"}, "once", True, "ask", brings=brings
    )


def question(**more: Any) -> e.ApprovalRequested:
    item = RemoteItem(message="q", id="i", kind="tool", tool="wipe", arguments={"a": 1})
    asked = ProxyQuestion.about(
        Occasion(id="approval", question="1/.2:1.0^x", key="1/.2:1.0", node="ask"),
        agent="other",
        server="a2a:other",
        task=RemoteTask("task"),
        item=item,
        refusal=None,
        replaces=None,
        mover=None,
        expires=None,
        on_expiry="",
    )
    return e.ApprovalRequested(asked)


def test_a_call_of_an_agent_is_a_subagent() -> None:
    told = stream(CALL, started(), e.ToolFinished("1/.2:1.0", 1, ToolResult("done")), FINISHED)
    [subagent] = of_kind(told, "SUBAGENT_STARTED")
    [call] = of_kind(told, "TOOL_CALL_START")
    assert (subagent["name"], subagent["parentToolCallId"]) == ("other", call["toolCallId"])
    [finished] = of_kind(told, "SUBAGENT_FINISHED")
    assert (finished["result"], finished["outcome"]) == ("done", {"type": "success"})


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (e.ToolFinished("1/.2:1.0", 1, ToolResult("no", is_error=True)), "tool_error"),
        (e.ToolUnknown("1/.2:1.0", 1, "no"), "tool_outcome_unknown"),
    ],
)
def test_an_agent_that_fails_is_an_error_of_the_subagent(end: e.ToolEvent, code: str) -> None:
    [error] = of_kind(stream(CALL, started(), end, FINISHED), "SUBAGENT_ERROR")
    assert (error["message"], error["code"]) == ("no", code)


def test_an_agent_that_asks_is_suspended() -> None:
    need = NeedsDecisions(())
    asks = e.ToolFinished("1/.2:1.0", 1, ToolResult(""), need=need)
    told = stream(CALL, started(), asks, question(), e.RunWaiting("run", ["approval"], [], {}))
    [interrupt] = interrupts(told)
    [suspended] = of_kind(told, "SUBAGENT_FINISHED")
    assert interrupt["subagentRunId"] == suspended["subagentRunId"] == "run:1/.2:1.0"
    assert suspended["outcome"] == {"type": "suspended", "interruptIds": ["approval"]}
    assert (interrupt["reason"], interrupt["toolCallId"]) == ("tool_call", "run:1/.2:1.0")
    assert interrupt["metadata"]["approval"]["path"] == ["other"]
    assert "TOOL_CALL_RESULT" not in kinds(told)
