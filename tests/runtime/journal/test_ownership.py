"""The contract: two members on one store. One of them owns a stream, as long as its lease lasts."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from stopgo.runtime.event_bus import Subscription
from stopgo.runtime.journal.errors import Fenced, NeedsNewer, UnknownStream
from stopgo.runtime.journal.ownership import Fence, Hint, Owned
from stopgo.runtime.journal.protocol import Commit, Journal, NewCommand, NewEvent
from stopgo.runtime.journal.question import NewQuestion
from stopgo.runtime.journal.sqlite.sqlite_journal import open_sqlite
from stopgo.runtime.journal.summary import Summary
from stopgo.runtime.journal.vote import Vote
from tests.runtime.journal.conftest import LEASE, LOCAL_STORES, Members, another
from tests.runtime.journal.kept import claimed, row_of


async def begun(member: Journal, stream: str = "s", *, open: bool = False, rests: bool = False) -> Fence:
    """A stream with one event that the member owns."""
    await member.deliver(NewCommand(stream, "first", "message", {}, new=True))
    fence = await claimed(member, stream)
    summary = Summary("active", "", open, {}, rests=rests)
    await member.save(Commit(fence, 0, [NewEvent("created", {})], ack=["first"], summary=summary))
    return fence


def rebuilt(fence: Fence) -> Fence:
    return Fence(fence.stream, fence.owner, fence.epoch)


# ----------------------------------------------------------------------------- claims


async def test_fence_is_a_value(members: Members) -> None:
    fence = await begun(members.a)
    assert await members.b.owns(rebuilt(fence))
    await members.a.save(Commit(rebuilt(fence), 1, [NewEvent("a", {})]))
    assert (await row_of(members.b, "s")).last_seq == 2


Replace = Callable[[Members, Fence], Awaitable[object]]


async def _claim_again(members: Members, fence: Fence) -> None:
    await claimed(members.a, "s")


async def _take_over(members: Members, fence: Fence) -> None:
    await members.a.release(fence)
    await claimed(members.b, "s")


async def _release(members: Members, fence: Fence) -> None:
    assert await members.a.release(fence)


async def _create_anew(members: Members, fence: Fence) -> None:
    await members.a.delete(fence)
    await members.a.deliver(NewCommand("s", "first", "message", {}, new=True))


async def _create_anew_and_claim(members: Members, fence: Fence) -> None:
    await _create_anew(members, fence)
    await claimed(members.a, "s")


@pytest.mark.parametrize(
    "replace", [_claim_again, _take_over, _release, _create_anew, _create_anew_and_claim]
)
async def test_earlier_fence_is_invalid(members: Members, replace: Replace) -> None:
    fence = await begun(members.a)
    await replace(members, fence)
    assert not await members.b.owns(rebuilt(fence))
    for write in (
        members.a.save(Commit(fence, 1)),
        members.b.save(Commit(rebuilt(fence), 1)),
        members.a.delete(fence),
    ):
        with pytest.raises(Fenced):
            await write


async def test_living_owner_keeps_its_stream(members: Members) -> None:
    fence = await begun(members.a)
    assert await members.b.claim("s") == Owned("a")
    await members.a.save(Commit(fence, 1, [NewEvent("a", {})]))


@pytest.mark.parametrize(
    ("passed", "renewed", "free"),
    [(LEASE - 0.1, False, False), (LEASE, False, True), (LEASE, True, False), (3 * LEASE, True, False)],
)
async def test_stream_is_free_when_the_lease_of_its_owner_has_run_out(
    members: Members, passed: float, renewed: bool, free: bool
) -> None:
    old = await begun(members.a)
    members.wall.now += passed
    if renewed:
        assert (await members.a.renew()).now == members.wall.now
    claim = await members.b.claim("s")
    assert isinstance(claim, Fence) == free
    assert await members.a.owns(old) != free


async def test_owner_may_save_until_its_stream_is_claimed(members: Members) -> None:
    fence = await begun(members.a)
    members.wall.now += 2 * LEASE
    await members.a.save(Commit(fence, 1, [NewEvent("a", {})]))
    await claimed(members.b, "s")
    with pytest.raises(Fenced):
        await members.a.save(Commit(fence, 2))


async def test_member_that_leaves_gives_up_its_streams(members: Members) -> None:
    await begun(members.a)
    assert set(await members.b.living()) == {"a", "b"}
    await members.a.leave()
    assert set(await members.b.living()) == {"b"}
    await claimed(members.b, "s")


async def test_epochs_rise(members: Members) -> None:
    fence, epochs = await begun(members.a), []
    for member in (members.a, members.b, members.b, members.a):
        epochs.append(fence.epoch)
        await members.a.release(fence)
        await members.b.release(fence)
        fence = await claimed(member, "s")
    assert epochs == sorted(set(epochs))


async def test_version_that_a_stream_demands(members: Members) -> None:
    """It is that of the newest member that has saved."""
    old, middle, new = members.a, another(members.a, "m", version=1), another(members.a, "n", version=2)
    await old.release(await begun(old))
    await new.release(await claimed(new, "s"))
    await old.release(await claimed(old, "s"))  # a claim alone demands nothing
    for member, held in ((middle, [old]), (new, [old, middle]), (new, [old, middle])):
        fence = await claimed(member, "s")
        await member.save(Commit(fence, 1))
        await member.release(fence)
        for each in held:
            assert await each.claim("s") == Owned("")
    assert isinstance(await new.claim("s"), Fence)
    assert await old.claim("s") == Owned(""), "the reason that lasts"


Put = Callable[[Journal, str], Awaitable[object]]

COMMANDS: dict[str, Put] = {
    "message": lambda member, key: member.deliver(NewCommand("s", key, "message", {})),
    "decision": lambda member, key: member.decide("q", {}, key),
    "vote": lambda member, key: member.decide(
        "q", {}, key, vote=Vote(voter="v", credential="", shown="x", subject="x", needed=2)
    ),
}


@pytest.mark.parametrize("put", COMMANDS.values(), ids=COMMANDS.keys())
async def test_commands_that_only_a_newer_member_could_execute(members: Members, put: Put) -> None:
    """They are refused while none lives, and wait for it while one does."""
    old, new = members.a, another(members.a, "n", version=2)
    fence = await begun(new)
    await new.save(Commit(fence, 1, questions=[NewQuestion("q", "tool", {})]))
    await new.release(fence)
    assert await old.need_newer() == (await old.fleet()).need_newer == 1
    with pytest.raises(NeedsNewer):
        await put(old, "k")
    assert await old.inbox("s") == ()
    asked = await old.question("q")
    assert asked is not None
    assert (asked.state, asked.votes) == ("pending", ())
    await new.renew()
    assert await old.need_newer() == 0
    await put(old, "k")
    assert [command.key for command in await new.inbox("s")] == ["k"]
    members.wall.now += 2 * LEASE
    assert await old.need_newer() == 1
    await put(old, "k")  # a repetition is answered
    with pytest.raises(NeedsNewer):
        await old.deliver(NewCommand("s", "l", "message", {}))
    assert await new.need_newer() == 0


# ---------------------------------------------------------------------------- release


async def test_stream_with_open_commands_is_not_released(members: Members) -> None:
    fence = await begun(members.a)
    await members.b.deliver(NewCommand("s", "k", "message", {}))
    await members.b.deliver(NewCommand("s", "l", "message", {}))
    assert not await members.a.release(fence)
    assert not await members.a.release(fence, ["l"])
    assert await members.b.claim("s") == Owned("a")
    await members.a.save(Commit(fence, 1, ack=["k"]))
    assert await members.a.release(fence, ["k", "l"])
    assert await members.a.release(fence), "the answer to the first release may have been lost"
    await claimed(members.b, "s")
    assert await members.a.release(fence)
    assert await members.a.claim("s") == Owned("b")


@pytest.mark.parametrize("end", ["ack", "refuse"])
@pytest.mark.parametrize("put", COMMANDS.values(), ids=COMMANDS.keys())
async def test_open_command_holds_its_own_stream_until_it_ends(members: Members, put: Put, end: str) -> None:
    fence, other = await begun(members.a), await begun(members.a, "other")
    await members.a.save(Commit(fence, 1, questions=[NewQuestion("q", "tool", {})]))
    await put(members.b, "k")
    assert not await members.a.release(fence)
    assert not await members.a.release(fence, ["first", "l"])
    assert await members.a.owns(fence)
    assert await members.a.release(other)
    if end == "ack":
        await members.a.save(Commit(fence, 1, ack=["k"]))
    else:
        await members.a.save(Commit(fence, 1, refuse={"k": {"code": "no"}}))
    assert await members.a.release(fence)
    assert not await members.a.owns(fence)
    await claimed(members.b, "s")


# ------------------------------------------------------------------------------- work


@pytest.mark.parametrize(
    ("owner", "is_listed"),
    [("b", True), ("a", False), ("dead", True), ("", True)],
    ids=["mine", "other", "dead", "free"],
)
async def test_open_work_is_what_a_member_may_own(members: Members, owner: str, is_listed: bool) -> None:
    dead = another(members.a, "dead")
    named = {"a": members.a, "b": members.b, "dead": dead, "": members.a}
    await dead.renew()
    fences = [await begun(named[owner], "open", open=True), await begun(named[owner], "asked")]
    await begun(named[owner], "idle")
    if not owner:
        for fence in fences:
            await members.a.release(fence)
    await members.a.deliver(NewCommand("asked", "k", "message", {}))
    await members.a.deliver(NewCommand("new", "k", "create", {}, new=True))
    members.wall.now += LEASE
    await members.a.renew()
    await members.b.renew()
    assert await members.b.open_work() == (("open", "asked", "new") if is_listed else ("new",))
    assert await members.b.open_work(but=("open", "asked")) == (("asked", "new") if is_listed else ("new",))
    await members.b.leave()
    if is_listed:
        assert await members.a.open_work() == ("open", "asked", "new"), "without a lease, b owns nothing"


# ------------------------------------------------------------------------------ hints


def hints_of(live: Subscription) -> list[Any]:
    found = list(live._events)
    live.skip()
    return found


at_once = pytest.mark.parametrize("members", LOCAL_STORES, indirect=True)
"""The stores that give each hint, at once."""


@at_once
async def test_other_member_gets_hints(members: Members) -> None:
    with members.a.watch() as at_a, members.b.watch() as at_b:
        fence = await begun(members.a)
        assert hints_of(at_b) == [Hint("s", "a"), Hint("s", "a", 0)]
        await members.a.save(Commit(fence, 1, [NewEvent("a", {})], questions=[NewQuestion("q", "tool", {})]))
        assert hints_of(at_b) == [Hint("s", "a", 1)]
        await members.a.save(Commit(fence, 2, summary=Summary("active", "", False, {})))
        assert hints_of(at_b) == [Hint("s", "a")]
        await members.b.decide("q", {}, "d")
        assert (hints_of(at_a), hints_of(at_b)) == ([Hint("s", "b")], [])
        await members.a.save(Commit(fence, 2, ack=["d"]))
        await members.a.release(fence)
        assert hints_of(at_b) == [Hint("s", "a")] * 2
        await members.b.delete(await claimed(members.b, "s"))
        assert (hints_of(at_a), hints_of(at_b)) == ([Hint("s", "b")], [])


@at_once
@pytest.mark.parametrize(
    "request_",
    [
        lambda a: a.deliver(NewCommand("s", "first", "message", {})),
        lambda a: a.deliver(NewCommand("s", "first", "message", {"n": 1})),
        lambda a: a.deliver(NewCommand("s", "k", "message", {}, limit=0)),
        lambda a: a.deliver(NewCommand("nobody", "k", "message", {})),
        lambda a: a.decide("nobody", {}, "k"),
        lambda a: a.decide("q", {}, "first"),
        lambda a: a.stored_reply("s", "first"),
        lambda a: a.release(Fence("s", "a", 0)),
    ],
)
async def test_request_that_changes_nothing_gives_no_hint(members: Members, request_: Any) -> None:
    fence = await begun(members.a)
    await members.a.save(Commit(fence, 1, questions=[NewQuestion("q", "tool", {})]))
    with members.b.watch() as live:
        await request_(members.a)
        with pytest.raises(Fenced):
            await members.a.save(Commit(fence, 9, [NewEvent("a", {})]))
        assert hints_of(live) == []


@at_once
async def test_too_many_hints_are_lost(members: Members) -> None:
    with members.b.watch() as live:
        for number in range(1000):
            await members.a.deliver(NewCommand(f"s{number}", "k", "create", {}, new=True))
        last = hints_of(live)[-1]
        assert last.stream == "s999"
        assert live.missed > 0


# ------------------------------------------------------------------- only on the disk


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


def epoch_in(directory: Path) -> int:
    with sqlite3.connect(directory / "journal.db") as db:
        [(epoch,)] = db.execute("SELECT epoch FROM stream")
    db.close()
    return int(epoch)


async def test_epoch_is_stored_with_the_first_save(directory: Path, wall: Any) -> None:
    async with open_sqlite(directory, wall=wall, inline=True, member="a") as journal:
        fence = await begun(journal)
        stored = epoch_in(directory)
        assert stored == fence.epoch
        commits: list[int] = []
        journal._writer._on_commit = lambda *_: commits.append(1)  # type: ignore[attr-defined]
        await journal.release(fence)
        fence = await claimed(journal, "s")
        assert commits == [], "a claim writes nothing"
        assert epoch_in(directory) == stored
        await journal.save(Commit(fence, 1, ack=["nobody"]))
        assert epoch_in(directory) == fence.epoch > stored


async def test_fences_end_with_the_process(directory: Path, wall: Any) -> None:
    async with open_sqlite(directory, wall=wall, inline=True, member="a") as journal:
        old = await begun(journal)
    async with open_sqlite(directory, wall=wall, inline=True, member="b") as journal:
        with pytest.raises(Fenced):
            await journal.save(Commit(old, 1))
        new = await claimed(journal, "s")
        assert new.epoch > old.epoch


async def test_claim_needs_a_stream(members: Members) -> None:
    with pytest.raises(UnknownStream):
        await members.a.claim("s")
