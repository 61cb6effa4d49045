"""The contract: two members ask for the same at the same time, and the store decides between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import product
from random import Random
from typing import Any

import pytest
import trio

from stopgo.runtime.journal.errors import Fenced, QuestionTaken
from stopgo.runtime.journal.ownership import Fence, Owned
from stopgo.runtime.journal.protocol import (
    Accepted,
    Commit,
    Journal,
    KeyReused,
    NewCommand,
    NewEvent,
    NotAccepted,
    Repeated,
)
from stopgo.runtime.journal.question import Already, CloseQuestion, NewQuestion, Won
from tests.runtime.journal.conftest import LEASE, Members, another
from tests.runtime.journal.kept import question_of
from tests.runtime.journal.test_ownership import begun

Operation = Callable[[], Awaitable[Any]]


async def after(moments: int, operation: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
    for _ in range(moments):
        await trio.lowlevel.checkpoint()
    return await operation(*args, **kwargs)


async def together(*operations: Operation) -> list[Any]:
    """Run operations in parallel, and return their results in the order of the arguments."""
    results: list[Any] = [None] * len(operations)

    async def run(place: int) -> None:
        results[place] = await operations[place]()

    async with trio.open_nursery() as nursery:
        for place in range(len(operations)):
            nursery.start_soon(run, place)
    return results


async def in_any_order(attempt: int, *operations: Operation) -> list[Any]:
    """Run operations one after another in the first attempt, backwards in the second, and in parallel in all
    others, which may end alike. Return their results in the order of the arguments."""
    if attempt > 1:
        return await together(*operations)
    places = range(len(operations))
    results = {place: await operations[place]() for place in (reversed(places) if attempt else places)}
    return [results[place] for place in places]


async def valid_of(members: Members, results: list[Any]) -> list[Fence]:
    """Return the fences that hold. Each takes a read of its own, so the latest comes first: no earlier one
    may hold after it."""
    fences = sorted((each for each in results if isinstance(each, Fence)), key=lambda each: -each.epoch)
    return [each for each in fences if await members.a.owns(each)]


async def test_no_command_is_stranded(members: Members) -> None:
    """One member releases a stream, the other delivers or claims: one of them finds the command."""
    ends: set[tuple[object, bool]] = set()
    for attempt, (opens, releases, delivers, claims) in enumerate(
        product((False, True), (0, 1, 2, 8), range(3), (0, 2, 8))
    ):
        stream = f"s{attempt}"
        fence = await begun(members.a, stream, open=opens)
        released, _, taken = await in_any_order(
            attempt,
            partial(after, releases, members.a.release, fence),
            partial(after, delivers, members.b.deliver, NewCommand(stream, "k", "message", {}, follow=True)),
            partial(after, claims, members.b.claim, stream),
        )
        owner = await another(members.a, "probe").claim(stream)
        if owner == Owned("a"):
            assert not released
            assert await valid_of(members, [fence, taken]) == [fence]
        else:
            assert owner == Owned("b"), "it was free, so the request has claimed it"
            assert not await members.a.owns(fence)
        ends.add((owner, released))
    assert {(Owned("a"), False), (Owned("b"), True)} <= ends


async def test_there_is_one_valid_fence_at_any_time(members: Members) -> None:
    """Both members do anything in any order, and lose their leases: the saves make one history."""
    await members.a.deliver(NewCommand("s", "first", "message", {}, new=True))
    fences: list[Fence] = []
    saved: list[int] = []

    async def save(member: Journal, fence: Fence) -> None:
        row, waiting = await member.row("s"), await member.inbox("s")
        assert row is not None
        try:
            event = NewEvent("a", {"by": member.member})
            done = await member.save(Commit(fence, row.last_seq, [event], ack=[each.key for each in waiting]))
        except Fenced:
            return
        saved.append(done.first_seq)

    async def work(member: Journal, rng: Random) -> None:
        mine = Fence("s", member.member, 0)
        for number in range(80):
            for _ in range(rng.randrange(3)):
                await trio.lowlevel.checkpoint()
            match rng.randrange(10):
                case 0 | 1 | 2:
                    claim = await member.claim("s")
                    if isinstance(claim, Fence):
                        mine = claim
                        fences.append(claim)
                case 3:
                    await member.release(mine)
                case 4 | 5:
                    await member.deliver(
                        NewCommand("s", f"{member.member}{number}", "message", {}, follow=True)
                    )
                case 6:
                    members.wall.now += LEASE / 2
                    await member.renew()
                case _:
                    await save(member, mine)
            assert len(await valid_of(members, fences)) <= 1

    await together(partial(work, members.a, Random(1)), partial(work, members.b, Random(2)))
    assert len({each.epoch for each in fences}) == len(fences)
    events = await members.a.events_since("s", 0)
    assert sorted(saved) == list(range(1, len(events) + 1))
    assert {each.body["by"] for each in events} == {"a", "b"}


async def test_of_two_members_one_claims(members: Members) -> None:
    for attempt in range(20):
        stream = f"s{attempt}"
        await members.a.deliver(NewCommand(stream, "k", "create", {}, new=True))
        order = (members.a, members.b) if attempt % 2 else (members.b, members.a)
        found = await together(*[partial(member.claim, stream) for member in order])
        [fence] = [each for each in found if isinstance(each, Fence)]
        assert [each for each in found if isinstance(each, Owned)] == [Owned(fence.owner)]


@pytest.mark.parametrize(
    ("keys", "bodies", "lost"),
    [
        (("k", "k"), ({}, {}), [Repeated(None)]),
        (("k", "k"), ({"n": 1}, {"n": 2}), [KeyReused()]),
        (("k", "l"), ({}, {}), []),
    ],
    ids=["the same", "another body", "another key"],
)
async def test_stream_is_created_once(members: Members, keys: Any, bodies: Any, lost: list[object]) -> None:
    winners = set()
    for attempt in range(10):
        stream = f"s{attempt}"

        async def create(number: int, stream: str = stream) -> object:
            member = (members.a, members.b)[number]
            return await member.deliver(
                NewCommand(stream, keys[number], "create", bodies[number], new=True, follow=True)
            )

        outcomes = await in_any_order(attempt, partial(create, 0), partial(create, 1))
        assert outcomes.count(Accepted()) == 2 - len(lost)
        assert [each for each in outcomes if each != Accepted()] == lost
        inbox = await members.a.inbox(stream)
        assert len(inbox) == 2 - len(lost)
        assert await another(members.a, "probe").claim(stream) == Owned(inbox[0].member), (
            "the first one claims"
        )
        winners.add(inbox[0].member)
    assert winners == {"a", "b"}


@pytest.mark.parametrize("rival", ["none", "void", "expired", "time"])
async def test_question_is_settled_once(members: Members, rival: str) -> None:
    """Both members decide, and the owner closes the question, or it expires."""
    fence = await begun(members.a)
    ends: Counter[str] = Counter()
    for attempt in range(30):
        question, expires = f"q{attempt}", members.wall.now + 5
        await members.a.save(Commit(fence, 1, questions=[NewQuestion(question, "tool", {}, expires=expires)]))

        async def decide(member: Journal, question: str = question) -> Any:
            return await member.decide(question, {"by": member.member}, f"{question}/{member.member}")

        async def other(question: str = question, expires: float = expires) -> bool:
            match rival:
                case "void" | "expired" as state:
                    try:
                        await members.a.save(Commit(fence, 1, questions=[CloseQuestion(question, state)]))
                    except QuestionTaken:
                        return False
                    return True
                case "time":
                    members.wall.now = expires
            return False

        first, second, closed = await in_any_order(
            attempt,
            partial(after, attempt % 2, decide, members.a),
            partial(after, attempt % 3, decide, members.b),
            partial(after, attempt % 5, other),
        )
        won = [each for each in (first, second) if isinstance(each, Won)]
        lost = [each for each in (first, second) if isinstance(each, Already)]
        assert len(won) + len(lost) == 2
        kept = await question_of(members.b, question)
        if rival == "time" and not won:
            assert kept.state == "pending"
            await members.a.save(Commit(fence, 1, questions=[CloseQuestion(question, "expired")]))
        else:
            assert len(won) + closed == 1
            assert kept.state == ("decided" if won else rival)
        commands = [each for each in await members.b.inbox("s") if each.body["question"] == question]
        assert [each.body["decision"] for each in commands] == [each.question.decision for each in won]
        ends["decided" if won else "closed"] += 1
    assert len(ends) == (1 if rival == "none" else 2), ends


@pytest.mark.parametrize(
    ("limit", "summary", "accepted"),
    [
        (3, {}, 4),  # the first is about to be executed
        (3, {"open": True}, 3),
        (3, {"rests": True}, 3),
        (1, {}, 2),
        (1, {"open": True}, 1),
        (0, {}, 0),
        (0, {"open": True}, 0),
    ],
)
async def test_limit_is_exact_on_two_members(
    members: Members, limit: int, summary: dict[str, Any], accepted: int
) -> None:
    fence = await begun(members.a, **summary)

    async def deliver(number: int, start: int) -> object:
        member = (members.a, members.b)[number % 2]
        return await member.deliver(NewCommand("s", f"k{start + number}", "message", {}, limit=limit))

    async def deliver_all(start: int) -> list[object]:
        return await together(*[partial(deliver, number, start) for number in range(10)])

    await members.b.deliver(NewCommand("s", "of another kind", "cancel", {}))
    outcomes = await deliver_all(0)
    assert outcomes.count(Accepted()) == accepted
    assert outcomes.count(NotAccepted("full")) == 10 - accepted
    # The place of a closed command is free again, for one of them.
    await members.a.save(Commit(fence, 1, ack=[each.key for each in (await members.a.inbox("s"))[1:2]]))
    assert (await deliver_all(10)).count(Accepted()) == min(accepted, 1)
