"""The contract: `deliver` and `decide` with `follow` claim a stream in their own commit, or leave it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest

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
from stopgo.runtime.journal.question import Already, NewQuestion, Unknown, Won
from stopgo.runtime.journal.summary import Summary
from stopgo.runtime.journal.vote import Outdated, Vote, Voted
from tests.runtime.journal.conftest import LEASE, Members, another
from tests.runtime.journal.kept import claimed
from tests.runtime.journal.test_ownership import begun


@attrs.frozen
class State:
    """A stream, before member b gets a request for it."""

    owner: str = ""
    """The member that owns it; empty: it is free. Member c has a newer version than a and b."""
    open: bool = False
    rests: bool = False
    waits: bool = False
    """Whether a command is in the inbox."""
    dead: bool = False
    """Whether the lease of the owner has run out."""
    left: bool = False
    """Whether the owner has ended its lease."""
    demands: bool = False
    """Whether the stream demands the version of member c."""


async def stream_in(members: Members, state: State) -> Fence:
    """Make the stream, with two questions, and return the fence of its owner; that of a free stream is
    invalid."""
    c = another(members.a, "c", version=1)
    await c.renew()
    named: dict[str, Journal] = {"a": members.a, "b": members.b, "c": c}
    first = c if state.demands else members.a
    await members.a.deliver(NewCommand("s", "first", "message", {}, new=True))
    fence = await claimed(first, "s")
    await first.save(
        Commit(
            fence,
            0,
            [NewEvent("created", {})],
            questions=[NewQuestion("q", "tool", {}), NewQuestion("voted", "tool", {})],
            ack=["first"],
            summary=Summary("active", "", state.open, {}, rests=state.rests),
        )
    )
    await members.a.decide("voted", {}, "vote", vote=vote("v"))
    await first.save(Commit(fence, 1, ack=["vote"]))
    assert await first.release(fence)
    if state.owner:
        owner = named[state.owner]
        fence = await claimed(owner, "s")
        if state.left:
            await owner.leave()
        if state.dead:
            members.wall.now += LEASE
            for each in named.values():
                if each is not owner:
                    await each.renew()
    if state.waits:
        await members.a.deliver(NewCommand("s", "earlier", "message", {}))
    return fence


def vote(voter: str, shown: str = "x") -> Vote:
    return Vote(voter=voter, credential="", shown=shown, subject=shown, needed=3)


async def owner_of(members: Members) -> str:
    """The living member that owns the stream; empty: it is free."""
    claim = await another(members.a, "probe", version=9).claim("s")
    return claim.owner if isinstance(claim, Owned) else ""


Request = Callable[[Journal, bool], Awaitable[object]]


async def _deliver(member: Journal, follow: bool) -> object:
    return await member.deliver(NewCommand("s", "k", "message", {}, follow=follow))


async def _decide(member: Journal, follow: bool) -> object:
    return await member.decide("q", {}, "k", follow=follow)


async def _vote(member: Journal, follow: bool) -> object:
    return await member.decide("voted", {}, "k", vote=vote("w"), follow=follow)


REQUESTS: dict[str, tuple[Request, type]] = {
    "deliver": (_deliver, Accepted),
    "decide": (_decide, Won),
    "vote": (_vote, Voted),
}

STATES: dict[str, tuple[State, str]] = {
    # name: the state, and the owner after a request that follows
    "free": (State(), "b"),
    "free, open": (State(open=True), "b"),
    "other, idle": (State("a"), "b"),
    "other, rests": (State("a", rests=True), "b"),
    "other, open": (State("a", open=True), "a"),
    "other, idle, not the first": (State("a", waits=True), "a"),
    "other, rests, not the first": (State("a", rests=True, waits=True), "a"),
    "dead, idle": (State("a", dead=True), "b"),
    "dead, open": (State("a", open=True, dead=True), "b"),
    "left, open": (State("a", open=True, left=True), "b"),
    "newer, free": (State(demands=True), ""),
    "newer, idle": (State("c", demands=True), "c"),
}
"""Those that member b does not own."""


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("name", STATES)
async def test_request_takes_a_stream_that_is_free_or_at_rest(
    members: Members, name: str, request_name: str
) -> None:
    (state, expected), (request, outcome) = STATES[name], REQUESTS[request_name]
    before = await stream_in(members, state)
    assert isinstance(await request(members.b, True), outcome)
    assert await members.a.owns(before) == (state.owner != "" and expected != "b")
    assert await owner_of(members) == expected


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("name", ["free", "other, idle", "dead, open"])
async def test_request_that_does_not_follow_claims_nothing(
    members: Members, name: str, request_name: str
) -> None:
    state, (request, outcome) = STATES[name][0], REQUESTS[request_name]
    before = await stream_in(members, state)
    assert isinstance(await request(members.b, False), outcome)
    assert await members.a.owns(before) == (state.owner != "")
    assert await owner_of(members) == ("" if state.dead else state.owner)


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize(
    "state",
    [State("b"), State("b", open=True), State("b", rests=True), State("b", waits=True)],
    ids=["idle", "open", "rests", "not the first"],
)
async def test_request_leaves_the_fence_of_its_own_member(
    members: Members, state: State, request_name: str
) -> None:
    request, outcome = REQUESTS[request_name]
    fence = await stream_in(members, state)
    assert isinstance(await request(members.b, True), outcome)
    assert await members.b.owns(fence)
    await members.b.save(Commit(fence, 1, [NewEvent("a", {})]))


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (lambda b: b.deliver(NewCommand("s", "first", "message", {}, follow=True)), Repeated(None)),
        (lambda b: b.deliver(NewCommand("s", "first", "message", {"n": 1}, follow=True)), KeyReused()),
        (lambda b: b.deliver(NewCommand("s", "k", "message", {}, limit=0, follow=True)), NotAccepted("full")),
        (
            lambda b: b.deliver(
                NewCommand("s", "k", "message", {}, unless=frozenset({"active"}), follow=True)
            ),
            NotAccepted("status", "active"),
        ),
        (lambda b: b.decide("nobody", {}, "k", follow=True), Unknown()),
        (lambda b: b.decide("q", {}, "first", follow=True), KeyReused()),
        (lambda b: b.decide("voted", {}, "vote", vote=vote("v"), follow=True), Repeated(None)),
        (lambda b: b.decide("voted", {}, "k", vote=vote("w", shown="y"), follow=True), Outdated),
        (lambda b: b.decide("decided", {}, "k", follow=True), Already),
    ],
)
async def test_request_that_puts_nothing_into_the_inbox_claims_nothing(
    members: Members, request_: Any, answer: Any
) -> None:
    fence = await stream_in(members, State("a"))
    await members.a.save(Commit(fence, 1, questions=[NewQuestion("decided", "tool", {})]))
    await members.a.decide("decided", {}, "d")
    await members.a.save(Commit(fence, 1, ack=["d"]))
    found = await request_(members.b)
    assert isinstance(found, answer) if isinstance(answer, type) else found == answer
    assert await members.a.owns(fence)


async def test_request_that_creates_a_stream_claims_it(members: Members) -> None:
    await members.b.deliver(NewCommand("s", "k", "create", {}, new=True, follow=True))
    assert await owner_of(members) == "b"


async def test_request_after_an_earlier_one_was_executed_takes_the_stream(members: Members) -> None:
    """Commands that are closed, answered or refused are not in the inbox."""
    fence = await begun(members.a)
    for key in ("closed", "refused"):
        await members.a.deliver(NewCommand("s", key, "message", {}))
    await members.a.save(Commit(fence, 1, ack=["closed"], replies={"closed": {}}, refuse={"refused": {}}))
    await members.b.deliver(NewCommand("s", "refused", "message", {}, follow=True))
    assert await owner_of(members) == "b"


@pytest.mark.parametrize(
    "state", [State(waits=True), State("a", waits=True, dead=True)], ids=["free", "dead"]
)
async def test_request_takes_a_free_stream_behind_another_command(members: Members, state: State) -> None:
    await stream_in(members, state)
    await members.b.deliver(NewCommand("s", "k", "message", {}, follow=True))
    assert await owner_of(members) == "b"


async def test_request_leaves_the_fence_of_its_own_member_without_a_lease(members: Members) -> None:
    fence = await stream_in(members, State("b", dead=True))
    await members.b.deliver(NewCommand("s", "k", "message", {}, follow=True))
    assert await members.b.owns(fence)
