"""The logs of the conversations of this process, and the parts that they share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs

from ....runtime.clock import WallClock
from ....runtime.event_bus import EventBus
from ....runtime.journal.lease import Lease
from ....runtime.journal.ownership import Fence
from ....runtime.journal.protocol import Journal
from ...common.kept_forms import AllKeptForms
from ..fold.extract import extract_of, is_due, may_be_kept, size_of
from ..fold.state import Conversation
from ..fold.stored import inbox, is_state_of, read
from .branches import ActiveRuns, Branches
from .log import ConversationLog, OutboxRows
from .observer import Observer
from .relay import Relay
from .tenure import claim
from .write_behind import Flusher

_STATE = "state"
_PER_MESSAGE = 1000
"""Bytes of a message in the state, beside its texts."""


@attrs.frozen(eq=False)
class Logs:
    journal: Journal
    lease: Lease
    """The lease of this process at the journal."""
    bus: EventBus
    wall: WallClock
    observer: Observer
    active_runs: ActiveRuns = attrs.field(factory=ActiveRuns)
    flusher: Flusher = attrs.field(factory=Flusher)
    live: dict[str, ConversationLog] = attrs.field(factory=dict)
    """The logs of the conversations active in this process, for readers."""
    kept: AllKeptForms = attrs.field(factory=AllKeptForms)
    relay: Relay = attrs.field(
        init=False,
        default=attrs.Factory(
            lambda self: Relay(self.journal, self.bus, self.wall, self.live, self.lease.can_be_lost),
            takes_self=True,
        ),
    )
    unreleased: list[Fence] = attrs.field(factory=list)
    """The fences of activations that could not give up their streams."""
    outbox: OutboxRows = lambda stream, after, events: ()

    async def open(
        self,
        conversation: str,
        *,
        start_soon: Callable[[Callable[[], Awaitable[object]]], object],
        progress: Callable[[], None],
    ) -> ConversationLog | None:
        """Become the conversation's writer: claim its stream, then fold it. None if another member owns it,
        or if this member has lost its lease. `start_soon` and `progress` are as in `ConversationLog`.

        Raises:
            UnknownStream: the conversation does not exist, or was deleted.
            StreamDamaged: the conversation cannot be read.
        """
        tenure = await claim(self.journal, conversation, self.lease)
        if tenure is None:
            return None
        state = await self._rested(conversation)
        if state is None:
            state = await read(self.journal, conversation)
            state.kept = self.kept.of(conversation)
        return ConversationLog(
            journal=self.journal,
            bus=self.bus,
            branches=Branches(active_runs=self.active_runs),
            flusher=self.flusher,
            wall=self.wall,
            observer=self.observer,
            tenure=tenure,
            state=state,
            start_soon=start_soon,
            progress=progress,
            outbox=self.outbox,
        )

    async def _rested(self, conversation: str) -> Conversation | None:
        """The state that the last activation in this process has left, if the conversation is still in it."""
        forms = self.kept.kept(conversation)
        state = None if forms is None else forms.take(_STATE, Conversation)
        if forms is None or state is None:
            return None
        row = await self.journal.row(conversation)
        if not is_state_of(row, state):
            return None
        await inbox(self.journal, conversation)  # to find damage, as `read` does
        forms.at_rest = False
        return state

    async def extract(self, log: ConversationLog) -> None:
        """Store an extract of a conversation that is about to be unloaded, if it is due."""
        if is_due(log.state) and (made := extract_of(log.state)) is not None:
            await self.journal.keep_extract(log.tenure.fence, made)
            log.state.extracted = made.seq

    def rest(self, state: Conversation, *, in_order: bool) -> None:
        """Keep the state of a conversation whose activation has ended, if reading it again would take long.

        `in_order`: the state is what the journal has.
        """
        if state.kept is None:
            return
        if not in_order or not may_be_kept(state):
            state.kept.end()
            return
        state.kept.at_rest = True
        state.kept.keep(_STATE, state, size_of(state) + _PER_MESSAGE * len(state.messages))

    async def owned(self, id: str) -> ConversationLog | None:
        """The log of a conversation that is active in this process, and that no other process has taken
        over."""
        log = self.live.get(id)
        return log if log is not None and await self.journal.owns(log.tenure.fence) else None
