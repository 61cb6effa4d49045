"""The contract of votes: a question that several voters decide together."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from stopgo.runtime.journal import vote as votes
from stopgo.runtime.journal.errors import StreamDamaged
from stopgo.runtime.journal.protocol import (
    Command,
    Commit,
    Journal,
    KeyReused,
    NewCommand,
    NewEvent,
    Repeated,
)
from stopgo.runtime.journal.question import (
    Already,
    CastVote,
    CloseQuestion,
    NewQuestion,
    Question,
    Unknown,
    Won,
)
from stopgo.runtime.journal.sqlite.sqlite_journal import open_sqlite
from stopgo.runtime.journal.vote import Outdated, Vote, Voted
from tests.runtime.journal.kept import claimed, question_of

YES = {"approved": True}


def vote(voter: str, subject: str = "h0", *, shown: str = "h0", needed: int = 2, lapsed: str = "") -> Vote:
    """A vote of a voter whose credential has the same name, in upper case."""
    return Vote(
        voter=voter,
        credential=voter.upper(),
        shown=shown,
        subject=subject,
        needed=needed,
        lapsed=frozenset(lapsed),
    )


@pytest.fixture
async def asked(journal: Journal, begin: Any) -> Any:
    fence = await begin()
    await journal.save(Commit(fence, 1, questions=[NewQuestion("q", "tool", {}, expires=2000.0)]))
    return fence


async def decide(journal: Journal, key: str, cast: Vote | None, decision: Any = YES, **adds: Any) -> Any:
    return await journal.decide("q", decision, key, adds=adds, vote=cast)


async def voters(journal: Journal) -> list[str]:
    return [each.voter for each in (await question_of(journal, "q")).votes]


async def test_votes_are_stored_until_enough_of_them_decide(journal: Journal, asked: Any, wall: Any) -> None:
    wall.now = 7.0
    first = await decide(journal, "k1", vote("a"), {"approved": True, "reason": "fine"})
    question = await question_of(journal, "q")
    assert first == Voted(question)
    stored = CastVote("a", "A", "h0", 7.0, {"approved": True, "reason": "fine"})
    assert (question.state, question.votes, question.decision) == ("pending", (stored,), None)
    body = {"question": "q", "decision": stored.decision, "subject": "h0", "voters": ["a"], "needed": 2}
    assert await journal.inbox("s") == (Command("s", "k1", "vote", body, 7.0, journal.member),)
    won = await decide(journal, "k2", vote("b"))
    question = await question_of(journal, "q")
    assert won == Won(question)
    assert (question.state, question.decision, question.settled) == ("decided", YES, 7.0)
    assert await voters(journal) == ["a", "b"]
    assert (await journal.inbox("s"))[1].kind == "decision"
    decided = {"question": "q", "decision": YES, "subject": "h0", "voters": ["a", "b"]}
    assert (await journal.inbox("s"))[1].body == decided
    assert await decide(journal, "k3", vote("c")) == Already(question)
    assert (await journal.questions(state="decided")).questions == (question,)


@pytest.mark.parametrize(
    ("cast", "kept"),
    [
        ([vote("a"), vote("a")], ["a"]),  # a voter has one vote
        ([vote("a"), vote("b", lapsed="A")], ["b"]),
        ([vote("a", needed=3), vote("b", needed=3), vote("c", needed=3, lapsed="B")], ["a", "c"]),
        ([vote("a"), vote("b", "h1")], ["b"]),  # an edit starts the count again
        ([vote("a", "h1"), vote("b", "h2", shown="h1"), vote("b", "h2", shown="h2")], ["b"]),
    ],
)
async def test_some_votes_do_not_count(
    journal: Journal, asked: Any, cast: list[Vote], kept: list[str]
) -> None:
    for number, each in enumerate(cast):
        assert isinstance(await decide(journal, f"k{number}", each), Voted)
    assert await voters(journal) == kept


async def test_a_vote_about_something_else_than_the_present_subject_is_outdated(
    journal: Journal, asked: Any
) -> None:
    await decide(journal, "k1", vote("a", "h1"))
    question = await question_of(journal, "q")
    assert await decide(journal, "k2", vote("b", "h0", shown="h0")) == Outdated(question)
    assert await question_of(journal, "q") == question
    assert [each.key for each in await journal.inbox("s")] == ["k1"]
    assert isinstance(await decide(journal, "k2", vote("b", "h1", shown="h1")), Won)


async def test_a_decision_without_a_vote_decides_at_once(journal: Journal, asked: Any) -> None:
    await decide(journal, "k1", vote("a"))
    won = await decide(journal, "k2", None, {"approved": False})
    assert isinstance(won, Won)
    assert (won.question.decision, await voters(journal)) == ({"approved": False}, ["a"])


async def test_a_repeated_vote_is_answered_as_repeated(journal: Journal, asked: Any) -> None:
    await decide(journal, "k1", vote("a", "h1"))
    # What it adds depends on the votes before it, so it may differ; and its subject may be outdated by now.
    for cast in (vote("a", "h1"), vote("a", "h9", shown="h9"), None):
        assert await decide(journal, "k1", cast, n=9) == Repeated(None)
    assert await decide(journal, "k1", vote("a"), {"approved": True, "reason": "x"}) == KeyReused()
    assert await journal.decide("nobody", YES, "k1", vote=vote("a")) == Unknown()
    won = await decide(journal, "k2", vote("b", "h1", shown="h1"), arguments={"n": 1})
    assert won.question.decision == {"approved": True, "arguments": {"n": 1}}
    assert (await journal.inbox("s"))[1].body == {
        "question": "q",
        "decision": {"approved": True, "arguments": {"n": 1}},
        "subject": "h1",
        "voters": ["a", "b"],
        "sent": YES,
    }
    assert await decide(journal, "k2", vote("b")) == Repeated(None)
    assert await decide(journal, "k2", vote("b"), dict(won.question.decision)) == KeyReused()
    await journal.save(Commit(asked, 1, [NewEvent("voted", {})], ack=["k1", "k2"], replies={"k1": {"n": 1}}))
    assert await decide(journal, "k1", vote("a")) == Repeated({"n": 1})


async def test_no_vote_counts_after_the_expiry(journal: Journal, asked: Any, wall: Any) -> None:
    wall.now = 1500.0
    await decide(journal, "k1", vote("a"))
    wall.now = 2000.0
    question = await question_of(journal, "q")
    assert await decide(journal, "k2", vote("b")) == Already(question)
    await journal.save(Commit(asked, 1, questions=[CloseQuestion("q", "expired")]))
    assert (await question_of(journal, "q")).state == "expired"
    assert await voters(journal) == ["a"]


async def test_of_many_votes_at_once_exactly_one_decides(journal: Journal, begin: Any) -> None:
    fence = await begin()
    for attempt in range(20):
        name = f"q{attempt}"
        await journal.save(Commit(fence, 1, questions=[NewQuestion(name, "tool", {})]))
        results: list[Any] = []

        async def cast(voter: str, number: int, name: str = name, results: list[Any] = results) -> None:
            key = f"{name}/{voter}{number}"
            results.append(await journal.decide(name, YES, key, vote=vote(voter, needed=3)))

        async with trio.open_nursery() as nursery:
            for voter in "aabbccdd":
                nursery.start_soon(cast, voter, len(nursery.child_tasks))
        (won,) = [each for each in results if isinstance(each, Won)]
        assert len({each.voter for each in won.question.votes}) == 3
        kinds = [each.kind for each in await journal.inbox("s") if each.body["question"] == name]
        assert kinds[-1] == "decision"
        assert kinds[:-1] == ["vote"] * sum(isinstance(each, Voted) for each in results)


@pytest.mark.parametrize(
    "damage", ["'x'", "'7'", "'[7]'", "'[{}]'", "X'FF'", """replace(votes, '"at":', '"at":-')"""]
)
async def test_damaged_votes_are_noticed(tmp_path: Path, damage: str) -> None:
    async with open_sqlite(tmp_path, wall=lambda: 1.0) as journal:
        await journal.deliver(NewCommand("s", "k", "message", {}, new=True))
        await journal.save(Commit(await claimed(journal, "s"), 0, questions=[NewQuestion("q", "tool", {})]))
        await decide(journal, "k1", vote("a"))
    db = sqlite3.connect(tmp_path / "journal.db")
    db.execute(f"UPDATE question SET votes = {damage}")
    db.commit()
    db.close()
    async with open_sqlite(tmp_path) as journal:
        with pytest.raises(StreamDamaged):
            await journal.question("q")
        with pytest.raises(StreamDamaged):
            await decide(journal, "k2", vote("b"))
        assert (await journal.questions()).damaged.keys() == {"s"}


casts = st.tuples(st.sampled_from("abcd"), st.sampled_from(["h0", "h1"]), st.sampled_from(["h0", "h1"]))
revocations = st.sampled_from("ABCD")


@settings(max_examples=300)
@given(st.lists(casts | revocations, max_size=20), st.integers(2, 4))
def test_fewer_voters_than_needed_never_decide(steps: list[Any], needed: int) -> None:
    asked = Question("q", "s", "tool", "pending", {}, None, created=0.0, expires=None, settled=None)
    revoked: set[str] = set()
    latest: dict[str, str] = {}
    for step in steps:
        if isinstance(step, str):
            revoked.add(step)
            continue
        voter, shown, subject = step
        if voter.upper() in revoked:
            continue  # its credential is refused
        cast = vote(voter, subject, shown=shown, needed=needed, lapsed="".join(revoked))
        result = votes.outcome(asked, YES, cast, 0.0)
        if not isinstance(result, Outdated):
            assert shown == asked.votes[-1].subject if asked.votes else True
            latest[voter] = subject
        agreed = {each for each, about in latest.items() if about == subject and each.upper() not in revoked}
        if isinstance(result, Won):
            assert len(agreed) >= needed
            return
        asked = result.question
        assert len({each.voter for each in asked.votes}) == len(asked.votes) < needed
