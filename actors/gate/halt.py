"""The emergency stop: while the agent is halted, no call of effect class `once` leaves.

A halt takes effect in this order, so that no intent is committed after it was acknowledged:

    ====  =============================================================================================
    1     It is on disk, as a note, which the next start reads before anything is resumed.
    2     It is in effect: a commit that begins later contains no intent of such a call, and a call whose
          intent is on disk is no longer sent (`Departure`).
    3     Each commit of an intent that had begun before has ended.
    4     Each other living member has read the note, has done 2 and 3, and has confirmed it with a note of
          its own. A member that cannot do so loses its lease, and sends nothing either. The halt is
          acknowledged.
    ====  =============================================================================================

Halts are numbered. A decision is stored with the number of halts before it, so an approval lapses with the
next halt, even if that has ended when the call is about to leave. An unreadable note counts as a halt.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager

import attrs
import trio

from ...runtime.clock import WallClock
from ...runtime.journal.errors import JournalUnavailable
from ...runtime.journal.followed_notes import POLL_EVERY
from ...runtime.journal.protocol import Journal, Json
from ..common import errors
from ..tools.tool import ToolUnavailable

logger = logging.getLogger("stopgo.halt")

RULE = "emergency stop"
"""The rule by which a halted call asks."""
NOTE = "halt"
"""The kind of the note, and its key."""
MAX_REASON = 500
"""Maximum length of a reason, in characters."""
KEYS = 8
"""Number of idempotency keys that are remembered."""
CONFIRMED = "halt confirmed"
"""The kind of the notes of members that have seen a halt; their keys are the members."""
CONFIRMING = 60.0
"""Maximum number of seconds to wait for other members. It is longer than their leases."""

NOT_SENT = "The call was not sent: the agent was halted. Nothing was done."
LEASE_LOST = "The call was not sent: the process had lost its lease at the journal. Nothing was done."


class LeaseLost(ToolUnavailable):
    """The call was not sent, because another member may have taken the conversation over."""


@attrs.frozen
class Halt:
    """The latest halt."""

    number: int = 0
    """The number of halts so far."""
    stands: bool = False
    """Whether the agent is halted now. If not, the other fields are empty."""
    reason: str | None = None
    by: str | None = None
    """The id of the principal who halted the agent; None without authentication."""
    at: float = 0.0
    """The time of the halt, in UTC seconds since the epoch."""

    def lapses(self, halts: int) -> bool:
        """Whether an agreeing decision after so many halts does not count now."""
        return self.stands or halts < self.number


NEVER = Halt()


@attrs.frozen
class HaltState:
    """The emergency stop."""

    halted: bool
    """Whether the agent is halted now."""
    in_flight: int
    """The number of calls of effect class `once` that were sent and have no result yet."""
    reason: str | None = None
    """The reason that was given."""
    by: str | None = None
    """The id of the principal who halted the agent; None without authentication."""
    at: float | None = None
    """The time of the halt, in UTC seconds since the epoch; None if the agent is not halted."""


@attrs.define(eq=False)
class Halts:
    """The emergency stop of one agent."""

    _journal: Journal
    _wall: WallClock
    _tell: Callable[[HaltState], None] = lambda _: None
    """Called when another member has halted the agent, or ended the halt."""
    _outbox: Callable[[Halt], Sequence[Json]] = lambda _: ()
    """The rows of the outbox for a halt, or for its end."""
    latest: Halt = NEVER
    _keys: dict[str, str] = attrs.field(factory=dict)
    """The idempotency keys of the last commands and digests of the commands, oldest first."""
    _departures: set[Departure] = attrs.field(factory=set)
    _changing: trio.Lock = attrs.field(factory=trio.Lock)

    async def apply(self, _: Mapping[str, Json | None]) -> None:
        """The note was changed, by an earlier process or another member (`FollowedNotes`). Raises
        `JournalError`."""
        async with self._changing:
            before = self.latest
            await self._read()
        if self.latest is not before:
            self._tell(self.state)
        await self._departed()
        if await self._others():
            number = self.latest.number
            await self._journal.write_notes(CONFIRMED, {self._journal.member: {"number": number}})

    async def _read(self) -> None:
        """Take over the note. The caller holds `_changing`."""
        notes = await self._journal.notes(NOTE)
        if NOTE not in notes:
            return
        try:
            found, self._keys = _read(notes[NOTE])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            logger.error("the note about the emergency stop cannot be read: %s", error)
            now = self._wall()
            # Higher than the number in the note, which is a count.
            found = Halt(int(now), True, "the note about the emergency stop cannot be read", at=now)
        self._set(found)

    def _set(self, halt: Halt) -> None:
        if halt != self.latest:
            self.latest = halt
            logger.warning("the agent is %s", said(halt))

    async def _departed(self) -> None:
        """Wait until no intent of an earlier decision is being committed."""
        for departure in tuple(self._departures):
            await departure.committed.wait()

    async def _others(self) -> Set[str]:
        return (await self._journal.living()).keys() - {self._journal.member}

    async def _confirmed(self, number: int) -> None:
        """Wait until the other members have confirmed a halt. Raises `JournalError`."""
        with trio.move_on_after(CONFIRMING):
            while others := await self._others():
                notes = await self._journal.notes(CONFIRMED)
                if all(_number(notes.get(each)) >= number for each in others):
                    for gone in notes.keys() - others:
                        await self._journal.take_note(CONFIRMED, gone)
                    return
                await trio.sleep(POLL_EVERY / 4)
            return
        raise JournalUnavailable("the halt stands, but other nodes have not confirmed it")

    async def halt(self, reason: str | None, by: str | None, key: str | None) -> None:
        """Halt the agent. If it is halted already, this changes nothing.

        `by` is the id of the principal, `key` an idempotency key of theirs. Raises `AgentError`
        ``idempotency_key_reused``.
        """
        number = await self._change(True, reason, by, key)
        await self._departed()
        await self._confirmed(number)

    async def unhalt(self, by: str | None, key: str | None) -> None:
        """End the halt, if there is one. Parameters and errors are those of `halt`."""
        await self._change(False, None, by, key)

    async def _change(self, stands: bool, reason: str | None, by: str | None, key: str | None) -> int:
        """Store what was asked for. Returns the number of halts so far."""
        with trio.CancelScope(shield=True):  # short: one commit
            async with self._changing:
                while not await self._stored(stands, reason, by, key):
                    pass  # another member wrote the note first
        return self.latest.number

    async def _stored(self, stands: bool, reason: str | None, by: str | None, key: str | None) -> bool:
        at = (await self._journal.note_revisions()).get(NOTE, 0)
        await self._read()
        before, keys = self.latest, self._keys
        if key is not None:
            command, digest = _digest(stands, by, key), _digest(reason)
            if command in keys:
                if keys[command] != digest:
                    raise errors.key_reused()
                return True
            keys = dict([*keys.items(), (command, digest)][-KEYS:])
        after = before
        if stands and not before.stands:
            after = Halt(before.number + 1, True, reason, by, self._wall())
        elif before.stands and not stands:
            after = Halt(before.number)
        told = () if after == before else self._outbox(after)
        if not await self._journal.write_notes(NOTE, {NOTE: _note(after, keys)}, at=at, outbox=told):
            return False
        self._keys = keys
        self._set(after)
        return True

    @property
    def state(self) -> HaltState:
        latest, in_flight = self.latest, sum(departure.has_left for departure in self._departures)
        if not latest.stands:
            return HaltState(False, in_flight)
        return HaltState(True, in_flight, latest.reason, latest.by, latest.at)

    @contextmanager
    def departure(self, since: Halt | None, owns: Callable[[], bool]) -> Iterator[Departure]:
        """The departure of an attempt, until its end. `since` is the latest halt when the attempt was
        decided; None: it may not leave. `owns`: `Tenure.owns`."""
        departure = Departure(self, since, owns)
        self._departures.add(departure)
        try:
            yield departure
        finally:
            departure.committed.set()
            self._departures.remove(departure)


@attrs.define(eq=False)
class Departure:
    """Decides whether an attempt of a `once` call may still leave. It may not after any later halt, even if
    that has ended."""

    _halts: Halts
    _since: Halt | None
    _owns: Callable[[], bool]
    committed: trio.Event = attrs.field(factory=trio.Event)
    """Set when its intent is on disk, or will not be."""
    has_left: bool = False

    def may_leave(self) -> bool:
        latest = self._halts.latest
        return latest is self._since and not latest.stands

    def may_leave_now(self) -> bool:
        """As `may_leave`, right before the call is sent. Another member may have taken the conversation over
        and sent the call: this process may have been paused since its last commit."""
        return self.may_leave() and self._owns()

    def check_lease(self) -> None:
        """Raises `LeaseLost` if another member may have taken the conversation over."""
        if not self._owns():
            raise LeaseLost(LEASE_LOST)

    def leave(self) -> None:
        """Note that the call is sent now. Raises `ToolUnavailable` if it may not leave."""
        self.check_lease()
        if not self.may_leave():
            raise ToolUnavailable(NOT_SENT)
        self.has_left = True


def said(halt: Halt) -> str:
    """A halt in words."""
    if not halt.stands:
        return "no longer halted"
    by = "" if halt.by is None else f" by {halt.by}"
    return f"halted{by}" + ("" if halt.reason is None else f": {halt.reason}")


def _note(halt: Halt, keys: Mapping[str, str]) -> Json:
    fields = attrs.asdict(halt)
    return {name: value for name, value in fields.items() if value is not None} | {"keys": dict(keys)}


def _read(note: Json | None) -> tuple[Halt, dict[str, str]]:
    """Raises AttributeError, KeyError, TypeError or ValueError for anything but a note as written."""
    if note is None:
        raise ValueError("it is damaged")
    number, stands, at = note["number"], note["stands"], note["at"]
    reason, by = note.get("reason"), note.get("by")
    if type(number) is not int or type(stands) is not bool or not isinstance(reason, str | None):
        raise TypeError("it is not a note about a halt")
    return Halt(number, stands, reason, by, float(at)), dict(note["keys"])


def _number(note: Json | None) -> int:
    """The number in a confirmation; -1 if it cannot be read."""
    number = None if note is None else note.get("number")
    return number if type(number) is int else -1


def _digest(*values: object) -> str:
    return hashlib.sha256(repr(values).encode(errors="replace")).hexdigest()[:16]
