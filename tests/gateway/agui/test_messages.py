"""Messages over `POST /agui`: threads, repeats, streamed events, and the end of a stream."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.models.messages.messages import ModelFailed, TextDelta, Usage
from stopgo.runtime.journal.protocol import Commit, NewEvent
from tests.actors.world import Streamed, World, after, call, once, say, use
from tests.actors.world import events as events_of
from tests.runtime.journal.kept import claimed

from .ui import UI, conversation_of, kinds, of_kind, outcome, results, shown, texts
from .verifier import check_stream


async def test_a_message_is_answered_by_streamed_text(autojump_clock: MockClock, ui: UI) -> None:
    ui.world.plan("agent", Streamed((TextDelta("Hel"), TextDelta("lo")), say("Hello", usage=Usage(3, 2))))
    events = await ui.run("t", "hi", tools=[{"name": "x"}], state={"a": 1}, unknown=True)
    assert kinds(events) == [
        "RUN_STARTED",
        "STATE_SNAPSHOT",
        "STEP_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "STEP_FINISHED",
        "RUN_FINISHED",
    ]
    assert events[0]["protocolVersion"] == "1.0"
    assert [event["delta"] for event in of_kind(events, "TEXT_MESSAGE_CONTENT")] == ["Hel", "lo"]
    assert events[-1]["result"] == "Hello"
    assert events[-1]["outcome"] == {"type": "success"}
    [usage] = events[-1]["usage"]
    assert (usage["inputTokens"], usage["outputTokens"], usage["totalTokens"]) == (3, 2, 5)
    assert (usage["provider"], usage["model"]) == ("test", "model")
    assert await ui.said(conversation_of(events)) == [("user", "hi"), ("assistant", "Hello")]


@pytest.mark.parametrize(
    ("attempts", "said"),
    [
        ([Streamed((TextDelta("Hel"),), say("Hello"))], ["Hel", "lo"]),
        ([say("Hello")], ["Hello"]),
        (
            [Streamed((TextDelta("By"),), ModelFailed("no", retryable=True)), say("Hello")],
            ["By", "Hello"],
        ),
        (
            [
                Streamed((TextDelta("By"),), ModelFailed("no", retryable=True)),
                Streamed((TextDelta("Hel"), TextDelta("lo")), say("Hello")),
            ],
            ["By", "Hel", "lo"],
        ),
        ([Streamed((TextDelta("Jello"),), say("Hello"))], ["Jello", "Hello"]),
    ],
    ids=[
        "pieces lost at the end",
        "no pieces",
        "a retry",
        "a retry with pieces",
        "pieces lost in the middle",
    ],
)
async def test_the_recorded_text_counts(
    autojump_clock: MockClock, ui: UI, attempts: Any, said: list[str]
) -> None:
    ui.world.models["model"] = ui.world.models["test:model"] = attempts
    events = await ui.run("t", "hi")
    assert [event["delta"] for event in of_kind(events, "TEXT_MESSAGE_CONTENT")] == said
    assert texts(events) == ["Hello"]


async def test_a_thread_is_a_conversation_or_makes_one(autojump_clock: MockClock, ui: UI) -> None:
    first = await ui.run("my thread", "one")
    second = await ui.run("my thread", "two")
    id = conversation_of(first)
    assert conversation_of(second) == id != "my thread"
    third = await ui.run(id, "three")
    assert conversation_of(third) == id
    assert [text for role, text in await ui.said(id) if role == "user"] == ["one", "two", "three"]
    assert len((await ui.get("/conversations"))["conversations"]) == 1


async def test_two_first_messages_at_once_make_one_conversation(autojump_clock: MockClock, ui: UI) -> None:
    found: list[Any] = []

    async def run(said: str) -> None:
        found.append(await ui.run("t", said, session=said))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, "one")
        nursery.start_soon(run, "two")
    assert len({conversation_of(events) for events in found}) == 1
    assert [texts(events) for events in found] == [["agent done"]] * 2
    assert len(await ui.said(conversation_of(found[0]))) == 4


async def test_the_session_is_stored_and_comes_back(autojump_clock: MockClock, ui: UI) -> None:
    answer = await ui.client.post("/agui", json=ui.body("t", "hi"), headers={"X-Session-ID": "mine"})
    assert answer.headers["X-Session-ID"] == "mine"
    again = await ui.client.post("/agui", json=ui.body("t", "hi"), headers={"X-Session-ID": "other"})
    assert again.headers["X-Session-ID"] == "mine"
    other = await ui.client.post("/agui", json=ui.body("u", "hi"))
    assert other.headers["X-Session-ID"] not in ("mine", "other")


async def test_a_message_waits_behind_the_run_before(autojump_clock: MockClock, ui: UI) -> None:
    gate = trio.Event()
    ui.world.plan("agent", once(gate, say("first done")), turn=1)
    ui.world.plan("agent", say("second done"), turn=2)
    begun = await ui.agent.post_conversation("first")
    id = begun.conversation.id
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def second() -> None:
            events = await ui.run(id, "second", id="m")
            assert texts(events) == ["second done"]

        @nursery.start_soon
        async def repeated() -> None:
            await trio.sleep(1)
            events = await ui.run(id, "second", id="m")
            assert texts(events) == ["second done"]

        await trio.sleep(5)
        gate.set()
    assert [text for role, text in await ui.said(id) if role == "user"] == ["first", "second"]


async def test_a_failed_run_is_an_error_with_its_code(autojump_clock: MockClock, ui: UI) -> None:
    ui.world.plan("agent", Streamed((TextDelta("we"),), ModelFailed("no model today")))
    events = await ui.run("t", "hi")
    assert outcome(events) == "error model_error"
    assert events[-1]["message"] == "LLM error: no model today"
    assert texts(events) == []


async def test_cancelled_run_has_outcome_cancelled(autojump_clock: MockClock, ui: UI) -> None:
    ui.world.plan("agent", use(call("slow")))
    async with ui.stream(ui.body("t", "hi")) as stream:
        events = [await anext(stream)]
        await trio.sleep(1)
        await ui.client.post(f"/conversations/{conversation_of(events)}/cancel")
        events += [event async for event in stream]
    check_stream(events)
    assert outcome(events) == "cancelled"


async def test_calls_come_with_arguments_and_results(autojump_clock: MockClock, ui: UI) -> None:
    ui.world.plan("agent", use(call("look", name="x"), call("look", name="y"), text="I look."), say("Done."))
    events = await ui.run("t", "hi")
    starts = of_kind(events, "TOOL_CALL_START")
    assert [start["toolCallName"] for start in starts] == ["look", "look"]
    [message, _] = of_kind(events, "TEXT_MESSAGE_START")
    assert {start["parentMessageId"] for start in starts} == {message["messageId"]}
    assert [event["delta"] for event in of_kind(events, "TOOL_CALL_ARGS")] == [
        '{"name": "x"}',
        '{"name": "y"}',
    ]
    assert results(events) == ["seen", "seen"]
    assert texts(events) == ["I look.", "Done."]


async def test_stream_ends_with_error_when_conversation_deleted(autojump_clock: MockClock, ui: UI) -> None:
    ui.world.plan("agent", after(30, say("late")))
    async with ui.stream(ui.body("t", "hi")) as stream:
        events = [await anext(stream)]
        await trio.sleep(1)
        await ui.client.delete(f"/conversations/{conversation_of(events)}")
        events += [event async for event in stream]
    check_stream(events)
    assert outcome(events) in ("error conversation_not_found", "cancelled")


async def test_stream_ends_with_error_when_message_refused_later(
    world: World, autojump_clock: MockClock
) -> None:
    async with shown(world) as ui:
        id = conversation_of(await ui.run("t", "hi"))
    fence = await claimed(world.journal, id)
    # The status of the conversation, which a message is checked against first, stays as it is.
    last = (await events_of(world.journal, id))[-1].seq
    await world.journal.save(Commit(fence, last, [NewEvent("conversation.completed", {})]))
    async with shown(world) as ui:
        with trio.fail_after(60):
            events = await ui.run("t", "more")
    assert outcome(events) == "error internal_error"
    assert events[-1]["message"].startswith("the message has not been processed; repeat the request")


async def test_a_message_that_waits_long_is_not_taken_for_a_refused_one(
    world: World, autojump_clock: MockClock
) -> None:
    world.plan("agent", after(100, say("first done")), turn=1)
    world.plan("agent", say("second done"), turn=2)
    async with shown(world) as ui:
        begun = await ui.agent.post_conversation("first")
        assert texts(await ui.run(begun.conversation.id, "second")) == ["second done"]


async def test_a_stream_ends_with_an_error_when_the_server_stops(
    world: World, autojump_clock: MockClock
) -> None:
    world.plan("agent", after(30, say("late")))
    async with shown(world) as ui, ui.stream(ui.body("t", "hi")) as stream:
        events = [await anext(stream), await anext(stream)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ui.agent.drain, 5)
            events += [event async for event in stream]
        check_stream(events)
        assert outcome(events) == "error shutting_down"


async def test_completed_conversation_rejects_messages(autojump_clock: MockClock, ui: UI) -> None:
    events = await ui.run("t", "hi")
    await ui.client.post(f"/conversations/{conversation_of(events)}/complete")
    assert await ui.refused(ui.body("t", "more")) == (409, "conversation_completed")


async def test_the_tree_is_steps_subagents_and_state(world: World, autojump_clock: MockClock) -> None:
    branches = [
        {"type": "llm", "name": name, "prompt": "p", "output_key": f"of_{name}"} for name in ("left", "right")
    ]
    world.settings["agent"] = {
        "type": "sequential",
        "name": "all",
        "agents": [
            {"type": "parallel", "name": "both", "agents": branches},
            {"type": "llm", "name": "last", "prompt": "p"},
        ],
    }
    async with shown(world) as ui:
        events = await ui.run("t", "hi")
    assert {event["stepName"] for event in of_kind(events, "STEP_STARTED")} == {
        "all",
        "both",
        "left",
        "right",
        "last",
    }
    subagents = {event["name"]: event["subagentRunId"] for event in of_kind(events, "SUBAGENT_STARTED")}
    assert subagents.keys() == {"left", "right"}
    by_owner = {event["name"]: event.get("subagentRunId") for event in of_kind(events, "TEXT_MESSAGE_START")}
    assert by_owner == {**subagents, "last": None}
    assert {event["result"] for event in of_kind(events, "SUBAGENT_FINISHED")} == {"left done", "right done"}
    state = {}
    for event in of_kind(events, "STATE_DELTA"):
        for operation in event["delta"]:
            state[operation["path"]] = operation["value"]
    assert state == {"/of_left": "left done", "/of_right": "right done"}
