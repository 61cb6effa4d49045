"""Concurrent and late answers, and answers to questions that are no longer asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.actors.world import World

from .talk import SLOW, Talk, furnish, talking
from .tongues import DIALECTS, OLDER, V03, V1, V1_HTTP, Ask, Json, Refused, Told, Tongue


def answer(id: str, approved: bool = True) -> Json:
    return {"data": {"id": id, "approved": approved}}


@pytest.mark.repeat(2)
@pytest.mark.parametrize("tongue", DIALECTS, ids=lambda tongue: tongue.name)
@pytest.mark.parametrize("words", [False, True])
async def test_one_of_two_concurrent_answers_wins(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue, words: bool
) -> None:
    task = await talk.waiting("use wipe:a slow")
    [item] = task.pending
    got: dict[bool, Told | Refused] = {}

    async def say(approved: bool) -> None:
        said: Any = answer(item["id"], approved)
        if words:
            said = "yes" if approved else "no"
        got[approved] = await talk.ask(tongue.send(said, task=task.id))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(say, True)
        nursery.start_soon(say, False)
    stored = (await talk.rest.get(f"/approvals/{item['id']}")).json()["approval"]
    won: bool = stored["decision"]["approved"]
    assert talk.world.called("wipe") == won
    winner, loser = got[won], got[not won]
    assert isinstance(winner, Told)
    assert winner.state == "completed"
    assert isinstance(loser, Refused), loser
    assert loser.code == -32004
    assert loser.message.endswith("approved" if won else "rejected") or words


async def test_one_of_concurrent_rest_and_a2a_decisions_wins(talk: Talk, autojump_clock: MockClock) -> None:
    task = await talk.waiting("use wipe:a")
    [item] = task.pending
    codes: dict[str, int] = {}

    async def by_rest() -> None:
        codes["rest"] = (
            await talk.rest.post(f"/approvals/{item['id']}", json={"approved": False})
        ).status_code

    async def by_a2a() -> None:
        told = await talk.ask(V1.send(answer(item["id"]), task=task.id))
        codes["a2a"] = told.code if isinstance(told, Refused) else 0

    async with trio.open_nursery() as nursery:
        nursery.start_soon(by_rest)
        nursery.start_soon(by_a2a)
    assert codes in ({"rest": 200, "a2a": -32004}, {"rest": 409, "a2a": 0})
    assert talk.world.called("wipe") == (codes["a2a"] == 0)


async def settle(talk: Talk, task: Told, how: str) -> None:
    [item] = task.pending
    match how:
        case "answered":
            await talk.rest.post(f"/approvals/{item['id']}", json={"approved": False})
        case "expired":
            await trio.sleep(700)
        case "void":
            await talk.told(V1.cancel(task.id))


@pytest.mark.parametrize(
    ("how", "says", "state"),
    [
        ("answered", "decided before: it was rejected", "completed"),
        ("expired", "expired", "completed"),
        ("void", "void", "canceled"),
    ],
)
@pytest.mark.parametrize("tongue", DIALECTS, ids=lambda tongue: tongue.name)
async def test_late_answer_gets_the_decision(
    tmp_path: Path, autojump_clock: MockClock, tongue: Tongue, how: str, says: str, state: str
) -> None:
    world = furnish(World(tmp_path))
    world.settings["approval"] = {"expires_after": 600}
    async with talking(world) as talk:
        task = await talk.waiting("use wipe:a")
        await settle(talk, task, how)
        before = await talk.conversation(task.id)
        late = await talk.refused(tongue.send(answer(task.pending[0]["id"]), task=task.id))
        assert late.code == -32004
        assert says in late.message
        if tongue is not OLDER:  # there a word begins a run, as any other text
            assert (await talk.refused(tongue.send("yes", task=task.id))).code == -32004
        assert await talk.conversation(task.id) == before
        assert (await talk.get(task.id)).state == state
        assert world.called("wipe") == 0


async def test_word_after_the_decision_starts_no_run(talk: Talk, autojump_clock: MockClock) -> None:
    """While the run that asked goes on."""
    task = await talk.waiting("first wipe:a then slow")
    await talk.told(V1.send("yes", task=task.id, wait=False))
    await trio.sleep(1)
    for tongue in DIALECTS:
        assert (await talk.refused(tongue.send("no", task=task.id))).code == -32004
    await trio.sleep(SLOW)
    assert (await talk.get(task.id)).history == ["first wipe:a then slow"]


@pytest.mark.parametrize("tongue", [V1, V03], ids=lambda tongue: tongue.name)
async def test_ended_task_rejects_answers_to_another_task(
    talk: Talk, autojump_clock: MockClock, tongue: Tongue
) -> None:
    first = await talk.told(V1.send("hi"))
    second = await talk.told(V1.send("use wipe:a", context=first.context))
    [item] = second.pending
    for wanted in answer(item["id"]), "yes":
        assert (await talk.refused(tongue.send(wanted, task=first.id))).code == -32004
    # The older dialect would go on with the first: it is told what has to come before.
    for said in answer(item["id"]), "go on":
        told = await talk.told(OLDER.send(said, task=first.id))
        assert (told.id, told.state) == (second.id, "input-required")
    assert (await talk.get(second.id)).pending == [item]


async def test_repeat_cannot_decide_for_another_task(talk: Talk, autojump_clock: MockClock) -> None:
    """The same key, beside a decision that stands already."""
    ended = await talk.waiting("use wipe:a")
    [old] = ended.pending
    await talk.told(V1.send(answer(old["id"]), task=ended.id), Idempotency_Key="k")
    other = await talk.told(V1.send("use wipe:b", context=ended.context))
    [open_one] = other.pending
    both = V1.send(answer(old["id"]), answer(open_one["id"]), task=ended.id)
    assert (await talk.refused(both, Idempotency_Key="k")).code == -32602
    assert (await talk.get(other.id)).state == "input-required"
    assert talk.world.called("wipe") == 1


async def test_answer_to_another_conversation_is_refused(talk: Talk, autojump_clock: MockClock) -> None:
    first, second = [await talk.waiting("use wipe:a") for _ in range(2)]
    stray = V1.send(answer(second.pending[0]["id"]), task=first.id)
    assert (await talk.refused(stray)).code == -32602
    assert len(await talk.approvals()) == 2


@pytest.mark.parametrize(
    "bad",
    [{"approved": "perhaps"}, {"approved": True, "arguments": {"name": 1}}, {"id": "none", "approved": True}],
)
async def test_one_invalid_answer_refuses_the_whole_list(
    talk: Talk, autojump_clock: MockClock, bad: Json
) -> None:
    task = await talk.waiting("use wipe:a wipe:b")
    first, second = (item["id"] for item in task.pending)
    both = {"approvals": [{"id": first, "approved": True}, {"id": second, **bad}]}
    assert (await talk.refused(V1.send({"data": both}, task=task.id))).code == -32602
    assert await talk.get(task.id) == task


async def test_late_decision_in_a_list_is_refused_before_any_is_made(
    talk: Talk, autojump_clock: MockClock
) -> None:
    task = await talk.waiting("use wipe:a wipe:b")
    first, second = (item["id"] for item in task.pending)
    await talk.told(V1.send(answer(second), task=task.id))
    both = {"approvals": [{"id": first, "approved": True}, {"id": second, "approved": True}]}
    assert (await talk.refused(V1.send({"data": both}, task=task.id))).code == -32004
    assert [item["id"] for item in (await talk.get(task.id)).pending] == [first]


async def test_closed_conversation_refuses_messages(talk: Talk, autojump_clock: MockClock) -> None:
    task = await talk.told(V1.send("hi"))
    await talk.rest.post(f"/conversations/{task.id}/complete")
    assert (await talk.refused(V1.send("ho", context=task.id))).code == -32004
    assert (await talk.refused(OLDER.send("ho", task=task.id))).code == -32004
    await talk.rest.delete(f"/conversations/{task.id}")
    for wanted in V1.get(task.id), V1.cancel(task.id), V1.subscribe(task.id), V1.send("x", task=task.id):
        assert (await talk.refused(wanted)).code == -32001


async def test_message_to_a_full_inbox_is_refused(talk: Talk, autojump_clock: MockClock) -> None:
    task = await talk.told(V1.send("rest", wait=False))
    got: list[Told | Refused] = []

    async def send(wanted: Ask) -> None:
        got.append(await talk.ask(wanted))

    async with trio.open_nursery() as nursery:
        for _ in range(30):
            nursery.start_soon(send, V1.send("hi", context=task.context, wait=False))
    refused = [each for each in got if isinstance(each, Refused)]
    assert {each.code for each in refused} == {-32000}
    assert 10 < len(refused) < 16
    assert (await talk.raw(V1_HTTP.send("hi", context=task.context))).status_code == 429
