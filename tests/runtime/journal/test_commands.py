"""The contract: commands go in once, are answered once, and questions are decided once."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from stopgo.runtime.journal.errors import QuestionTaken, UnknownCommand
from stopgo.runtime.journal.protocol import (
    REFUSAL_SECONDS,
    Accepted,
    Command,
    Commit,
    Journal,
    KeyReused,
    NewCommand,
    NotAccepted,
    Repeated,
    Saved,
)
from stopgo.runtime.journal.question import Already, CloseQuestion, NewQuestion, Unknown, Won
from stopgo.runtime.journal.summary import Summary
from tests.runtime.journal.kept import claimed, question_of, reply_of, row_of


async def test_a_command_waits_in_the_inbox(journal: Journal, wall: Any) -> None:
    wall.now = 5.0
    assert await journal.deliver(NewCommand("s", "k", "message", {"text": "hi"}, new=True)) == Accepted()
    assert await journal.inbox("s") == (
        Command("s", "k", "message", {"text": "hi"}, at=5.0, member=journal.member),
    )


async def test_commands_are_read_oldest_first(journal: Journal) -> None:
    for key in ("b", "a", "c"):
        await journal.deliver(NewCommand("s", key, "message", {}, new=True))
    assert [each.key for each in await journal.inbox("s")] == ["b", "a", "c"]


async def test_a_stream_is_made_only_when_asked_for(journal: Journal) -> None:
    assert await journal.deliver(NewCommand("s", "k", "message", {})) == NotAccepted("unknown_stream")
    assert await journal.row("s") is None
    assert await journal.inbox("s") == ()
    assert await reply_of(journal, "s", "k") is None


async def test_a_new_stream_has_an_empty_summary_and_is_not_listed(journal: Journal, wall: Any) -> None:
    wall.now = 5.0
    await journal.deliver(NewCommand("s", "k", "message", {}, new=True))
    row = await row_of(journal, "s")
    assert (row.summary, row.last_seq) == (Summary("", "", open=False, body={}), 0)
    assert (row.created, row.updated) == (5.0, 5.0)
    page = await journal.list()
    assert (page.rows, dict(page.tally)) == ((), {})


async def test_repeated_command_changes_nothing(journal: Journal) -> None:
    await journal.deliver(NewCommand("s", "k", "message", {"a": 1, "b": [2, None]}, new=True))
    again = await journal.deliver(NewCommand("s", "k", "message", {"b": [2, None], "a": 1}, new=True))
    assert again == Repeated(reply=None)
    assert len(await journal.inbox("s")) == 1


@pytest.mark.parametrize(
    ("kind", "body"),
    [("cancel", {"v": 1}), ("message", {"v": 2}), ("message", {"v": True}), ("message", {"v": 1.0})],
)
async def test_a_key_means_one_command_for_ever(journal: Journal, kind: str, body: Any) -> None:
    await journal.deliver(NewCommand("s", "k", "message", {"v": 1}, new=True))
    assert await journal.deliver(NewCommand("s", "k", kind, body)) == KeyReused()
    (kept,) = await journal.inbox("s")
    assert (kept.kind, kept.body) == ("message", {"v": 1})


async def test_a_key_belongs_to_its_stream(journal: Journal) -> None:
    await journal.deliver(NewCommand("s", "k", "message", {"v": 1}, new=True))
    assert await journal.deliver(NewCommand("t", "k", "message", {"v": 2}, new=True)) == Accepted()


async def test_a_known_key_is_looked_at_before_bound_and_status(journal: Journal, begin: Any) -> None:
    await begin(status="completed")
    await journal.deliver(NewCommand("s", "k", "message", {}))
    refusing: Any = {"limit": 0, "unless": frozenset({"completed"})}
    assert await journal.deliver(NewCommand("s", "k", "message", {}, **refusing)) == Repeated(None)
    assert await journal.deliver(NewCommand("s", "k", "message", {"x": 1}, **refusing)) == KeyReused()


async def test_an_acknowledged_key_is_still_known(journal: Journal, begin: Any) -> None:
    await begin()
    assert await journal.inbox("s") == ()
    assert await journal.deliver(NewCommand("s", "first", "message", {})) == Repeated(None)


async def test_the_bound_counts_open_commands_of_one_kind(journal: Journal) -> None:
    await journal.deliver(NewCommand("s", "1", "message", {}, new=True, limit=2))
    await journal.deliver(NewCommand("s", "2", "message", {}, limit=2))
    assert await journal.deliver(NewCommand("s", "3", "message", {}, limit=2)) == NotAccepted("full")
    assert await journal.deliver(NewCommand("s", "4", "cancel", {}, limit=1)) == Accepted()
    fence = await claimed(journal, "s")
    await journal.save(Commit(fence, 0, ack=["1"]))
    assert await journal.deliver(NewCommand("s", "3", "message", {}, limit=2)) == Accepted()


async def test_the_first_command_of_a_stream_has_all_of_the_bound(journal: Journal) -> None:
    assert await journal.deliver(NewCommand("s", "1", "message", {}, new=True, limit=1)) == Accepted()
    assert await journal.deliver(NewCommand("s", "2", "message", {}, limit=1)) == NotAccepted("full")


async def test_the_bound_holds_when_all_come_at_once(journal: Journal) -> None:
    await journal.deliver(NewCommand("s", "0", "other", {}, new=True))
    answers: list[Any] = []

    async def send(key: str) -> None:
        answers.append(await journal.deliver(NewCommand("s", key, "message", {}, limit=16)))

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(send, f"m{number}")
    assert answers.count(Accepted()) == 16
    assert answers.count(NotAccepted("full")) == 34


async def test_a_refused_command_makes_no_stream(journal: Journal) -> None:
    assert await journal.deliver(NewCommand("s", "k", "m", {}, new=True, limit=0)) == NotAccepted("full")
    assert await journal.deliver(
        NewCommand("s", "k", "m", {}, new=True, unless=frozenset({""}))
    ) == NotAccepted("status", "")
    assert await journal.row("s") is None


async def test_some_statuses_do_not_accept(journal: Journal, begin: Any) -> None:
    await begin(status="waiting")
    unless = frozenset({"waiting", "completed"})
    refused = await journal.deliver(NewCommand("s", "k", "message", {}, unless=unless))
    assert refused == NotAccepted("status", "waiting")
    assert await journal.deliver(NewCommand("s", "k", "message", {})) == Accepted(), "the key was not used up"


async def test_some_commands_are_not_accepted_behind_others(journal: Journal, begin: Any) -> None:
    fence = await begin()
    behind = frozenset({"complete", "other"})
    assert (
        await journal.deliver(NewCommand("s", "m1", "message", {}, limit=9, not_behind=behind)) == Accepted()
    )
    await journal.deliver(NewCommand("s", "c", "complete", {}))
    for limit in (None, 9):
        refused = await journal.deliver(NewCommand("s", "m2", "message", {}, limit=limit, not_behind=behind))
        assert refused == NotAccepted("behind")
    assert await journal.deliver(NewCommand("s", "m1", "message", {}, not_behind=behind)) == Repeated(None)
    await journal.save(Commit(fence, 1, ack=["c"]))
    assert await journal.deliver(NewCommand("s", "m2", "message", {}, not_behind=behind)) == Accepted()


async def test_replies_are_kept_by_key_and_the_first_stays(journal: Journal, begin: Any) -> None:
    fence = await begin()
    await journal.deliver(NewCommand("s", "open", "message", {}))
    await journal.save(Commit(fence, 1, replies={"first": {"n": 1}, "open": {"n": 2}, "nobody": {"n": 3}}))
    await journal.save(Commit(fence, 1, replies={"first": {"n": 9}, "open": {"n": 9}}))
    assert await reply_of(journal, "s", "first") == {"n": 1}
    assert await reply_of(journal, "s", "open") == {"n": 2}
    assert await reply_of(journal, "s", "nobody") is None
    assert await journal.deliver(NewCommand("s", "first", "message", {})) == Repeated({"n": 1})


async def test_an_empty_reply_is_a_reply(journal: Journal, begin: Any) -> None:
    fence = await begin()
    await journal.save(Commit(fence, 1, replies={"first": {}}))
    await journal.save(Commit(fence, 1, replies={"first": {"late": True}}))
    assert await reply_of(journal, "s", "first") == {}
    assert await journal.deliver(NewCommand("s", "first", "message", {})) == Repeated({})


async def test_acknowledging_takes_out_of_the_inbox(journal: Journal, begin: Any) -> None:
    fence = await begin()
    for key in ("a", "b"):
        await journal.deliver(NewCommand("s", key, "message", {}))
    await journal.save(Commit(fence, 1, ack=["a", "first", "nobody"]))
    assert [each.key for each in await journal.inbox("s")] == ["b"]


# --------------------------------------------------------------------- decisions


async def ask(journal: Journal, begin: Any, *, expires: float | None = None) -> Any:
    fence = await begin()
    await journal.save(Commit(fence, 1, questions=[NewQuestion("q", "tool", {"tool": "rm"}, expires)]))
    return fence


async def test_a_decision_wins_once_and_becomes_a_command(journal: Journal, begin: Any, wall: Any) -> None:
    await ask(journal, begin)
    wall.now = 7.0
    won = await journal.decide("q", {"approved": True}, "d1")
    assert isinstance(won, Won)
    assert won.question == await journal.question("q")
    assert (won.question.state, won.question.decision) == ("decided", {"approved": True})
    assert won.question.settled == 7.0
    body = {"question": "q", "decision": {"approved": True}}
    assert await journal.inbox("s") == (Command("s", "d1", "decision", body, at=7.0, member=journal.member),)
    assert await journal.decide("q", {"approved": False}, "d2") == Already(won.question)
    assert len(await journal.inbox("s")) == 1


async def test_repeated_decision_is_answered_as_repeated(journal: Journal, begin: Any) -> None:
    fence = await ask(journal, begin)
    await journal.decide("q", {"approved": True}, "d")
    assert await journal.decide("q", {"approved": True}, "d") == Repeated(None)
    assert await journal.decide("q", {"approved": False}, "d") == KeyReused()
    await journal.save(Commit(fence, 1, ack=["d"], replies={"d": {"done": 1}}))
    assert await journal.decide("q", {"approved": True}, "d") == Repeated({"done": 1})


async def test_a_decision_may_not_use_the_key_of_a_message(journal: Journal, begin: Any) -> None:
    await ask(journal, begin)
    assert await journal.decide("q", {"approved": True}, "first") == KeyReused()
    question = await question_of(journal, "q")
    assert question.state == "pending"


async def test_decision_about_an_unknown_question_is_unknown(journal: Journal) -> None:
    assert await journal.decide("q", {}, "d") == Unknown()
    assert await journal.question("q") is None


@pytest.mark.parametrize(("now", "in_time"), [(99.0, True), (100.0, False), (101.0, False)])
async def test_an_overdue_question_is_not_decided(
    journal: Journal, begin: Any, wall: Any, now: float, in_time: bool
) -> None:
    await ask(journal, begin, expires=100.0)
    wall.now = now
    answer = await journal.decide("q", {"approved": True}, "d")
    assert isinstance(answer, Won if in_time else Already)
    question = await question_of(journal, "q")
    assert question.state == ("decided" if in_time else "pending")
    assert len(await journal.inbox("s")) == in_time


async def test_of_many_decisions_at_once_one_wins(journal: Journal, begin: Any) -> None:
    fence = await begin()
    for attempt in range(40):
        question = f"q{attempt}"
        await journal.save(Commit(fence, 1, questions=[NewQuestion(question, "tool", {})]))
        answers: list[Any] = []

        async def decide(by: str, question: str = question, answers: list[Any] = answers) -> None:
            answers.append(await journal.decide(question, {"by": by}, f"{question}/{by}"))

        async with trio.open_nursery() as nursery:
            for by in "abcd":
                nursery.start_soon(decide, by)
        (won,) = [each for each in answers if isinstance(each, Won)]
        assert answers.count(Already(won.question)) == 3
        (command,) = [c for c in await journal.inbox("s") if c.body["question"] == question]
        assert command.body["decision"] == won.question.decision


async def test_deciding_and_closing_exclude_each_other(journal: Journal, begin: Any) -> None:
    fence = await begin()
    outcomes = set()
    for attempt in range(60):
        question = f"q{attempt}"
        await journal.save(Commit(fence, 1, questions=[NewQuestion(question, "tool", {})]))
        results: dict[str, Any] = {}

        async def decide(question: str = question, results: dict[str, Any] = results) -> None:
            results["decide"] = await journal.decide(question, {}, question)

        async def close(question: str = question, results: dict[str, Any] = results) -> None:
            try:
                results["close"] = await journal.save(
                    Commit(fence, 1, questions=[CloseQuestion(question, "void")])
                )
            except QuestionTaken:
                results["close"] = None

        async with trio.open_nursery() as nursery:
            for each in (decide, close) if attempt % 2 else (close, decide):
                nursery.start_soon(each)
        decided = isinstance(results["decide"], Won)
        closed = isinstance(results["close"], Saved)
        outcomes.add(decided)
        assert decided != closed
        kept = await question_of(journal, question)
        assert kept.state == ("decided" if decided else "void")
        assert (question in {each.key for each in await journal.inbox("s")}) == decided
    assert outcomes == {True, False}


async def test_refused_command_gives_its_key_back(journal: Journal, begin: Any) -> None:
    fence = await begin()
    await journal.deliver(NewCommand("s", "no", "message", {"n": 1}))
    await journal.deliver(NewCommand("s", "later", "message", {}))
    await journal.save(Commit(fence, 1, refuse={"no": {"error": 1}, "nobody": {}}))
    assert [command.key for command in await journal.inbox("s")] == ["later"]
    assert await journal.stored_reply("s", "no") == {"error": 1}
    assert await journal.deliver(NewCommand("s", "no", "message", {"n": 2})) == Accepted()
    assert [command.key for command in await journal.inbox("s")] == ["later", "no"]
    assert await journal.stored_reply("s", "no") is None


async def test_refusals_can_be_read_for_a_time(journal: Journal, begin: Any, wall: Any) -> None:
    fence = await begin()
    for key in ("early", "late"):
        await journal.deliver(NewCommand("s", key, "message", {}))
        await journal.save(Commit(fence, 1, refuse={key: {"error": key}}))
        assert await journal.stored_reply("s", "early") == {"error": "early"}
        wall.now += REFUSAL_SECONDS
    wall.now += 0.1
    await journal.deliver(NewCommand("s", "last", "message", {}))
    await journal.save(Commit(fence, 1, refuse={"last": {}}))
    for key in ("early", "late"):
        with pytest.raises(UnknownCommand):
            await journal.stored_reply("s", key)


async def test_delete_returns_the_keys_of_open_commands(journal: Journal, begin: Any) -> None:
    fence = await begin()
    for key in ("a", "b", "c"):
        await journal.deliver(NewCommand("s", key, "message", {}))
    await journal.save(Commit(fence, 1, ack=["b"]))
    assert await journal.delete(fence) == ("a", "c")
    assert await journal.inbox("s") == ()
