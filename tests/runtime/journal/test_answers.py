"""The contract: replies, refusals and deletions can be read by key on every node, and a write whose answer
was lost can be made again."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stopgo.runtime.journal.errors import Fenced, JournalError, UnknownCommand, UnknownStream
from stopgo.runtime.journal.ownership import Fence
from stopgo.runtime.journal.protocol import (
    Accepted,
    Commit,
    KeyReused,
    NewCommand,
    NewEvent,
    NewIntent,
    Repeated,
    Saved,
    SettleIntent,
)
from stopgo.runtime.journal.question import MOST_DUE, NewQuestion, Won
from stopgo.runtime.journal.summary import Summary
from stopgo.runtime.journal.vote import Vote, Voted
from tests.runtime.journal.conftest import Nodes
from tests.runtime.journal.kept import claimed, intents_of, question_of, row_of
from tests.runtime.journal.test_ownership import begun

# ------------------------------------------------------------------------- answers


async def test_answers_are_read_on_the_other_node(nodes: Nodes) -> None:
    fence = await begun(nodes.a)
    for key in ("early", "late", "refused"):
        await nodes.b.deliver(NewCommand("s", key, "message", {}))
        assert await nodes.b.answer("s", key) is None
    await nodes.a.save(Commit(fence, 1, replies={"early": {"result": 1}}))
    await nodes.a.save(Commit(fence, 1, ack=["late"]))
    assert await nodes.b.answer("s", "late") is None
    await nodes.a.save(Commit(fence, 1, replies={"late": {"result": 2}, "early": {"result": 3}}))
    await nodes.a.save(Commit(fence, 1, refuse={"refused": {"error": {}}}))
    answers = [await nodes.b.answer("s", key) for key in ("early", "late", "refused")]
    assert answers == [{"result": 1}, {"result": 2}, {"error": {}}]
    assert await nodes.b.deliver(NewCommand("s", "early", "message", {})) == Repeated({"result": 1})
    assert await nodes.b.deliver(NewCommand("s", "early", "message", {"n": 1})) == KeyReused()
    assert await nodes.b.deliver(NewCommand("s", "refused", "message", {"n": 1})) == Accepted()


async def test_there_is_no_answer_without_command_or_stream(nodes: Nodes) -> None:
    fence = await begun(nodes.a)
    with pytest.raises(UnknownCommand):
        await nodes.b.answer("s", "nobody")
    await nodes.a.delete(fence)
    with pytest.raises(UnknownStream):
        await nodes.b.answer("s", "first")
    await nodes.b.deliver(NewCommand("s", "again", "create", {}, new=True))
    with pytest.raises(UnknownCommand):
        await nodes.a.answer("s", "first")


async def test_deletion_is_seen_on_the_other_node(nodes: Nodes) -> None:
    fence = await begun(nodes.a)
    assert await nodes.b.row("s") is not None
    await nodes.a.delete(fence)
    assert await nodes.b.row("s") is None
    assert await nodes.b.events_since("s", 0) == ()


async def test_due_questions_are_those_of_the_stores_clock(nodes: Nodes) -> None:
    fence, now = await begun(nodes.a), nodes.wall.now
    late = MOST_DUE + 10
    questions = [NewQuestion(f"q{number}", "tool", {}, expires=now + 5) for number in range(late)]
    await nodes.a.save(
        Commit(fence, 1, questions=[*questions, NewQuestion("last", "tool", {}, expires=now + 9)])
    )
    for node in (nodes.a, nodes.b):
        page = await node.due()
        assert (page.questions, page.next_in) == ((), 5.0)
    nodes.wall.now += 5
    first = await nodes.b.due()
    assert first.next_in == 4.0
    nodes.wall.now += 4
    second = await nodes.a.due(first.questions[-1])
    assert second.next_in == math.inf
    ids = [each.id for each in (*first.questions, *second.questions)]
    assert ids == [*[each.id for each in questions], "last"]


STRANGE = {
    "nul": "a\0b",
    "surrogate": "\ud800",
    "number": 10**40,
    "float": 1e308,
    "small": 5e-324,
    "deep": {"a": [[[{}]]]},
    "\0\udfff": "key",
}


NAMES = ["a\0b", "\0", "é" * 200, "\U0001f6d1\uffff", " "]


@pytest.mark.parametrize("name", NAMES)
async def test_strange_values_pass_unchanged(nodes: Nodes, name: str) -> None:
    fence = await begun(nodes.a, name)
    await nodes.a.deliver(NewCommand(name, name, name, STRANGE))
    [command] = await nodes.b.inbox(name)
    assert (command.stream, command.key, command.kind, command.body) == (name, name, name, STRANGE)
    assert await nodes.b.deliver(NewCommand(name, name, name, STRANGE)) == Repeated(None)
    summary = Summary(name, "a\0b\ud800", False, STRANGE, owner=name)
    await nodes.a.save(
        Commit(
            fence,
            1,
            [NewEvent(name, STRANGE)],
            questions=[NewQuestion(name, name, STRANGE)],
            intents=[NewIntent(name, 1, "once", STRANGE)],
            replies={name: STRANGE},
            summary=summary,
        )
    )
    [event] = await nodes.b.events_since(name, 1)
    assert (event.type, event.body) == (name, STRANGE)
    assert [each.body for each in await intents_of(nodes.b, name)] == [STRANGE]
    assert await nodes.b.answer(name, name) == STRANGE
    assert (await row_of(nodes.b, name)).summary == summary
    assert isinstance(await nodes.b.decide(name, STRANGE, "d"), Won)
    question = await question_of(nodes.a, name)
    assert (question.kind, question.body, question.decision) == (name, STRANGE, STRANGE)
    await nodes.a.save(Commit(fence, 2, refuse={name: STRANGE}))
    assert await nodes.b.answer(name, name) == STRANGE


# ---------------------------------------------------------------------- asked twice


async def test_repeated_save_has_the_outcome_of_the_first(nodes: Nodes) -> None:
    fence = await begun(nodes.a)
    await nodes.a.deliver(NewCommand("s", "k", "message", {}))
    summary = Summary("active", "t", False, {"n": 1})

    async def save() -> Saved:
        return await nodes.a.save(
            Commit(
                fence,
                1,
                [NewEvent("a", {"x": True}), NewEvent("b", {}, at=5.0)],
                intents=[NewIntent("c", 1, "once", {})],
                questions=[NewQuestion("q", "tool", {})],
                ack=["k"],
                replies={"k": {}},
                summary=summary,
            )
        )

    first = await save()
    nodes.wall.now += 3
    assert await save() == first
    assert [each.type for each in await nodes.b.events_since("s", 0)] == ["created", "a", "b"]
    assert len(await intents_of(nodes.a, "s")) == 1
    await nodes.a.save(Commit(fence, 3, settle=[SettleIntent("c", 1, "finished")]))
    assert await nodes.a.save(Commit(fence, 3, settle=[SettleIntent("c", 1, "finished")])) == Saved(
        4, nodes.wall.now
    )


Events = list[NewEvent]


@pytest.mark.parametrize(
    "events",
    [
        [NewEvent("a", {"x": 1})],  # not {"x": true}
        [NewEvent("b", {"x": True})],
        [NewEvent("a", {"x": True}), NewEvent("a", {"x": True})],
        [],
    ],
)
async def test_other_events_are_no_repetition(nodes: Nodes, events: Events) -> None:
    fence = await begun(nodes.a)
    await nodes.a.save(Commit(fence, 1, [NewEvent("a", {"x": True})]))
    with pytest.raises(Fenced):
        await nodes.a.save(Commit(fence, 1, events))


async def test_save_is_repeated_before_any_other_save(nodes: Nodes) -> None:
    fence = await begun(nodes.a)

    async def save(seq: int) -> Saved:
        return await nodes.a.save(Commit(fence, seq, [NewEvent("a", {}), NewEvent("b", {})]))

    first = await save(1)
    assert first == await save(1) == Saved(2, nodes.wall.now)
    assert await save(3) == await save(3) == Saved(4, nodes.wall.now), "the same events once more"
    with pytest.raises(Fenced):
        await save(1)
    assert (await row_of(nodes.b, "s")).last_seq == 5


async def test_save_of_an_earlier_owner_is_no_repetition(nodes: Nodes) -> None:
    fence = await begun(nodes.a)
    await nodes.a.save(Commit(fence, 1, [NewEvent("a", {})]))
    await nodes.a.release(fence)
    new = await claimed(nodes.b, "s")
    for node, each in ((nodes.a, fence), (nodes.b, new)):
        with pytest.raises(Fenced):
            await node.save(Commit(each, 1, [NewEvent("a", {})]))


Ask = Callable[[Nodes, Fence], Awaitable[object]]
VOTE = Vote(voter="v", credential="", shown="x", subject="x", needed=2)


@pytest.mark.parametrize(
    ("ask", "first", "again"),
    [
        (
            lambda nodes, fence: nodes.b.deliver(NewCommand("s", "k", "message", {"n": 1})),
            Accepted(),
            Repeated(None),
        ),
        (
            lambda nodes, fence: nodes.a.deliver(NewCommand("new", "k", "create", {}, new=True)),
            Accepted(),
            Repeated(None),
        ),
        (lambda nodes, fence: nodes.b.decide("q", {"yes": 1}, "d"), Won, Repeated(None)),
        (lambda nodes, fence: nodes.b.decide("q", {"yes": 1}, "d", vote=VOTE), Voted, Repeated(None)),
        (lambda nodes, fence: nodes.a.release(fence), True, True),
        (lambda nodes, fence: nodes.a.delete(fence), (), ()),
        (lambda nodes, fence: nodes.a.save(Commit(fence, 1)), Saved(2, 1000.0), Saved(2, 1000.0)),
        (
            lambda nodes, fence: nodes.a.save(Commit(fence, 1, ack=["first"], refuse={"first": {}})),
            Saved(2, 1000.0),
            Saved(2, 1000.0),
        ),
    ],
    ids=["deliver", "create", "decide", "vote", "release", "delete", "save", "save of a refusal"],
)
async def test_request_whose_answer_was_lost_is_made_again(
    nodes: Nodes, ask: Ask, first: Any, again: object
) -> None:
    fence = await begun(nodes.a)
    await nodes.a.save(Commit(fence, 1, questions=[NewQuestion("q", "tool", {})]))
    found = await ask(nodes, fence)
    assert isinstance(found, first) if isinstance(first, type) else found == first
    before = await everything(nodes)
    assert await ask(nodes, fence) == again
    assert await everything(nodes) == before


async def everything(nodes: Nodes) -> list[object]:
    seen: list[object] = [await nodes.b.question("q"), await nodes.b.open_work()]
    for stream in ("s", "new"):
        seen += [
            await nodes.b.row(stream),
            await nodes.b.inbox(stream),
            await nodes.b.events_since(stream, 0),
        ]
    return seen


async def test_deletion_is_repeated_before_the_stream_exists_again(nodes: Nodes) -> None:
    fence = await begun(nodes.a)
    await nodes.b.deliver(NewCommand("s", "k", "message", {}))
    assert await nodes.a.delete(fence) == ("k",)
    assert await nodes.a.delete(fence) == ()
    await nodes.b.deliver(NewCommand("s", "k", "create", {}, new=True))
    with pytest.raises(Fenced):
        await nodes.a.delete(fence)


async def test_request_is_repeated_by_the_other_node_after_its_answer(nodes: Nodes) -> None:
    """A client that was cut off asks the other node, also after the command was executed."""
    fence = await begun(nodes.a)
    await nodes.a.save(Commit(fence, 1, questions=[NewQuestion("q", "tool", {})]))
    await nodes.a.deliver(NewCommand("s", "k", "message", {}))
    await nodes.a.decide("q", {"yes": 1}, "d")
    await nodes.a.save(Commit(fence, 1, ack=["k", "d"], replies={"k": {"n": 1}, "d": {"n": 2}}))
    await nodes.a.release(fence)
    assert await nodes.b.deliver(NewCommand("s", "k", "message", {}, follow=True)) == Repeated({"n": 1})
    assert await nodes.b.decide("q", {"yes": 1}, "d", follow=True) == Repeated({"n": 2})
    assert await nodes.b.decide("q", {"yes": 0}, "d") == KeyReused()
    assert await nodes.b.inbox("s") == ()


async def test_failed_save_leaves_nothing(nodes: Nodes) -> None:
    fence = await begun(nodes.a)
    with pytest.raises(JournalError):
        await nodes.a.save(
            Commit(
                fence, 1, [NewEvent("a", {})], refuse={"first": {}}, settle=[SettleIntent("c", 1, "finished")]
            )
        )
    assert (await row_of(nodes.b, "s")).last_seq == 1
    assert await nodes.b.deliver(NewCommand("s", "first", "message", {})) == Repeated(None)
