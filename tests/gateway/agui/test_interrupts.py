"""Interrupts over `POST /agui`: their reasons, and their answers by `resume`."""

from __future__ import annotations

from typing import Any

import attrs
import httpx2
import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.common.errors import AgentError
from stopgo.actors.log.words.events import ApprovalVoid, RunFinished, RunResumed
from stopgo.actors.models.messages.messages import Usage
from stopgo.actors.tools.tool import Elicitation, ToolInputRequired, ToolOutcomeUnknown, ToolResult
from stopgo.gateway.contract import examples as ex
from tests.actors.world import IDEMPOTENT, World, call, say, use
from tests.gateway.conftest import FakeAgent

from .ui import (
    UI,
    approve,
    cancel,
    conversation_of,
    interrupts,
    kinds,
    of_kind,
    outcome,
    reject,
    resolve,
    results,
    shown,
    texts,
    without_times,
)
from .verifier import Json


async def asked(ui: UI, *names: str, thread: str = "t") -> list[Json]:
    """The interrupts of a message whose reply wipes these."""
    ui.world.plan("agent", use(*(call("wipe", name=name) for name in names)), say("Done."), turn=1)
    return interrupts(await ui.run(thread, "wipe"))


async def test_a_resumed_run_counts_its_own_usage(autojump_clock: MockClock, ui: UI) -> None:
    asks = attrs.evolve(use(call("wipe")), usage=Usage(3, 2))
    ui.world.plan("agent", asks, say("Done.", usage=Usage(5, 1)))
    events = await ui.run("t", "wipe")
    assert events[-1]["usage"][0]["totalTokens"] == 5
    resumed = await ui.answer("t", approve(interrupts(events)[0]))
    assert resumed[-1]["usage"][0]["totalTokens"] == 6


async def test_a_call_that_asks_is_an_interrupt(autojump_clock: MockClock, ui: UI) -> None:
    ui.world.plan("agent", use(call("wipe", name="x"), text="I wipe."), say("Done."))
    events = await ui.run("t", "wipe")
    [interrupt] = interrupts(events)
    [started] = of_kind(events, "TOOL_CALL_START")
    approval = interrupt["metadata"]["approval"]
    assert interrupt["reason"] == "tool_call"
    assert interrupt["toolCallId"] == started["toolCallId"]
    assert interrupt["id"] == approval["uuid"]
    assert interrupt["message"] == approval["description"]
    assert (approval["tool_name"], approval["tool_args"]) == ("wipe", {"name": "x"})
    schema = interrupt["responseSchema"]
    assert schema["required"] == ["approved"]
    assert schema["properties"]["editedArgs"] == ui.world.tools["wipe"][0].input_schema
    assert kinds(events)[-2:] == ["STEP_FINISHED", "RUN_FINISHED"]
    assert results(events) == []

    resumed = await ui.answer("t", approve(interrupt, editedArgs={"name": "y"}))
    assert ui.world.ledger == [("wipe", {"name": "y"})]
    [result] = of_kind(resumed, "TOOL_CALL_RESULT")
    assert result["toolCallId"] == started["toolCallId"]
    assert result["metadata"] == {"is_error": False, "arguments": {"name": "y"}}
    assert of_kind(resumed, "TOOL_CALL_START") == []
    assert (texts(resumed), outcome(resumed)) == (["Done."], "success")


@pytest.mark.parametrize(
    ("entry", "result"),
    [
        (lambda asked: approve(asked), "wipe ok"),
        (lambda asked: resolve(asked, True), "wipe ok"),
        (lambda asked: approve(asked, unknown=1), "wipe ok"),
        (
            lambda asked: reject(asked, reason="too late"),
            "Operation rejected by the user. Nothing was done. Reason: too late",
        ),
        (
            lambda asked: resolve(asked, {"action": "respond", "result": "use b"}),
            "A person answered in place of the call. Nothing was done. The answer: use b",
        ),
        (lambda asked: cancel(asked), "Operation rejected by the user. Nothing was done."),
    ],
    ids=["approved", "true", "with an unknown field", "rejected", "answered", "cancelled"],
)
async def test_an_answer_decides(autojump_clock: MockClock, ui: UI, entry: Any, result: str) -> None:
    [interrupt] = await asked(ui, "x")
    events = await ui.answer("t", entry(interrupt))
    assert results(events) == [result]
    assert outcome(events) == "success"


async def test_two_at_once_are_answered_together(autojump_clock: MockClock, ui: UI) -> None:
    first, second = await asked(ui, "x", "y")
    events = await ui.answer("t", approve(first), reject(second))
    assert results(events)[0] != results(events)[1]
    assert ui.world.ledger == [("wipe", {"name": "x"})]
    assert outcome(events) == "success"


async def test_resume_keeps_unnamed_interrupts_open(autojump_clock: MockClock, ui: UI) -> None:
    first, second = await asked(ui, "x", "y")
    events = await ui.answer("t", approve(second))
    assert results(events) == ["wipe ok"]
    assert [each["id"] for each in interrupts(events)] == [first["id"]]
    assert outcome(await ui.answer("t", approve(first))) == "success"


async def test_a_resume_may_be_repeated(autojump_clock: MockClock, ui: UI) -> None:
    entries = [approve(each) for each in await asked(ui, "x", "y")]
    events = await ui.answer("t", *entries)
    again = await ui.answer("t", *entries)
    assert without_times(again) == without_times(events)
    contrary = await ui.answer("t", *[{**entry, "status": "cancelled"} for entry in entries])
    assert without_times(contrary) == without_times(events)
    assert ui.world.called("wipe") == 2


async def test_repeated_message_ends_with_open_interrupts(autojump_clock: MockClock, ui: UI) -> None:
    ui.world.plan("agent", use(call("wipe", name="x")), say("Done."))
    events = await ui.run("t", "wipe", id="m")
    again = await ui.run("t", "wipe", id="m")
    assert without_times(again) == without_times(events)
    await ui.answer("t", approve(interrupts(events)[0]))
    whole = await ui.run("t", "wipe", id="m")
    assert (results(whole), texts(whole), outcome(whole)) == (["wipe ok"], ["Done."], "success")


async def test_what_was_decided_elsewhere_is_no_error(autojump_clock: MockClock, ui: UI) -> None:
    first, second = await asked(ui, "x", "y")
    await ui.client.post(
        f"/approvals/{first['id']}", json={"approved": True}, headers={"Prefer": "respond-async"}
    )
    events = await ui.answer("t", reject(first), reject(second))
    assert ui.world.ledger == [("wipe", {"name": "x"})]
    assert results(events) == ["wipe ok", "Operation rejected by the user. Nothing was done."]
    again = await ui.answer("t", reject(first), reject(second))
    assert without_times(again) == without_times(events)


@pytest.mark.parametrize("code", ["already_decided", "expired", "void"])
async def test_what_ends_at_the_same_moment_is_no_error(
    agent: FakeAgent, client: httpx2.AsyncClient, code: Any
) -> None:
    agent.raises["post_decision"] = AgentError(code, "too late")
    interrupt = {"interruptId": ex.APPROVAL_ID, "status": "resolved", "payload": {"approved": True}}
    body = {"threadId": ex.CONVERSATION_ID, "runId": "r", "resume": [interrupt]}
    async with client.stream("POST", "/agui", json=body) as response:
        lines = response.aiter_lines()
        assert "RUN_STARTED" in await anext(lines)
        agent.grow(ApprovalVoid(ex.APPROVAL_ID, "why"))
        agent.grow(RunResumed(ex.RUN_ID, "c2", False, answer=False))
        agent.grow(RunFinished(ex.RUN_ID, "all done", ()))
        told = [line async for line in lines if line]
    assert '"all done"' in told[-1]


async def test_two_people_answer_at_once(autojump_clock: MockClock, ui: UI) -> None:
    [interrupt] = await asked(ui, "x")
    found: list[Any] = []

    async def answer(entry: Json) -> None:
        found.append(await ui.answer("t", entry))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer, approve(interrupt))
        nursery.start_soon(answer, reject(interrupt))
    assert results(found[0]) == results(found[1])
    assert [outcome(events) for events in found] == ["success", "success"]


async def test_what_expired_is_no_error(world: World, autojump_clock: MockClock) -> None:
    world.settings["approval"] = {"expires_after": 60}
    async with shown(world) as ui:
        [interrupt] = await asked(ui, "x")
        assert interrupt["expiresAt"].endswith("Z")
        await trio.sleep(61)
        events = await ui.answer("t", approve(interrupt))
        assert ui.world.ledger == []
        [result] = results(events)
        assert "in time" in result
        assert outcome(events) == "success"


async def test_what_is_void_is_no_error(autojump_clock: MockClock, ui: UI) -> None:
    ui.world.plan("agent", use(call("wipe", name="x")), say("Done."))
    events = await ui.run("t", "wipe")
    await ui.client.post(f"/conversations/{conversation_of(events)}/cancel")
    assert outcome(await ui.answer("t", approve(interrupts(events)[0]))) == "cancelled"


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        ({"approved": True, "editedArgs": {"nam": 1}}, "invalid_arguments"),
        ({"approved": True, "editedArgs": 1}, "invalid_arguments"),
        ({}, "decision_required"),
        (None, "decision_required"),
        ({"approved": "perhaps"}, "decision_required"),
        ({"approved": True, "result": "use b"}, "unknown_field"),
    ],
)
async def test_refused_answer_is_reported_with_its_interrupt(
    autojump_clock: MockClock, ui: UI, payload: Any, code: str
) -> None:
    first, second = await asked(ui, "x", "y")
    events = await ui.answer("t", resolve(first, payload), approve(second))
    [again] = interrupts(events)
    assert again["id"] == first["id"]
    assert again["metadata"]["error"]["code"] == code
    assert again["message"].startswith(again["metadata"]["error"]["message"])
    assert results(events) == ["wipe ok"]
    assert outcome(await ui.answer("t", approve(again))) == "success"


async def test_a_message_does_not_pass_open_interrupts(autojump_clock: MockClock, ui: UI) -> None:
    [interrupt] = await asked(ui, "x")
    events = await ui.run("t", "never mind", id="m")
    assert interrupts(events) == [interrupt]
    assert "TEXT_MESSAGE_START" not in kinds(events)
    assert "never mind" not in str(await ui.said(conversation_of(events)))
    await ui.answer("t", approve(interrupt))
    assert texts(await ui.run("t", "never mind", id="m")) == ["agent done"]


async def test_message_while_a_branch_asks_is_refused_at_once(
    world: World, autojump_clock: MockClock
) -> None:
    branches = [{"type": "llm", "name": name, "prompt": "p"} for name in ("left", "right")]
    world.settings["agent"] = {"type": "parallel", "name": "both", "agents": branches}
    world.settings["approval"] = {"in_parallel": "ask"}
    world.plan("left", use(call("wipe")))
    world.plan("right", use(call("slow")))
    async with shown(world) as ui, ui.stream(ui.body("t", "hi")) as stream:
        await anext(stream)
        await trio.sleep(1)
        began = trio.current_time()
        assert len(interrupts(await ui.run("t", "and more"))) == 1
        assert trio.current_time() < began + 5
        assert len(interrupts([event async for event in stream])) == 1


@pytest.mark.parametrize("how", ["the message again", "the interrupt", "another message"])
async def test_a_token_moves_a_run_on(autojump_clock: MockClock, ui: UI, how: str) -> None:
    ui.world.plan("agent", use(call("locked")), say("Open."), turn=1)
    events = await ui.run("t", "open", id="m")
    [interrupt] = interrupts(events)
    assert interrupt["reason"] == "stopgo:auth_required"
    assert interrupt["metadata"]["auth"]["server"] == "remote"
    assert interrupts(await ui.run("t", "open", id="m"))[0]["id"] == interrupt["id"]
    assert interrupts(await ui.answer("t", resolve(interrupt, None)))[0]["id"] == interrupt["id"]
    [another] = interrupts(await ui.answer("t", resolve(interrupt, None), token="bad"))
    assert another["id"] != interrupt["id"]
    match how:
        case "the message again":
            events = await ui.run("t", "open", id="m", token="good")
            assert (results(events), texts(events)) == (["open"], ["Open."])
        case "the interrupt":
            events = await ui.answer("t", resolve(another, None), token="good")
            assert (results(events), texts(events)) == (["open"], ["Open."])
            again = await ui.answer("t", resolve(another, None), token="good")
            assert without_times(again) == without_times(events)
        case _:
            events = await ui.run("t", "and more", token="good")
            assert texts(events) == ["agent done"]
    assert outcome(events) == "success"
    assert (await ui.said(conversation_of(events)))[1:3] == [("tool", "open"), ("assistant", "Open.")]


async def test_a_run_that_needs_a_token_can_be_cancelled(autojump_clock: MockClock, ui: UI) -> None:
    ui.world.plan("agent", use(call("locked")), say("Open."))
    [interrupt] = interrupts(await ui.run("t", "open"))
    assert outcome(await ui.answer("t", cancel(interrupt))) == "cancelled"


async def test_a_checkpoint_is_a_confirmation(world: World, autojump_clock: MockClock) -> None:
    world.settings["agent"] = {
        "type": "sequential",
        "name": "all",
        "agents": [
            {"type": "approval", "name": "check", "message": "Go on?"},
            {"type": "llm", "name": "last", "prompt": "p"},
        ],
    }
    async with shown(world) as ui:
        [interrupt] = interrupts(await ui.run("t", "hi"))
        assert (interrupt["reason"], interrupt["message"]) == ("confirmation", "Go on?")
        assert "toolCallId" not in interrupt
        assert "editedArgs" not in interrupt["responseSchema"]["properties"]
        assert texts(await ui.answer("t", resolve(interrupt, True))) == ["last done"]
        [interrupt] = interrupts(await ui.run("t", "again"))
        events = await ui.answer("t", cancel(interrupt))
        assert outcome(events) == "success"
        assert texts(events) == [(await ui.said(conversation_of(events)))[-1][1]]
        assert events[-1]["result"].startswith("Operation cancelled by user.")


FORM = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}


@pytest.mark.parametrize(
    ("entry", "result"),
    [
        (lambda asked: resolve(asked, {"size": 3}), "size 3"),
        (lambda asked: cancel(asked), "The user cancelled"),
    ],
    ids=["accepted", "cancelled"],
)
async def test_a_question_of_a_server_wants_input(
    world: World, autojump_clock: MockClock, entry: Any, result: str
) -> None:
    async def ask(_: Any) -> ToolResult:
        raise ToolInputRequired({"q": Elicitation("How big?", FORM)}, state="s")

    world.tool("look", IDEMPOTENT, ask)
    world.plan("agent", use(call("look")), say("Done."))
    async with shown(world) as ui:
        events = await ui.run("t", "look")
        [interrupt] = interrupts(events)
        assert interrupt["reason"] == "input_required"
        assert interrupt["responseSchema"] == FORM
        [wrong] = interrupts(await ui.answer("t", resolve(interrupt, {"size": "big"})))
        assert wrong["metadata"]["error"]["code"] == "invalid_arguments"

        async def answered(_: Any) -> str:
            return "size 3"

        world.tools["look"] = (world.tools["look"][0], answered)
        events = await ui.answer("t", entry(interrupt))
        assert outcome(events) == "success"
        [found] = results(events)
        assert found.startswith(result) or result != "size 3"


async def test_unknown_outcome_is_an_interrupt(world: World, autojump_clock: MockClock) -> None:
    async def lost(_: Any) -> str:
        raise ToolOutcomeUnknown("the connection was lost")

    world.tool("wipe", world.tools["wipe"][0].hints, lost)
    world.plan("agent", use(call("wipe")), say("Done."))
    async with shown(world) as ui:
        [interrupt] = interrupts(await ui.run("t", "wipe"))
        [interrupt] = interrupts(await ui.answer("t", approve(interrupt)))
        assert interrupt["reason"] == "stopgo:outcome_unknown"
        assert interrupts(await ui.answer("t", cancel(interrupt)))[0]["id"] == interrupt["id"]
        events = await ui.answer("t", resolve(interrupt, {"action": "done", "result": "wiped"}))
        assert (results(events), outcome(events)) == (["wiped"], "success")


async def test_branches_that_ask_are_suspended(world: World, autojump_clock: MockClock) -> None:
    branches = [{"type": "llm", "name": name, "prompt": "p"} for name in ("left", "right")]
    world.settings["agent"] = {"type": "parallel", "name": "both", "agents": branches}
    world.settings["approval"] = {"in_parallel": "ask"}
    for name in ("left", "right"):
        world.plan(name, use(call("wipe", name=name)), say(f"{name} did"))
    async with shown(world) as ui:
        events = await ui.run("t", "hi")
        by_id = {each["id"]: each["subagentRunId"] for each in interrupts(events)}
        suspended = {
            event["outcome"]["interruptIds"][0]: event["subagentRunId"]
            for event in of_kind(events, "SUBAGENT_FINISHED")
        }
        assert suspended == by_id
        assert len(set(by_id.values())) == 2
        events = await ui.answer("t", *map(approve, interrupts(events)))
        assert {event["subagentRunId"] for event in of_kind(events, "SUBAGENT_STARTED")} == set(
            by_id.values()
        )
        assert texts(events)[-1] == "left did\nright did"


async def test_a_resume_after_a_restart(world: World, autojump_clock: MockClock) -> None:
    async with shown(world) as ui:
        [interrupt] = await asked(ui, "x")
    async with shown(world) as ui:
        events = await ui.answer("t", approve(interrupt))
        assert (results(events), texts(events)) == (["wipe ok"], ["Done."])
    async with shown(world) as ui:
        assert without_times(await ui.answer("t", approve(interrupt))) == without_times(events)


async def test_resume_of_a_foreign_interrupt_is_refused(autojump_clock: MockClock, ui: UI) -> None:
    [foreign] = await asked(ui, "x", thread="u")
    [interrupt] = await asked(ui, "x")
    assert await ui.refused(ui.body("none", resume=[approve(interrupt)])) == (404, "conversation_not_found")
    wrong = ui.body("t", resume=[approve(interrupt), approve(foreign)])
    assert await ui.refused(wrong) == (404, "approval_not_found")
    assert ui.world.ledger == []
    assert (await ui.get(f"/approvals/{foreign['id']}"))["approval"]["state"] == "pending"
