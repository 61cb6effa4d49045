"""A journal in memory: for tests and simulation, and the model that the store on disk is compared with."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import assert_never

import attrs

from ... import json_text
from .. import note, repeated_save
from .. import vote as votes
from ..errors import Fenced, JournalError, UnknownCommand, UnknownStream
from ..outbox import outbox_row, outbox_texts
from ..ownership import Claim, Fence, Owned
from ..protocol import (
    Accepted,
    Command,
    Commit,
    DecisionOutcome,
    DeliveryOutcome,
    Event,
    Json,
    NewCommand,
    NotAccepted,
    Saved,
)
from ..question import CloseQuestion, NewQuestion, Unknown, Won
from ..stream_extract import Extract
from ..summary import is_full
from ..vote import Vote, Voted
from .memory_reads import MemoryReads, handed_over
from .memory_stream import MemoryStream


def _same(one: Json, other: Json) -> bool:
    return json_text.same(json_text.dump(one), json_text.dump(other))


def _copy(body: Json) -> Json:
    copied: Json = json_text.load(json_text.dump(body))
    return copied


class MemoryJournal(MemoryReads):
    """Implements every rule of `Journal` except durability."""

    # ------------------------------------------------------------- commands

    async def deliver(self, command: NewCommand) -> DeliveryOutcome:
        new = attrs.evolve(command, body=_copy(command.body))
        async with handed_over():
            now = self._wall()
            kept = self._streams.get(new.stream)
            if kept is None:
                if not new.new:
                    return NotAccepted("unknown_stream")
                kept = MemoryStream(new.stream, next(self._stream_numbers), created=now, updated=now)
            if known := kept.known(
                new.key, lambda first: first.kind == new.kind and _same(first.body, new.body)
            ):
                return known
            if kept.summary.status in new.unless:
                return NotAccepted("status", kept.summary.status)
            if any(each.kind in new.not_behind for each in kept.waiting()):
                return NotAccepted("behind")
            waiting = sum(each.kind == new.kind for each in kept.waiting())
            if is_full(new.limit, waiting, starts=kept.starts):
                return NotAccepted("full")
            self._check_version(new.stream, kept.demands)
            kept.put(Command(new.stream, new.key, new.kind, new.body, now, self.member))
            self._streams[new.stream] = kept
            if new.follow and self._is_shared:
                self._follow(kept)
            self._changed(new.stream)
            return Accepted()

    def _follow(self, kept: MemoryStream) -> None:
        at_rest = not kept.summary.open and len(kept.waiting()) == 1
        self._owners.follow(kept.name, self.member, self._wall(), self._claim(kept), at_rest=at_rest)

    def _claim(self, kept: MemoryStream) -> Claim:
        return Claim(kept.epoch, kept.demands, self.version)

    async def decide(
        self,
        question: str,
        decision: Json,
        key: str,
        *,
        adds: Json | None = None,
        vote: Vote | None = None,
        follow: bool = False,
    ) -> DecisionOutcome:
        decision, adds = _copy(decision), _copy(adds or {})
        async with handed_over():
            if question not in self._asked:
                return Unknown()
            _, name = self._asked[question]
            kept = self._streams[name]
            asked = kept.questions[question]
            if known := kept.known(
                key, lambda first: votes.is_repeat(first.kind, first.body, question, decision)
            ):
                return known
            at = self._wall()
            result = votes.outcome(asked, {**decision, **adds}, vote, at)
            if isinstance(result, Won | Voted):
                self._check_version(name, kept.demands)
                kept.questions[question] = result.question
                kind, body = votes.command(result, decision, adds, vote)
                kept.put(Command(name, key, kind, body, at, self.member))
                if follow and self._is_shared:
                    self._follow(kept)
                self._changed(name)
            return result

    async def stored_reply(self, stream: str, key: str) -> Json | None:
        async with handed_over():
            found = self._existing(stream).inbox.get(key)
            if found is None:
                raise UnknownCommand(f"stream {stream!r} has no command {key!r}")
            return found.reply

    async def inbox(self, stream: str, *, skip_damaged: bool = False) -> tuple[Command, ...]:
        async with handed_over():
            kept = self._streams.get(stream)
            return tuple(kept.waiting()) if kept else ()

    # -------------------------------------------------------------- writing

    async def claim(self, stream: str) -> Fence | Owned:
        async with handed_over():
            kept = self._existing(stream)
            return self._owners.claim(stream, self.member, self._wall(), self._claim(kept))

    async def release(self, fence: Fence, leave: Collection[str] = ()) -> bool:
        async with handed_over():
            kept = self._streams.get(fence.stream)
            if kept is not None and self._owners.owns(fence):
                if any(each.key not in leave for each in kept.waiting()):
                    return False
                self._owners.release(fence)
                self._changed(fence.stream)
            return True

    async def save(self, commit: Commit) -> Saved:
        # Copy now, because the caller may change its objects while the save waits.
        fence, expected_seq = commit.fence, commit.expected_seq
        events = [attrs.evolve(each, body=_copy(each.body)) for each in commit.events]
        intents = [attrs.evolve(each, body=_copy(each.body)) for each in commit.intents]
        questions = [_copy_question(each) for each in commit.questions]
        replies = {key: _copy(reply) for key, reply in commit.replies.items()}
        refuse = {key: _copy(reply) for key, reply in commit.refuse.items()}
        settle, ack, summary = tuple(commit.settle), tuple(commit.ack), commit.summary
        told = outbox_texts(commit.outbox)
        summary = summary and attrs.evolve(summary, body=_copy(summary.body))
        async with handed_over():
            draft = self._owned(fence).copy()
            later = draft.events[expected_seq:]
            if fence.epoch == draft.epoch and (first := repeated_save.outcome(expected_seq, later, events)):
                return first
            if len(draft.events) != expected_seq:
                raise Fenced(f"stream {fence.stream!r} is at {len(draft.events)}, not at {expected_seq}")
            at = self._wall()
            for number, event in enumerate(events, expected_seq + 1):
                happened = at if event.at is None else event.at
                draft.events.append(Event(fence.stream, number, event.type, happened, event.body))
                draft.updated = max(draft.updated, happened)
            draft.intend(intents, settle)
            for change in questions:
                if isinstance(change, NewQuestion) and change.id in self._asked:
                    raise JournalError(f"question {change.id!r} already exists")
                draft.ask(change, at)
            draft.close(ack, replies, refuse, at)
            draft.summary = summary or draft.summary
            draft.epoch, draft.demands = fence.epoch, max(draft.demands, self.version)
            self._streams[fence.stream] = draft
            for change in questions:
                if isinstance(change, NewQuestion):
                    self._asked[change.id] = (next(self._question_numbers), fence.stream)
            self._add_to_outbox(told, at)
            self._changed(fence.stream, expected_seq if events else None)
            return Saved(expected_seq + 1, at)

    async def keep_extract(self, fence: Fence, extract: Extract) -> None:
        async with handed_over():
            kept = self._streams.get(fence.stream)
            if kept is not None and self._owners.owns(fence) and extract.seq <= len(kept.events):
                kept.extract = extract

    async def extract(self, stream: str, form: str) -> Extract | None:
        async with handed_over():
            kept = self._streams.get(stream)
            found = None if kept is None else kept.extract
            return found if found is not None and found.form == form else None

    def _add_to_outbox(self, texts: Sequence[str], at: float) -> None:
        for text in texts:
            number = next(self._outbox_numbers)
            self._outbox[number] = outbox_row(number, text, at)

    async def drop_outbox(self, numbers: Sequence[int]) -> None:
        async with handed_over():
            for number in numbers:
                self._outbox.pop(number, None)

    async def delete(self, fence: Fence, outbox: Sequence[Json] = ()) -> tuple[str, ...]:
        told = outbox_texts(outbox)
        async with handed_over():
            if fence.stream not in self._streams:
                return ()
            kept = self._owned(fence)
            for question in kept.questions:
                del self._asked[question]
            del self._streams[fence.stream]
            self._owners.forget(fence.stream)
            self._add_to_outbox(told, self._wall())
            self._changed(fence.stream)
            return tuple(command.key for command in kept.waiting())

    async def write_notes(
        self, kind: str, notes: Mapping[str, Json], *, at: int | None = None, outbox: Sequence[Json] = ()
    ) -> bool:
        texts, told = note.texts(notes), outbox_texts(outbox)
        async with handed_over():
            if number := self._revisions.begin(kind, at):
                self._notes[kind].update(texts)
                self._revisions.end(kind, number, notes)
                self._add_to_outbox(told, self._wall())
            return number > 0

    async def take_note(self, kind: str, key: str) -> Json | None:
        async with handed_over():
            text = json_text.dump(key)
            found = self._notes[kind].pop(text, None)
            self._revisions.deleted(kind, key)
            return None if found is None else note.parsed([(text, found)])[key]

    def _existing(self, stream: str) -> MemoryStream:
        kept = self._streams.get(stream)
        if kept is None:
            raise UnknownStream(f"stream {stream!r} does not exist")
        return kept

    def _owned(self, fence: Fence) -> MemoryStream:
        kept = self._existing(fence.stream)
        self._check(fence)
        return kept


def _copy_question(change: NewQuestion | CloseQuestion) -> NewQuestion | CloseQuestion:
    match change:
        case NewQuestion():
            return attrs.evolve(change, body=_copy(change.body))
        case CloseQuestion():
            return attrs.evolve(change, patch=_copy(change.patch))
        case _:
            assert_never(change)
