"""Streams of tasks: a snapshot, then updates, up to the one that ends the stream."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.log.words.events import Entry
from stopgo.gateway.a2a import a2a_routes, task_events, task_server
from stopgo.gateway.http.event_stream import HEARTBEAT

from .talk import GIVEN, SLOW, Talk
from .tongues import OLDER, STREAMING, V03, V03_HTTP, V1, Ask, Told, Tongue

in_every_tongue = pytest.mark.parametrize("tongue", STREAMING, ids=lambda tongue: tongue.name)


def told(items: Sequence[Told]) -> list[str]:
    """In short."""
    return [item.state or item.kind for item in items]


def sum_of(items: Sequence[Told]) -> tuple[str, list[object]]:
    """A client's view after all items: the state, and the parts of the artifacts."""
    parts: dict[str, list[object]] = {}
    for item in items:
        for artifact in item.artifacts:
            before = parts.get(artifact["artifactId"], []) if item.body.get("append") else []
            parts[artifact["artifactId"]] = before + artifact["parts"]
    state = [item.state for item in items if item.state][-1]
    return state, [part for each in parts.values() for part in each]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hi", ["submitted", "working", "artifact-update", "completed"]),
        ("use wipe:a", ["submitted", "working", "working", "input-required"]),
        ("tell", ["submitted", "working", "working", "artifact-update", "artifact-update", "completed"]),
        ("fail", ["submitted", "working", "failed"]),
        ("end failed", ["submitted", "working", "artifact-update", "artifact-update", "failed"]),
    ],
)
@in_every_tongue
async def test_stream_agrees_with_get_and_ends(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue, text: str, expected: list[str]
) -> None:
    items = await talk.all_of(tongue.send(text, stream=True))
    assert told(items) == expected
    assert {(item.id, item.context) for item in items} == {(items[0].id, items[0].id)}
    task = await talk.get(items[0].id, tongue)
    assert sum_of(items) == (task.state, task.given)
    assert items[-1].parts == task.parts
    # Version 1.0 has no such field: there the end of the stream says it.
    assert [item.final for item in items] == [False] * (len(items) - 1) + [tongue.version == "0.3"]


async def test_stream_names_an_approval_while_other_calls_run(talk: Talk, autojump_clock: MockClock) -> None:
    async with talk.stream(V1.send("use wipe:a slow", stream=True)) as items:
        seen = [await anext(items) for _ in range(3)]
        assert told(seen) == ["submitted", "working", "working"]
        [item] = seen[-1].pending
        working = await talk.get(seen[0].id)
        assert (working.state, working.pending) == ("working", [item])
        done = await talk.told(V1.send("yes", task=seen[0].id))  # nobody has to wait for the slow call
        assert done.state == "completed"
        assert [item.state async for item in items][-1] == "completed"


@in_every_tongue
async def test_stream_stays_open_while_a_token_is_missing(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue
) -> None:
    async with talk.stream(tongue.send("use locked", stream=True)) as items:
        seen = [await anext(items) for _ in range(3)]
        assert (seen[-1].state, seen[-1].final) == ("auth-required", False)
        await trio.sleep(10 * HEARTBEAT)
        async with talk.stream(tongue.subscribe(seen[0].id)) as others:
            assert (await anext(others)).state == "auth-required"
            await talk.told(tongue.send("go", task=seen[0].id), Authorization="Bearer good")
            rest = [item async for item in items]
            assert told(rest) == ["working", "artifact-update", "completed"]
            assert [item async for item in others] == rest


@pytest.mark.parametrize("answer", ["yes", "data"])
@in_every_tongue
async def test_streamed_answer_is_followed_to_the_end(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue, answer: str
) -> None:
    task = await talk.waiting("use wipe:a")
    words = {"data": {"id": task.pending[0]["id"], "approved": True}} if answer == "data" else answer
    items = await talk.all_of(tongue.send(words, task=task.id, stream=True))
    # The task after the message: crewai and the runtime of ADK stop, or ask again, at "input-required".
    assert told(items) == ["working", "working", "artifact-update", "completed"]


@in_every_tongue
async def test_streamed_message_without_decision_is_one_item(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue
) -> None:
    task = await talk.waiting("use wipe:a wipe:b")
    [item] = await talk.all_of(tongue.send("why?", task=task.id, stream=True))
    assert (item.state, item.pending) == ("input-required", (await talk.get(task.id, tongue)).pending)
    assert item.text.startswith("The message decides nothing")
    half = await talk.all_of(
        tongue.send({"data": {"id": item.pending[0]["id"], "approved": True}}, task=task.id, stream=True)
    )
    assert told(half) == ["working", "working", "input-required"]
    assert [each["id"] for each in half[0].pending] == [item.pending[1]["id"]]
    assert [each["id"] for each in half[-1].pending] == [item.pending[1]["id"]]


@in_every_tongue
async def test_no_frame_asks_after_all_is_decided(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue
) -> None:
    """Neither in the stream of the message, nor in that of another client, nor in an answer at once."""
    task = await talk.waiting("use wipe:a wipe:b")
    both = {"approvals": [{"id": each["id"], "approved": True} for each in task.pending]}
    seen: list[Told] = []

    async def listen(items: AsyncGenerator[Told, None]) -> None:
        seen.extend([item async for item in items])

    async with talk.stream(tongue.subscribe(task.id)) as others, trio.open_nursery() as nursery:
        assert (await anext(others)).state == "input-required"
        nursery.start_soon(listen, others)
        items = await talk.all_of(tongue.send({"data": both}, task=task.id, stream=True))
    for found in items, seen:
        assert "input-required" not in told(found)
        assert told(found)[-1] == "completed"


@in_every_tongue
async def test_streamed_token_is_not_asked_for_again(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue
) -> None:
    task = await talk.told(tongue.send("use locked"))
    items = await talk.all_of(tongue.send("go", task=task.id, stream=True), Authorization="Bearer good")
    assert told(items) == ["working", "working", "artifact-update", "completed"]


@pytest.mark.parametrize("answer", ["yes", "no"])
@in_every_tongue
async def test_answer_at_once_does_not_ask_again(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue, answer: str
) -> None:
    task = await talk.waiting("first wipe:a then slow")
    told_at_once = await talk.told(tongue.send(answer, task=task.id, wait=False))
    assert (told_at_once.state, told_at_once.pending) == ("working", [])
    assert (await talk.get(task.id, tongue)).state == "working"


async def test_queued_message_is_streamed_to_the_end(talk: Talk, autojump_clock: MockClock) -> None:
    first = await talk.told(V1.send("rest", wait=False))
    items = await talk.all_of(V03.send("hi", context=first.context, stream=True))
    assert told(items) == ["submitted", "working", "artifact-update", "completed"]
    assert items[0].id != first.id


async def test_updates_of_a_continued_task_are_marked(talk: Talk, autojump_clock: MockClock) -> None:
    task = await talk.told(OLDER.send("hi"))
    again = await talk.told(OLDER.send("rest", task=task.id, wait=False))
    assert (again.id, again.state) == (task.id, "submitted")
    continued = await talk.all_of(V03.subscribe(task.id))
    assert told(continued) == ["submitted", "working", "artifact-update", "completed"]
    assert continued[1].metadata == {"continued": True}


@pytest.mark.parametrize("dropped", range(1, 4))
@pytest.mark.parametrize("late", [False, True])
@in_every_tongue
async def test_reconnected_subscriber_misses_nothing(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue, dropped: int, late: bool
) -> None:
    """The client reconnects at once, or after further events."""
    async with talk.stream(tongue.send("first files then slow", stream=True)) as items:
        seen = [await anext(items) for _ in range(dropped)]
    if late:
        await trio.sleep(SLOW / 2)
    again = await talk.all_of(tongue.subscribe(seen[0].id))
    task = await talk.get(seen[0].id, tongue)
    assert sum_of(again) == (task.state, task.given)
    assert len(again) == len({str(item) for item in again})
    assert (task.state, task.given[-1]) == ("completed", {"text": "it says: slept"})


async def test_all_subscribers_get_the_same_items(talk: Talk, autojump_clock: MockClock) -> None:
    got: list[list[Told]] = []

    async def follow(wanted: Ask) -> None:
        got.append(await talk.all_of(wanted))

    async with trio.open_nursery() as nursery:
        task = await talk.told(V1.send("use slow files", wait=False))
        for _ in range(3):
            nursery.start_soon(follow, V1.subscribe(task.id))
    assert got[0] == got[1] == got[2]
    state, parts = sum_of(got[0])
    assert (state, parts[:-1]) == ("completed", GIVEN)


@in_every_tongue
async def test_subscription_to_an_ended_task_is_refused(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue
) -> None:
    task = await talk.told(V1.send("hi"))
    code = -32004
    for id in task.id, "none":
        response = await talk.raw(tongue.subscribe(id))
        if tongue.is_http:
            assert response.status_code == {-32004: 400, -32001: 404}[code]
        else:
            assert response.status_code == 200
            # Version 0.3 knows errors only as events.
            assert response.headers["Content-Type"].startswith("text/" if tongue is V03 else "application/")
            assert f'"code":{code}' in response.text
        code = -32001


@in_every_tongue
async def test_subscriber_of_a_waiting_task_gets_its_answer(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue
) -> None:
    task = await talk.waiting("first wipe:a then wipe:b")
    async with talk.stream(tongue.subscribe(task.id)) as items:
        assert (await anext(items)).pending == task.pending
        await trio.sleep(10 * HEARTBEAT)
        asked = await talk.told(V1.send("yes", task=task.id))
        rest = [item async for item in items]
        assert told(rest) == ["working", "working", "input-required"]
        assert rest[-1].pending == asked.pending != task.pending


async def test_drain_ends_streams(talk: Talk, autojump_clock: MockClock) -> None:
    async with talk.stream(V03_HTTP.send("rest", stream=True)) as items:
        assert (await anext(items)).state == "submitted"
        await trio.sleep(1)
        await talk.agent.drain(0)
        assert told([item async for item in items]) in (["working"], [])


async def test_deleted_conversation_ends_its_streams(
    talk: Talk, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also one that has not begun to follow the events."""

    async def late(*args: Any) -> AsyncGenerator[Entry, None]:
        await trio.sleep(1)
        async for entry in task_events.entries(*args):
            yield entry

    monkeypatch.setattr(task_server, "entries", late)
    task = await talk.told(V1.send("rest", wait=False))
    with caplog.at_level(logging.ERROR):
        async with talk.stream(V1.subscribe(task.id)) as items:
            assert (await anext(items)).id == task.id
            await talk.agent.delete(task.context)
            assert [item async for item in items] == []
    assert not [record for record in caplog.records if record.exc_info]


async def test_stream_counts_before_its_first_item(
    talk: Talk, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(*args: Any, **options: Any) -> Any:
        await trio.sleep(1)
        return await task_events.read_own_tasks(*args, **options)

    monkeypatch.setattr(a2a_routes, "MAX_STREAMS", 2)
    task = await talk.told(V1.send("rest", wait=False))
    monkeypatch.setattr(task_server, "read_own_tasks", slow)
    kinds: list[str] = []

    async def subscribe() -> None:
        async with talk.client.stream(**V1.subscribe(task.id).of_client()) as response:
            kinds.append(response.headers["Content-Type"])
            await trio.sleep(3)

    for _ in range(2):  # the streams before have left their places
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(subscribe)
    assert kinds.count("text/event-stream") == 4


async def test_head_of_a_stream_does_not_wait_for_it(talk: Talk, autojump_clock: MockClock) -> None:
    task = await talk.told(V1.send("rest", wait=False))
    before = trio.current_time()
    response = await talk.client.head(f"/a2a/tasks/{task.id}:subscribe")
    assert response.headers["Content-Type"] == "text/event-stream"
    assert trio.current_time() == before
