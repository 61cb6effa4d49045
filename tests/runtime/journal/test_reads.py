"""The contract: what is written is found again, by stream, page, state and time; and forgotten when told."""

from __future__ import annotations

import base64
import math
from typing import Any

import pytest

from stopgo.runtime.journal import passage, question
from stopgo.runtime.journal.errors import BadCursor
from stopgo.runtime.journal.passage import MOST_STREAMS, WantedEvents
from stopgo.runtime.journal.protocol import (
    Commit,
    Journal,
    Marks,
    NewCommand,
    NewEvent,
    NewIntent,
    StreamMark,
)
from stopgo.runtime.journal.question import MOST_DUE, CloseQuestion, NewQuestion
from stopgo.runtime.journal.summary import MOST_BEGINNING, Among, Summary
from tests.runtime.journal.kept import claimed, intents_of, reply_of, row_of

# ------------------------------------------------------------------------- events


async def test_events_are_read_after_a_seq_and_up_to_a_limit(journal: Journal, begin: Any) -> None:
    fence = await begin()
    await journal.save(Commit(fence, 1, [NewEvent("e", {"n": number}) for number in range(2, 11)]))

    async def seqs(*args: Any) -> list[int]:
        return [each.seq for each in await journal.events_since("s", *args)]

    assert await seqs(0) == list(range(1, 11))
    assert await seqs(7) == [8, 9, 10]
    assert await seqs(10) == await seqs(2**80) == []
    assert await seqs(-5) == list(range(1, 11))
    assert await seqs(2, 3) == [3, 4, 5]
    assert await seqs(2, 100) == list(range(3, 11))
    assert await seqs(0, 0) == []
    assert await journal.events_since("nobody", 0) == ()


async def test_long_streams_are_read_whole(journal: Journal, begin: Any) -> None:
    fence = await begin()
    seq = 1
    for _ in range(5):
        await journal.save(Commit(fence, seq, [NewEvent("e", {"text": "x" * 700}) for _ in range(90)]))
        seq += 90
    await journal.save(Commit(fence, seq, [NewEvent("e", {"text": "x" * 200_000})] * 2))
    seq += 2
    await journal.save(Commit(fence, seq, [NewEvent("e", {})] * 350))
    seq += 350
    assert [each.seq for each in await journal.events_since("s", 0)] == list(range(1, seq + 1))
    assert [each.seq for each in await journal.events_since("s", 5, 300)] == list(range(6, 306))


# ------------------------------------------------------------------------ streams


async def test_ids_that_begin_alike_are_found(journal: Journal, begin: Any) -> None:
    names = [f"0a1b2c3d-{number:04}-4000-8000-000000000000" for number in range(3)]
    others = ["0a1b2c3", "0a1b2c3c-ffff-4000-8000-000000000000", "0a1b2c3e-0000-4000-8000-000000000000"]
    for name in (*names, *others, "0a1b2c3dx"):
        fence = await begin(name)
        await journal.save(
            Commit(fence, 1, [NewEvent("e", {})], questions=[NewQuestion(f"{name}!", "tool", {})])
        )
    assert {*await journal.beginning("0a1b2c3d", "stream")} == {*names}
    assert await journal.beginning(names[1][:13], "stream") == (names[1],)
    assert {*await journal.beginning("0a1b2c3d", "question")} == {f"{name}!" for name in names}
    assert await journal.beginning("ffffffff", "stream") == ()
    for number in range(MOST_BEGINNING):
        await begin(f"0a1b2c3d-1{number:03}-4000-8000-000000000000")
    assert len(await journal.beginning("0a1b2c3d", "stream")) == MOST_BEGINNING


async def fill(begin: Any, wall: Any, number: int) -> list[str]:
    names = [f"s{each:02}" for each in range(number)]
    for index, name in enumerate(names):
        wall.now += index % 2  # some are made in the same moment
        await begin(name, status=("active", "waiting")[index % 2], title=f"Title {index}")
    return names[::-1]


async def pages(journal: Journal, **filters: Any) -> list[list[str]]:
    found, cursor = [], None
    while True:
        page = await journal.list(cursor=cursor, **filters)
        found.append([row.stream for row in page.rows])
        cursor = page.next_cursor
        if cursor is None:
            return found


async def test_streams_are_listed_newest_first_in_pages(journal: Journal, begin: Any, wall: Any) -> None:
    names = await fill(begin, wall, 10)
    assert await pages(journal, limit=4) == [names[:4], names[4:8], names[8:]]
    assert await pages(journal, limit=5) == [names[:5], names[5:]]
    assert await pages(journal) == [names]
    assert await pages(journal, limit=0) == await pages(journal, limit=1) == [[name] for name in names]


async def test_a_row_is_the_same_in_a_list(journal: Journal, begin: Any) -> None:
    await begin("s", status="active", title="T", open=True, body={"a": 1})
    assert (await journal.list()).rows == (await journal.row("s"),)


async def test_new_streams_do_not_disturb_paging(journal: Journal, begin: Any, wall: Any) -> None:
    names = await fill(begin, wall, 6)
    first = await journal.list(limit=3)
    await begin("late")
    second = await journal.list(limit=3, cursor=first.next_cursor)
    assert [row.stream for row in (*first.rows, *second.rows)] == names


async def test_streams_made_after_others_were_deleted_are_not_taken_for_them(
    journal: Journal, begin: Any
) -> None:
    fences = [await begin(name) for name in "abcd"]
    first = await journal.list(limit=1)
    for fence in fences[2:]:
        await journal.delete(fence)
    await begin("e")
    second = await journal.list(cursor=first.next_cursor)
    assert [row.stream for row in second.rows] == ["b", "a"]


async def test_streams_are_filtered_by_status_but_the_tally_counts_all(
    journal: Journal, begin: Any, wall: Any
) -> None:
    names = await fill(begin, wall, 7)
    assert await pages(journal, status="waiting", limit=2) == [[names[1], names[3]], [names[5]]]
    assert await pages(journal, status="no such") == [[]]
    for page in (await journal.list(), await journal.list(status="waiting", q="7", limit=1)):
        assert dict(page.tally) == {"active": 4, "waiting": 3}


async def test_the_tally_follows_every_change(journal: Journal, begin: Any) -> None:
    async def tally() -> dict[str, int]:
        return dict((await journal.list()).tally)

    first, second = await begin("a", status="active"), await begin("b", status="active")
    await journal.deliver(NewCommand("unwritten", "k", "message", {}, new=True))
    assert await tally() == {"active": 2}
    await journal.save(Commit(first, 1, summary=Summary("done", "", open=False, body={})))
    await journal.save(Commit(second, 1, [NewEvent("a", {})]))
    assert await tally() == {"active": 1, "done": 1}
    await journal.delete(second)
    assert await tally() == {"done": 1}
    unwritten = await claimed(journal, "unwritten")
    await journal.save(Commit(unwritten, 0, summary=Summary("early", "", open=False, body={})))
    assert await tally() == {"done": 1}, "a stream without event is not listed"
    await journal.save(Commit(unwritten, 0, [NewEvent("a", {})]))
    assert await tally() == {"done": 1, "early": 1}
    await journal.delete(first)
    assert await tally() == {"early": 1}


@pytest.mark.parametrize(
    ("among", "filters", "found", "tally"),
    [
        (Among("ann"), {}, "dca", {"active": 2, "done": 1}),
        (Among("ann"), {"status": "active"}, "da", {"active": 2, "done": 1}),
        (Among("ann"), {"q": "TITLE c"}, "c", {"active": 2, "done": 1}),
        (Among("ann", ("b", "c", "b", "none")), {}, "dcba", {"active": 3, "done": 1}),
        (Among("ann", ("b", "e")), {"status": "done"}, "ec", {"active": 3, "done": 2}),
        (Among("nobody", ("b", "e")), {}, "eb", {"active": 1, "done": 1}),
        (Among("nobody", ("b", "e")), {"q": "title b"}, "b", {"active": 1, "done": 1}),
        (Among("nobody"), {}, "", {}),
        (Among(""), {}, "", {}),
        (Among("", ("e",)), {}, "e", {"done": 1}),
    ],
)
async def test_streams_of_an_owner_or_with_a_name_are_listed_and_counted(
    journal: Journal, begin: Any, among: Among, filters: Any, found: str, tally: Any
) -> None:
    for name, owner, status in (
        *(("a", "ann", "active"), ("b", "bob", "active"), ("c", "ann", "done")),
        *(("d", "ann", "active"), ("e", "", "done")),
    ):
        await begin(name, owner=owner, status=status, title=f"Title {name}")
    await journal.deliver(NewCommand("none", "k", "message", {}, new=True))
    for limit in (1, 2, 50):
        listed = await pages(journal, among=among, limit=limit, **filters)
        assert "".join(name for page in listed for name in page) == found
    assert dict((await journal.list(among=among, **filters)).tally) == tally


async def test_an_owner_is_kept_and_can_change(journal: Journal, begin: Any) -> None:
    async def listed(owner: str) -> tuple[list[str], dict[str, int]]:
        page = await journal.list(among=Among(owner))
        return [row.stream for row in page.rows], dict(page.tally)

    fence = await begin("s", owner="ann", status="active")
    await journal.save(Commit(fence, 1, [NewEvent("a", {})]))
    assert await listed("ann") == (["s"], {"active": 1})
    await journal.save(Commit(fence, 2, summary=Summary("active", "", open=False, body={}, owner="bob")))
    assert (await row_of(journal, "s")).summary == Summary("active", "", open=False, body={}, owner="bob")
    assert (await listed("ann"), await listed("bob")) == (([], {}), (["s"], {"active": 1}))
    assert dict((await journal.list()).tally) == {"active": 1}
    await journal.save(Commit(fence, 2, summary=Summary("done", "", open=False, body={}, owner="bob")))
    assert await listed("bob") == (["s"], {"done": 1})
    await journal.delete(fence)
    assert await listed("bob") == ([], {})


@pytest.mark.parametrize(
    ("q", "found"),
    [
        ("title", True),
        ("TITLE", True),
        ("100%", True),
        ("0%_o", True),
        ("straße", True),
        ("STRASSE", True),
        ("ÉTÉ", True),
        ("", True),
        ("a%e", False),
        ("_", True),
        ("__", False),
        ("nothing", False),
        ("\\", False),
    ],
)
async def test_titles_are_searched_as_text(journal: Journal, begin: Any, q: str, found: bool) -> None:
    await begin("s", title="A Title of 100%_or Straße, été")
    await begin("empty", title="")
    names = [row.stream for row in (await journal.list(q=q)).rows]
    assert ("s" in names) == found
    assert ("empty" in names) == (q == "")


def coded(json: str) -> str:
    return base64.urlsafe_b64encode(json.encode()).decode()


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "!!!", "é", "W10=" * 1000]
    + [coded(json) for json in ("not json", "[1,2]", "5", "[" * 100_000)]
    + [
        coded(f'["{listing}",{number}]')
        for listing in ("streams", "questions")
        for number in ("-1", "1e3", "true", f"{2**63}", "null")
    ],
    ids=lambda cursor: cursor[:20],
)
async def test_a_cursor_is_ours_or_refused(journal: Journal, begin: Any, cursor: str) -> None:
    await begin()
    for listing in (journal.list, journal.questions):
        with pytest.raises(BadCursor):
            await listing(cursor=cursor)


async def test_a_cursor_belongs_to_its_list(journal: Journal, begin: Any, wall: Any) -> None:
    await fill(begin, wall, 3)
    cursor = (await journal.list(limit=1)).next_cursor
    with pytest.raises(BadCursor):
        await journal.questions(cursor=cursor)


# ---------------------------------------------------------------------- questions


async def test_questions_are_listed_oldest_first_in_pages(journal: Journal, begin: Any) -> None:
    fences = {name: await begin(name) for name in "ab"}
    for number in range(7):
        await journal.save(
            Commit(
                fences["ab"[number % 2]],
                1,
                questions=[NewQuestion(f"q{number}", ("tool", "proxy")[number % 3 == 0], {})],
            )
        )
    await journal.decide("q1", {}, "d")
    await journal.save(Commit(fences["a"], 1, questions=[CloseQuestion("q2", "void")]))

    async def ids(**filters: Any) -> list[str]:
        found: list[str] = []
        cursor = None
        while True:
            page = await journal.questions(limit=2, cursor=cursor, **filters)
            found += [each.id for each in page.questions]
            cursor = page.next_cursor
            if cursor is None:
                return found

    assert await ids() == ["q0", "q3", "q4", "q5", "q6"]
    assert await ids(state=None) == [f"q{number}" for number in range(7)]
    assert await ids(state="decided") == ["q1"]
    assert await ids(kind="proxy") == ["q0", "q3", "q6"]
    assert await ids(streams=["b"]) == ["q3", "q5"]
    assert await ids(streams=["b", "a", "b", "c"], state=None) == [f"q{number}" for number in range(7)]
    assert await ids(streams=["a"], state="void") == ["q2"]
    assert await ids(streams=[]) == []
    assert (await journal.questions(limit=5)).next_cursor is None  # there is no sixth


async def test_a_page_of_questions_ends_at_its_bound_in_bytes(
    journal: Journal, begin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(question, "MOST_BYTES", 250)
    fence = await begin()
    texts = [100, 100, 100, 1000, 1, 1]
    for number, length in enumerate(texts):
        await journal.save(
            Commit(fence, 1, questions=[NewQuestion(f"q{number}", "tool", {"text": "x" * length})])
        )
    found: list[list[str]] = []
    cursor: str | None = None
    while not found or cursor is not None:
        page = await journal.questions(limit=50, cursor=cursor)
        found.append([each.id for each in page.questions])
        cursor = page.next_cursor
    assert found == [["q0", "q1"], ["q2"], ["q3"], ["q4", "q5"]]
    for number in range(6):
        await journal.decide(f"q{number}", {}, f"d{number}")
    assert [each.id for each in (await journal.decided(50)).questions] == ["q5", "q4"]


async def test_a_page_can_end_behind_each_of_its_streams(journal: Journal, begin: Any, wall: Any) -> None:
    names = await fill(begin, wall, 5)
    page = await journal.list()
    for count in range(1, 6):
        first = page.first(count)
        rest = () if first.next_cursor is None else (await journal.list(cursor=first.next_cursor)).rows
        assert [row.stream for row in (*first.rows, *rest)] == names
        assert len(first.rows) == count


async def test_decided_questions_are_listed_newest_first(journal: Journal, begin: Any) -> None:
    fences = {name: await begin(name) for name in "ab"}
    for number in range(6):
        await journal.save(
            Commit(fences["ab"[number % 2]], 1, questions=[NewQuestion(f"q{number}", "tool", {})])
        )
    for number in (4, 1, 3, 0):
        await journal.decide(f"q{number}", {}, f"d{number}")
    await journal.save(Commit(fences["a"], 1, questions=[CloseQuestion("q2", "void")]))
    assert [each.id for each in (await journal.decided(9)).questions] == ["q4", "q3", "q1", "q0"]
    page = await journal.decided(2)
    assert [each.id for each in page.questions] == ["q4", "q3"]
    assert page.next_cursor is None


async def test_questions_put_after_others_were_deleted_are_not_taken_for_them(
    journal: Journal, begin: Any
) -> None:
    kept, deleted = await begin("kept"), await begin("deleted")
    await journal.save(Commit(kept, 1, questions=[NewQuestion("a", "tool", {})]))
    await journal.save(
        Commit(deleted, 1, questions=[NewQuestion("b", "tool", {}), NewQuestion("c", "tool", {})])
    )
    first = await journal.questions(limit=2)
    await journal.delete(deleted)
    await journal.save(Commit(kept, 1, questions=[NewQuestion("d", "tool", {})]))
    second = await journal.questions(cursor=first.next_cursor)
    assert [each.id for each in second.questions] == ["d"]


async def test_due_returns_expired_pending_questions(journal: Journal, begin: Any, wall: Any) -> None:
    wall.now = 0.0
    fence = await begin()
    await journal.save(
        Commit(
            fence,
            1,
            questions=[
                NewQuestion("late", "tool", {}, expires=30.0),
                NewQuestion("never", "tool", {}),
                NewQuestion("early", "tool", {}, expires=10.0),
                NewQuestion("decided", "tool", {}, expires=10.0),
                NewQuestion("closed", "tool", {}, expires=10.0),
            ],
        )
    )
    await journal.decide("decided", {}, "d")
    await journal.save(Commit(fence, 1, questions=[CloseQuestion("closed", "expired")]))
    for now, expired, next_in in (
        (9.5, [], 0.5),
        (10.0, ["early"], 20.0),
        (30.0, ["early", "late"], math.inf),
    ):
        wall.now = now
        page = await journal.due()
        assert ([each.id for each in page.questions], page.next_in) == (expired, next_in)


async def test_due_questions_come_in_pages(journal: Journal, begin: Any) -> None:
    fence = await begin()
    questions = [NewQuestion(f"q{number}", "tool", {}, expires=200.0 - number // 3) for number in range(120)]
    await journal.save(Commit(fence, 1, questions=questions))
    first = (await journal.due()).questions
    second = (await journal.due(first[-1])).questions
    assert (len(first), len(second)) == (MOST_DUE, 20)
    expected = sorted(range(120), key=lambda number: (-(number // 3), number))
    assert [each.id for each in (*first, *second)] == [f"q{number}" for number in expected]


# ---------------------------------------------------------------------- start-up


async def test_marks_differ_after_each_event_and_each_command(journal: Journal, begin: Any) -> None:
    async def mark() -> StreamMark:
        found = await journal.marks(["s", "unknown", "s"], ())
        assert found.streams.keys() == {"s"}
        assert found == await journal.marks({"s"}, [])
        return found.streams["s"]

    fence = await begin("s")
    await begin("other")
    seen = [await mark()]
    assert seen[0] == StreamMark((await row_of(journal, "s")).created, 1, None)
    for key in ("b", "a"):
        await journal.deliver(NewCommand("s", key, "message", {}))
        seen.append(await mark())
    await journal.save(Commit(fence, 1, [NewEvent("a", {})]))
    seen.append(await mark())
    assert [(each.last_seq, each.command) for each in seen] == [(1, None), (1, "b"), (1, "a"), (2, "a")]
    await journal.save(Commit(fence, 2, ack=["a"]))
    assert (await mark()).command == "b"
    await journal.delete(fence)
    assert await journal.marks(["s"], ()) == Marks({}, frozenset())


async def test_marks_say_which_commands_are_answered(journal: Journal, begin: Any) -> None:
    fence = await begin("s")
    commands = [("s", key) for key in ("replied", "refused", "waits", "acknowledged", "unknown")]
    for _, key in commands[:-1]:
        await journal.deliver(NewCommand("s", key, "message", {}))
    await journal.save(
        Commit(fence, 1, ack=["acknowledged"], replies={"replied": {}}, refuse={"refused": {"no": 1}})
    )
    commands.append(("unknown", "waits"))
    found = await journal.marks((), commands)
    assert found == Marks({}, frozenset({commands[0], commands[1], commands[4], commands[5]}))


async def test_open_work_lists_streams_to_wake(journal: Journal, begin: Any) -> None:
    quiet, waiting, running = await begin("quiet"), await begin("waiting"), await begin("running", open=True)
    await journal.deliver(NewCommand("waiting", "k", "message", {}))
    await journal.deliver(NewCommand("unwritten", "k", "message", {}, new=True))
    assert await journal.open_work() == ("waiting", "running", "unwritten")
    await journal.save(Commit(waiting, 1, ack=["k"]))
    await journal.save(Commit(running, 1, summary=Summary("", "", open=False, body={})))
    await journal.save(Commit(quiet, 1, summary=Summary("", "", open=True, body={})))
    assert await journal.open_work() == ("quiet", "unwritten")


async def test_deleting_forgets_everything_of_one_stream(journal: Journal, begin: Any) -> None:
    fence, other = await begin("s", status="active", open=True, title="T"), await begin("t", status="active")
    for name, owner in (("s", fence), ("t", other)):
        await journal.deliver(NewCommand(name, "k", "message", {}))
        await journal.save(
            Commit(
                owner,
                1,
                [NewEvent("a", {})],
                questions=[NewQuestion(f"q-{name}", "tool", {}, expires=1.0)],
                intents=[NewIntent("c", 1, "once", {})],
                replies={"k": {}},
            )
        )
    await journal.delete(fence)
    assert await journal.row("s") is None
    assert await journal.events_since("s", 0) == ()
    assert await journal.inbox("s") == ()
    assert await reply_of(journal, "s", "k") is None
    assert await intents_of(journal, "s") == ()
    assert await journal.question("q-s") is None
    assert [each.id for each in (await journal.questions(state=None)).questions] == ["q-t"]
    assert [each.id for each in (await journal.due()).questions] == ["q-t"]
    assert await journal.open_work() == ("t",)
    page = await journal.list()
    assert ([row.stream for row in page.rows], dict(page.tally)) == (["t"], {"active": 1})
    assert len(await journal.events_since("t", 0)) == 2
    assert await begin("s"), "its name, keys and question ids are free again"


# ----------------------------------------------------------------------- passages


async def passages(journal: Journal, wanted: WantedEvents) -> list[list[tuple[str, int]]]:
    """The streams and seqs of each passage."""
    found, at, more = [], None, True
    while more:
        read = await journal.passage(wanted, at)
        found.append([(each.stream, each.seq) for each in read.events])
        at, more = read.next, read.next is not None
    return found


async def test_passages_have_all_events_of_some_types_newest_stream_first(
    journal: Journal, begin: Any, wall: Any
) -> None:
    for name in ("s1", "s2", "s3"):
        fence = await begin(name)
        await journal.save(Commit(fence, 1, [NewEvent("x", {"n": 1}), NewEvent("y", {}), NewEvent("x", {})]))
        wall.now += 10
    expected = [("s3", 2), ("s3", 4), ("s2", 2), ("s2", 4), ("s1", 2), ("s1", 4)]
    assert await passages(journal, WantedEvents(types=["x"])) == [expected]
    [first] = (await journal.passage(WantedEvents(types=["y"], since=wall.now - 25))).events[1:]
    assert (first.stream, first.type, first.body, first.at) == ("s2", "y", "{}", wall.now - 20)
    halves = [await passages(journal, WantedEvents(types=["x"], part=part, of=2)) for part in range(2)]
    assert sorted(each for half in halves for each in half[0]) == sorted(expected)
    assert await passages(journal, WantedEvents(types=["z"])) == [[]]


async def test_passages_end_within_streams_and_between_them(
    journal: Journal, begin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await passages(journal, WantedEvents(types=["x"])) == [[]]
    monkeypatch.setattr(passage, "MOST_EVENTS", 4)
    for name in ("s1", "s2", "s3"):
        fence = await begin(name)
        await journal.save(Commit(fence, 1, [NewEvent("x", {})] * (6 if name == "s2" else 3)))
    found = await passages(journal, WantedEvents(types=["x", "created"]))
    assert [len(each) for each in found][:3] == [4, 4, 4]
    everything = [each for part in found for each in part]
    lengths = {"s3": 4, "s2": 7, "s1": 4}
    assert everything == [(name, seq) for name, last in lengths.items() for seq in range(1, last + 1)]


async def test_passages_end_after_so_many_streams(journal: Journal, begin: Any) -> None:
    names = [f"s{number:03}" for number in range(MOST_STREAMS + 1)]
    for name in names:
        await begin(name)
    first, second = await passages(journal, WantedEvents(types=["created"]))
    assert (len(first), [name for name, _ in (*first, *second)]) == (MOST_STREAMS, names[::-1])


async def test_passages_end_after_so_many_bytes(
    journal: Journal, begin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("s1", "s2"):
        fence = await begin(name)
        sizes = (10, 1000, 10, 10)
        await journal.save(Commit(fence, 1, [NewEvent("x", {"text": size * "é"}) for size in sizes]))
    monkeypatch.setattr(passage, "MOST_BYTES", 300)
    found = await passages(journal, WantedEvents(types=["x"]))
    assert found == [
        [("s2", 2), ("s2", 3)],
        [("s2", 4), ("s2", 5), ("s1", 2), ("s1", 3)],
        [("s1", 4), ("s1", 5)],
    ]
    monkeypatch.setattr(passage, "MOST_BYTES", 1)
    found = await passages(journal, WantedEvents(types=["x"]))
    assert [each for part in found for each in part] == [
        (name, seq) for name in ("s2", "s1") for seq in range(2, 6)
    ]
    assert max(map(len, found)) == 1


async def test_passages_have_events_of_unknown_types(journal: Journal, begin: Any) -> None:
    fence = await begin("s1")
    await journal.save(Commit(fence, 1, [NewEvent(type, {}) for type in ("x", "y", "z")]))
    wanted = WantedEvents(types=["x"], known=["created", "x", "y"])
    assert await passages(journal, wanted) == [[("s1", 2), ("s1", 4)]]
    assert await passages(journal, WantedEvents(types=["x"])) == [[("s1", 2)]]


def test_passages_name_streams_whose_number_of_events_is_damaged() -> None:
    heads = [(3, "c", "x"), (2, "b", 4), (1, "a", -1)]
    chosen, next = passage.spans(heads, None)
    read = passage.passage(chosen, next, [(2, 1, "x", 0.0, "{}")], False)
    assert [(each.stream, each.seq) for each in read.events] == [("c", 0), ("b", 1), ("a", 0)]
    assert read.events[0].body == "'x' is no number of events"
    cut = passage.passage(chosen, next, [(2, 1, "x", 0.0, "{}")], True)
    assert (cut.next, [each.stream for each in cut.events]) == ((2, 1), ["c", "b"])
