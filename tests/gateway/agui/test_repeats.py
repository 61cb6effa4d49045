"""Repeated messages over `POST /agui`: they show the run again and follow it."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.models.messages.messages import TextDelta
from stopgo.gateway.agui.run_input import parse_run_input
from stopgo.gateway.agui.thread_run import AGUICaller, open_thread_run
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from tests.actors.world import Streamed, World, after, call, say, use

from .ui import UI, conversation_of, kinds, of_kind, outcome, shown, texts, without_times


@pytest.mark.parametrize(
    "other", [{"Authorization": "Bearer good"}, {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01"}], ids=list
)
async def test_concurrent_repeats_are_one_run(
    autojump_clock: MockClock, ui: UI, other: dict[str, str]
) -> None:
    body, found = ui.body("t", "hi", id="m"), []

    async def post(headers: dict[str, str]) -> None:
        answer = await ui.client.post("/agui", json=body, headers=headers)
        found.append((answer.status_code, '"agent done"' in answer.text))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(post, {})
        nursery.start_soon(post, other)
    assert found == [(200, True)] * 2
    assert len(ui.world.requests) == 1


async def test_two_texts_at_once_with_one_message_id_are_one_message(
    autojump_clock: MockClock, ui: UI
) -> None:
    found = []

    async def post(text: str) -> None:
        found.append((await ui.client.post("/agui", json=ui.body("t", text, id="m"))).status_code)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(post, "one")
        nursery.start_soon(post, "two")
    assert sorted(found) == [200, 422]


async def test_a_repeat_follows_the_same_run(autojump_clock: MockClock, ui: UI) -> None:
    events = await ui.run("t", "hi", id="m")
    await ui.run("t", "and more")
    again = await ui.run("t", "hi", id="m")
    assert without_times(again) == without_times(events)
    assert len(await ui.said(conversation_of(events))) == 4


async def test_repeat_removes_messages_the_client_already_has(autojump_clock: MockClock, ui: UI) -> None:
    """It would add the same text to the message that it has."""
    events = await ui.run("t", "hi", id="m")
    [message] = of_kind(events, "TEXT_MESSAGE_START")
    mine = [{"id": "m", "role": "user", "content": "hi"}, {"id": "x", "role": "assistant", "content": "ho"}]
    partial = {"id": message["messageId"], "role": "assistant", "content": "ag"}
    second = {"id": f"{message['messageId']}~2", "role": "assistant", "content": "agent done"}
    again = await ui.run("t", messages=[*mine, partial, second])
    assert again[1] == {"type": "MESSAGES_SNAPSHOT", "messages": mine}
    assert texts(again) == ["agent done"]
    assert "MESSAGES_SNAPSHOT" not in kinds(await ui.run("t", messages=mine))


async def test_repeat_follows_live_and_restarted_runs(world: World, autojump_clock: MockClock) -> None:
    world.plan("agent", Streamed((TextDelta("sl"), TextDelta("ow")), say("slow"), pause=15))
    async with shown(world) as ui:
        body = ui.body("t", "hi", id="m")
        async with ui.stream(body) as stream:
            async for event in stream:
                if event["type"] == "TEXT_MESSAGE_CONTENT":
                    break
        late = await ui.run("t", "hi", id="m")
        assert [event["delta"] for event in of_kind(late, "TEXT_MESSAGE_CONTENT")] == ["slow"]
        once_more = await ui.run("t", "hi", id="m")
    async with shown(world) as ui:
        again = await ui.run("t", "hi", id="m")
        assert without_times(again) == without_times(once_more)
        assert len(world.requests) == 1


@pytest.mark.parametrize("traceparent", [None, f"00-{'1' * 32}-{'2' * 16}-01"])
async def test_a_repeat_lends_its_token_to_a_run_of_before_a_restart(
    world: World, autojump_clock: MockClock, traceparent: str | None
) -> None:
    world.plan("agent", use(call("slow")), use(call("locked")), say("Done."))
    async with shown(world) as ui:
        ui.client.headers["traceparent"] = f"00-{'3' * 32}-{'4' * 16}-01"
        with trio.move_on_after(10):
            await ui.run("t", "go", id="m", token="good")
    async with shown(world) as ui:
        if traceparent is not None:
            ui.client.headers["traceparent"] = traceparent
        events = await ui.run("t", "go", id="m", token="good")
        assert (texts(events), outcome(events)) == (["Done."], "success")


async def test_repeat_gives_its_token_to_message_queued_before_restart(
    world: World, autojump_clock: MockClock
) -> None:
    world.plan("agent", after(30, say("first done")), turn=1)
    world.plan("agent", use(call("slow")), use(call("locked")), say("Done."), turn=2)
    async with shown(world) as ui:
        id = (await ui.agent.post_conversation("first")).conversation.id
        with trio.move_on_after(10):
            await ui.run(id, "go", id="m", token="good")
    async with shown(world) as ui:
        assert outcome(await ui.run(id, "go", id="m", token="good")) == "success"


async def test_a_repeat_reads_the_log_once(
    autojump_clock: MockClock, ui: UI, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ui.run("t", "hi", id="m")
    begun, events_since = [], MemoryJournal.events_since

    async def counted(journal: MemoryJournal, stream: str, after: int, limit: int | None = None) -> Any:
        begun.extend([stream] if after == 0 else [])
        return await events_since(journal, stream, after, limit)

    monkeypatch.setattr(MemoryJournal, "events_since", counted)
    assert texts(await ui.run("t", "hi", id="m")) == ["agent done"]
    assert len(begun) == 1


async def test_a_repeat_that_is_cut_off_at_once_is_complete(autojump_clock: MockClock, ui: UI) -> None:
    body = ui.body("t", "hi", id="m")
    async with ui.stream(body) as stream:
        events = [event async for event in stream]
    run = await open_thread_run(ui.agent, parse_run_input(body), AGUICaller(session_id="s"))
    async with aclosing(run.frames()) as frames:
        sent = await anext(frames) + run.last_chunk()
    again = [json.loads(line.removeprefix(b"data: ")) for line in sent.splitlines() if line]
    assert without_times(again) == without_times(events)


async def test_a_message_id_that_comes_with_another_text_is_refused(
    autojump_clock: MockClock, ui: UI
) -> None:
    await ui.run("t", "hi", id="m")
    assert await ui.refused(ui.body("t", "ho", id="m")) == (422, "idempotency_key_reused")
