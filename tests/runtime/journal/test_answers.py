"""The contract: replies, refusals and deletions can be read by key on every member, and a write whose answer
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
from tests.runtime.journal.conftest import Members
from tests.runtime.journal.kept import claimed, intents_of, question_of, row_of
from tests.runtime.journal.test_ownership import begun

# ------------------------------------------------------------------------- answers


async def test_answers_are_read_on_the_other_member(members: Members) -> None:
    fence = await begun(members.a)
    for key in ("early", "late", "refused"):
        await members.b.deliver(NewCommand("s", key, "message", {}))
        assert await members.b.stored_reply("s", key) is None
    await members.a.save(Commit(fence, 1, replies={"early": {"result": 1}}))
    await members.a.save(Commit(fence, 1, ack=["late"]))
    assert await members.b.stored_reply("s", "late") is None
    await members.a.save(Commit(fence, 1, replies={"late": {"result": 2}, "early": {"result": 3}}))
    await members.a.save(Commit(fence, 1, refuse={"refused": {"error": {}}}))
    answers = [await members.b.stored_reply("s", key) for key in ("early", "late", "refused")]
    assert answers == [{"result": 1}, {"result": 2}, {"error": {}}]
    assert await members.b.deliver(NewCommand("s", "early", "message", {})) == Repeated({"result": 1})
    assert await members.b.deliver(NewCommand("s", "early", "message", {"n": 1})) == KeyReused()
    assert await members.b.deliver(NewCommand("s", "refused", "message", {"n": 1})) == Accepted()


async def test_there_is_no_answer_without_command_or_stream(members: Members) -> None:
    fence = await begun(members.a)
    with pytest.raises(UnknownCommand):
        await members.b.stored_reply("s", "nobody")
    await members.a.delete(fence)
    with pytest.raises(UnknownStream):
        await members.b.stored_reply("s", "first")
    await members.b.deliver(NewCommand("s", "again", "create", {}, new=True))
    with pytest.raises(UnknownCommand):
        await members.a.stored_reply("s", "first")


async def test_deletion_is_seen_on_the_other_member(members: Members) -> None:
    fence = await begun(members.a)
    assert await members.b.row("s") is not None
    await members.a.delete(fence)
    assert await members.b.row("s") is None
    assert await members.b.events_since("s", 0) == ()


async def test_due_questions_are_those_of_the_stores_clock(members: Members) -> None:
    fence, now = await begun(members.a), members.wall.now
    late = MOST_DUE + 10
    questions = [NewQuestion(f"q{number}", "tool", {}, expires=now + 5) for number in range(late)]
    await members.a.save(
        Commit(fence, 1, questions=[*questions, NewQuestion("last", "tool", {}, expires=now + 9)])
    )
    for member in (members.a, members.b):
        page = await member.due()
        assert (page.questions, page.next_in) == ((), 5.0)
    members.wall.now += 5
    first = await members.b.due()
    assert first.next_in == 4.0
    members.wall.now += 4
    second = await members.a.due(first.questions[-1])
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
async def test_strange_values_pass_unchanged(members: Members, name: str) -> None:
    fence = await begun(members.a, name)
    await members.a.deliver(NewCommand(name, name, name, STRANGE))
    [command] = await members.b.inbox(name)
    assert (command.stream, command.key, command.kind, command.body) == (name, name, name, STRANGE)
    assert await members.b.deliver(NewCommand(name, name, name, STRANGE)) == Repeated(None)
    summary = Summary(name, "a\0b\ud800", False, STRANGE, owner=name)
    await members.a.save(
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
    [event] = await members.b.events_since(name, 1)
    assert (event.type, event.body) == (name, STRANGE)
    assert [each.body for each in await intents_of(members.b, name)] == [STRANGE]
    assert await members.b.stored_reply(name, name) == STRANGE
    assert (await row_of(members.b, name)).summary == summary
    assert isinstance(await members.b.decide(name, STRANGE, "d"), Won)
    question = await question_of(members.a, name)
    assert (question.kind, question.body, question.decision) == (name, STRANGE, STRANGE)
    await members.a.save(Commit(fence, 2, refuse={name: STRANGE}))
    assert await members.b.stored_reply(name, name) == STRANGE


# ---------------------------------------------------------------------- asked twice


async def test_repeated_save_has_the_outcome_of_the_first(members: Members) -> None:
    fence = await begun(members.a)
    await members.a.deliver(NewCommand("s", "k", "message", {}))
    summary = Summary("active", "t", False, {"n": 1})

    async def save() -> Saved:
        return await members.a.save(
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
    members.wall.now += 3
    assert await save() == first
    assert [each.type for each in await members.b.events_since("s", 0)] == ["created", "a", "b"]
    assert len(await intents_of(members.a, "s")) == 1
    await members.a.save(Commit(fence, 3, settle=[SettleIntent("c", 1, "finished")]))
    assert await members.a.save(Commit(fence, 3, settle=[SettleIntent("c", 1, "finished")])) == Saved(
        4, members.wall.now
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
async def test_other_events_are_no_repetition(members: Members, events: Events) -> None:
    fence = await begun(members.a)
    await members.a.save(Commit(fence, 1, [NewEvent("a", {"x": True})]))
    with pytest.raises(Fenced):
        await members.a.save(Commit(fence, 1, events))


async def test_save_is_repeated_before_any_other_save(members: Members) -> None:
    fence = await begun(members.a)

    async def save(seq: int) -> Saved:
        return await members.a.save(Commit(fence, seq, [NewEvent("a", {}), NewEvent("b", {})]))

    first = await save(1)
    assert first == await save(1) == Saved(2, members.wall.now)
    assert await save(3) == await save(3) == Saved(4, members.wall.now), "the same events once more"
    with pytest.raises(Fenced):
        await save(1)
    assert (await row_of(members.b, "s")).last_seq == 5


async def test_save_of_an_earlier_owner_is_no_repetition(members: Members) -> None:
    fence = await begun(members.a)
    await members.a.save(Commit(fence, 1, [NewEvent("a", {})]))
    await members.a.release(fence)
    new = await claimed(members.b, "s")
    for member, each in ((members.a, fence), (members.b, new)):
        with pytest.raises(Fenced):
            await member.save(Commit(each, 1, [NewEvent("a", {})]))


Ask = Callable[[Members, Fence], Awaitable[object]]
VOTE = Vote(voter="v", credential="", shown="x", subject="x", needed=2)


@pytest.mark.parametrize(
    ("ask", "first", "again"),
    [
        (
            lambda members, fence: members.b.deliver(NewCommand("s", "k", "message", {"n": 1})),
            Accepted(),
            Repeated(None),
        ),
        (
            lambda members, fence: members.a.deliver(NewCommand("new", "k", "create", {}, new=True)),
            Accepted(),
            Repeated(None),
        ),
        (lambda members, fence: members.b.decide("q", {"yes": 1}, "d"), Won, Repeated(None)),
        (lambda members, fence: members.b.decide("q", {"yes": 1}, "d", vote=VOTE), Voted, Repeated(None)),
        (lambda members, fence: members.a.release(fence), True, True),
        (lambda members, fence: members.a.delete(fence), (), ()),
        (lambda members, fence: members.a.save(Commit(fence, 1)), Saved(2, 1000.0), Saved(2, 1000.0)),
        (
            lambda members, fence: members.a.save(Commit(fence, 1, ack=["first"], refuse={"first": {}})),
            Saved(2, 1000.0),
            Saved(2, 1000.0),
        ),
    ],
    ids=["deliver", "create", "decide", "vote", "release", "delete", "save", "save of a refusal"],
)
async def test_request_whose_answer_was_lost_is_made_again(
    members: Members, ask: Ask, first: Any, again: object
) -> None:
    fence = await begun(members.a)
    await members.a.save(Commit(fence, 1, questions=[NewQuestion("q", "tool", {})]))
    found = await ask(members, fence)
    assert isinstance(found, first) if isinstance(first, type) else found == first
    before = await everything(members)
    assert await ask(members, fence) == again
    assert await everything(members) == before


async def everything(members: Members) -> list[object]:
    seen: list[object] = [await members.b.question("q"), await members.b.open_work()]
    for stream in ("s", "new"):
        seen += [
            await members.b.row(stream),
            await members.b.inbox(stream),
            await members.b.events_since(stream, 0),
        ]
    return seen


async def test_deletion_is_repeated_before_the_stream_exists_again(members: Members) -> None:
    fence = await begun(members.a)
    await members.b.deliver(NewCommand("s", "k", "message", {}))
    assert await members.a.delete(fence) == ("k",)
    assert await members.a.delete(fence) == ()
    await members.b.deliver(NewCommand("s", "k", "create", {}, new=True))
    with pytest.raises(Fenced):
        await members.a.delete(fence)


async def test_request_is_repeated_by_the_other_member_after_its_answer(members: Members) -> None:
    """A client that was cut off asks the other member, also after the command was executed."""
    fence = await begun(members.a)
    await members.a.save(Commit(fence, 1, questions=[NewQuestion("q", "tool", {})]))
    await members.a.deliver(NewCommand("s", "k", "message", {}))
    await members.a.decide("q", {"yes": 1}, "d")
    await members.a.save(Commit(fence, 1, ack=["k", "d"], replies={"k": {"n": 1}, "d": {"n": 2}}))
    await members.a.release(fence)
    assert await members.b.deliver(NewCommand("s", "k", "message", {}, follow=True)) == Repeated({"n": 1})
    assert await members.b.decide("q", {"yes": 1}, "d", follow=True) == Repeated({"n": 2})
    assert await members.b.decide("q", {"yes": 0}, "d") == KeyReused()
    assert await members.b.inbox("s") == ()


async def test_failed_save_leaves_nothing(members: Members) -> None:
    fence = await begun(members.a)
    with pytest.raises(JournalError):
        await members.a.save(
            Commit(
                fence, 1, [NewEvent("a", {})], refuse={"first": {}}, settle=[SettleIntent("c", 1, "finished")]
            )
        )
    assert (await row_of(members.b, "s")).last_seq == 1
    assert await members.b.deliver(NewCommand("s", "first", "message", {})) == Repeated(None)
