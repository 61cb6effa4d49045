"""The extract of a conversation and the events after it are the conversation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stopgo
from stopgo.actors.log.fold import extract
from stopgo.actors.log.fold.state import Conversation, fold
from stopgo.actors.log.fold.stored import read
from stopgo.actors.log.words import events as e
from stopgo.actors.log.words.event_json import decode, encode
from stopgo.actors.log.words.outcomes import Replied
from stopgo.actors.models.messages.messages import ToolCall, Verbatim
from stopgo.actors.tools.pictures import Picture
from stopgo.actors.tools.tool import ToolResult
from stopgo.runtime.journal.errors import StreamDamaged
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.ownership import Fence
from stopgo.runtime.journal.protocol import Commit, Event, NewCommand, NewEvent
from stopgo.runtime.journal.stream_extract import Extract
from stopgo.runtime.json_text import dump, load
from tests.actors.log.test_fold import facts, histories

ID = "c"
FOLDER = Path(stopgo.__file__).parent / "actors"
FOLDING = (
    "log/fold/*.py",
    "log/words/*.py",
    "approvals/*.py",
    "common/stored_json.py",
    "models/messages/*.py",
    "tools/delegation.py",
    "tools/facade.py",
    "tools/needs.py",
    "tools/pictures.py",
    "tools/tool.py",
    "tools/verdict_facts.py",
)
"""The modules that read events, and those of the values in them: an earlier program leaves out what it does
not know of an approval or a reply."""


def test_the_form_names_the_fold() -> None:
    """An extract that another fold has made is not read.

    If this fails, set `FOLD` to the new digest. Raise `VERSION` if another module has changed what the fold
    makes of an event, for instance the text of an unknown outcome.
    """
    digest = hashlib.sha256()
    for file in sorted(file for each in FOLDING for file in FOLDER.glob(each)):
        lines = [line for line in file.read_text().splitlines() if not line.startswith("FOLD = ")]
        digest.update("\n".join([f"{file.parent.name}/{file.name}", *lines]).encode())
    assert digest.hexdigest()[:8] == extract.FOLD


def stored(events: Iterable[e.LogEvent]) -> list[Event]:
    """What a journal gives back."""
    new = [encode(event) for event in events]
    return [Event(ID, seq, each.type, float(seq), load(dump(each.body))) for seq, each in enumerate(new, 1)]


def whole(state: Conversation) -> dict[str, Any]:
    """Everything but the notes about extracts."""
    return facts(attrs.evolve(state, kept=None, extracted=0))


@given(histories(), st.data())
def test_an_extract_and_the_later_events_are_the_state(
    history: list[e.LogEvent], data: st.DataObject
) -> None:
    rows = stored(history)
    rest = [cut for cut in range(len(rows) + 1) if cut and extract.is_at_rest(fold(ID, rows[:cut]))]
    cut = data.draw(st.sampled_from(rest))
    made = extract.extract_of(fold(ID, rows[:cut]))
    assert made is not None
    state = extract.state_of(ID, made)
    assert state is not None
    assert whole(state) == whole(fold(ID, rows[:cut]))
    for row in rows[cut:]:
        state.apply(decode(row))
    assert whole(state) == whole(fold(ID, rows))


PICTURE = Picture("image/png", "iVBORw0KGgo=")
RICH: list[e.LogEvent] = [
    e.ConversationCreated("s", "prompt", "ann", "context"),
    e.MessageAdded("look \ud83d", "k1", pictures=(PICTURE, PICTURE)),
    e.RunStarted("r", 1, "k1", "t", e.REPLAY_VERSION, True, {"type": "llm"}, by="ann", prompt="new prompt"),
    e.StepFinished.of(
        "1/:1",
        "model",
        "n",
        Replied(
            text="", tool_calls=[ToolCall("c", "t", {"n": 10**30})], verbatim=Verbatim("p", [{"a": 1.0}])
        ),
    ),
    e.ToolStarted("1/:1.0", 1, "t", "s", {"n": 10**30}, "once", asks=True, node="n", facade="f"),
    e.ToolFinished("1/:1.0", 1, ToolResult("prompt")),
    e.RunFinished("r", "look \ud83d", []),
    e.ConversationCompleted(),
]


def test_everything_that_a_conversation_may_have_is_in_its_extract() -> None:
    state = fold(ID, stored(RICH))
    made = extract.extract_of(state)
    assert made is not None
    found = extract.state_of(ID, made)
    assert found is not None
    assert whole(found) == whole(state)
    assert made.text.count(PICTURE.data) == 1
    assert made.text.count("look") == 3  # the title, and two messages


def test_an_extract_of_another_form_or_with_damage_is_none() -> None:
    made = extract.extract_of(fold(ID, stored(RICH)))
    assert made is not None
    assert extract.state_of("other", made) is None
    assert extract.state_of(ID, attrs.evolve(made, form="0.00000000")) is None
    assert extract.state_of(ID, attrs.evolve(made, seq=made.seq - 1)) is None
    assert extract.state_of(ID, attrs.evolve(made, text=made.text.replace("look", "lock"))) is None
    assert extract.state_of(ID, attrs.evolve(made, text="")) is None
    broken = '["c"]'
    assert extract.state_of(ID, attrs.evolve(made, text=extract._digest(broken) + broken)) is None


def test_a_large_state_has_no_extract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extract, "MOST", 100)
    assert extract.extract_of(fold(ID, stored(RICH))) is None


def test_a_state_that_is_too_large_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversation is unloaded after each turn, and writing all of it would hold up the others."""

    def refused(value: object) -> str:
        raise AssertionError("it is written")

    monkeypatch.setattr(extract, "dump", refused)
    large = {"n": [{"text": "x" * extract.MOST}]}
    message, call = RICH[1], RICH[4]
    assert isinstance(message, e.MessageAdded)
    assert isinstance(call, e.ToolStarted)
    for event in (attrs.evolve(call, arguments=large), attrs.evolve(message, text="x" * extract.MOST)):
        events = [event if type(each) is type(event) else each for each in RICH]
        assert extract.extract_of(fold(ID, stored(events))) is None


def test_an_extract_is_due_when_the_conversation_has_grown() -> None:
    state = fold(ID, stored(RICH))
    for last_seq, extracted, due in [(99, 0, False), (100, 0, True), (163, 100, False), (164, 100, True)]:
        assert extract.is_due(attrs.evolve(state, last_seq=last_seq, extracted=extracted)) is due
    assert not extract.is_due(attrs.evolve(state, last_seq=16_000, extracted=15_001))
    assert not extract.is_due(attrs.evolve(fold(ID, stored(RICH[:3])), last_seq=100))


# ----------------------------------------------------------------- read from the journal


class Damaged(MemoryJournal):
    """A journal that has the events up to `sound` in another form."""

    sound = 0
    read = 0

    async def events_since(self, stream: str, seq: int, limit: int | None = None) -> tuple[Event, ...]:
        found = await super().events_since(stream, seq, limit)
        self.read += len(found)
        return tuple(attrs.evolve(each, body={}) if each.seq <= self.sound else each for each in found)


LONG = [
    RICH[0],
    *(e.MessageAdded(f"message {number}", "k") for number in range(extract.FEWEST)),
]


async def _stored(journal: MemoryJournal) -> Fence:
    """A long conversation with an extract, and one more event."""
    await journal.deliver(NewCommand(ID, "k", "create", {}, new=True))
    fence = await journal.claim(ID)
    assert isinstance(fence, Fence)
    await journal.save(Commit(fence, 0, list(map(encode, LONG)), ack=["k"]))
    made = extract.extract_of(await read(journal, ID))
    assert made is not None
    await journal.keep_extract(fence, made)
    await journal.save(Commit(fence, len(LONG), [encode(e.MessageAdded("more", "k"))]))
    return fence


async def test_only_the_events_after_the_extract_are_read() -> None:
    journal = Damaged(lambda: 1.0)
    await _stored(journal)
    journal.read, journal.sound = 0, len(LONG)  # damage below the extract is not noticed
    state = await read(journal, ID)
    assert (state.messages[-1].content, len(state.messages), journal.read) == ("more", len(LONG) + 1, 1)
    assert state.extracted == len(LONG)


async def test_without_a_usable_extract_all_events_are_read() -> None:
    journal = Damaged(lambda: 1.0)
    fence = await _stored(journal)
    good = await read(journal, ID)
    damage = [
        Extract(len(LONG), extract.FORM, "damaged"),
        Extract(len(LONG), "0.00000000", "[]"),
    ]
    for each in damage:
        await journal.keep_extract(fence, each)
        journal.read = 0
        assert whole(await read(journal, ID)) == whole(good)
        assert journal.read == len(LONG) + 1


async def test_an_extract_of_a_deleted_conversation_is_not_used() -> None:
    """Its id was used again between two queries of a reader."""
    journal = MemoryJournal(lambda: 1.0)
    fence = await _stored(journal)
    kept = await journal.extract(ID, extract.FORM)
    await journal.delete(fence)
    journal._wall = lambda: 2.0
    again = await _stored(journal)
    assert kept is not None
    await journal.keep_extract(again, kept)
    assert (await read(journal, ID)).created == 2.0


async def test_damage_after_the_extract_is_damage() -> None:
    journal = MemoryJournal(lambda: 1.0)
    fence = await _stored(journal)
    await journal.save(Commit(fence, len(LONG) + 1, [NewEvent("message.added", {})]))
    with pytest.raises(StreamDamaged, match=f"event {len(LONG) + 2} "):
        await read(journal, ID)
