"""The state that `stopgo chat` folds from events: the run, pending approvals and history. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from ...actors.approvals.asked import Asked
from ...actors.approvals.voting import shown_after
from ...actors.log import events as e
from ...actors.log.event_json import decode
from ...runtime.journal.protocol import Event
from .progress import ProgressView

MAX_ENTRIES = 500
"""Maximum number of messages and answers kept for `/history`."""


@attrs.define(eq=False)
class ChatLog:
    """The state of one conversation in the chat."""

    running: bool = False
    """Whether a run is active."""
    waiting_on: Sequence[str] = ()
    """The ids of the approvals that a blocked run waits for."""
    pending: dict[str, Asked[Any]] = attrs.field(factory=dict)
    """The pending approvals by id."""
    entries: deque[tuple[bool, str]] = attrs.field(factory=lambda: deque(maxlen=MAX_ENTRIES))
    """The history. True: a message from a person; false: an answer of the agent."""
    _routers: dict[str, Sequence[str]] = attrs.field(factory=dict)
    """The names of the agents of each router."""
    _progress: ProgressView = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._progress = ProgressView(self._routers)

    def apply(self, event: Event) -> tuple[e.LogEvent | None, str | None]:
        """Advance by an event. Return the decoded event, or None if this version cannot decode it, and the
        progress line to show for it, if any."""
        try:
            decoded, line = decode(event).event, self._progress.line(event)
        except (LookupError, TypeError, ValueError):
            return None, None
        match decoded:
            case e.MessageAdded(text=text):
                self.entries.append((True, text))
            case e.RunStarted(tree=tree):
                self._routers.update(stored_routers(tree or {}))
                self.running, self.waiting_on = True, ()
            case e.RunResumed():
                self.running, self.waiting_on = True, ()
            case e.ApprovalRequested(asked=asked):
                self.pending[asked.id] = asked
            case e.ApprovalVoted(id=id, decision=decision) if id in self.pending:
                self.pending[id] = shown_after(self.pending[id], decision)
            case e.ApprovalResolved(id=id) | e.ApprovalExpired(id=id) | e.ApprovalVoid(id=id):
                self.pending.pop(id, None)
                self.waiting_on = tuple(each for each in self.waiting_on if each != id)
            case e.RunWaiting(on=on):
                self.running, self.waiting_on = False, on
            case e.RunFinished(text=text):
                self.entries.append((False, text))
                self.running, self.waiting_on = False, ()
            case e.RunAuthRequired() | e.RunFailed() | e.RunCancelled():
                self.running, self.waiting_on = False, ()
            case _:
                pass
        return decoded, line

    @property
    def next_approval(self) -> Asked[Any] | None:
        """The next approval to decide."""
        return next((self.pending[id] for id in self.waiting_on if id in self.pending), None)

    @property
    def place(self) -> str:
        """As in `ProgressView`."""
        return self._progress.place


def stored_routers(tree: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each router of a stored tree, with the names of its agents."""
    agents = [agent for agent in tree.get("agents") or () if isinstance(agent, Mapping)]
    if tree.get("type") == "router":
        yield str(tree.get("name")), [str(agent.get("name")) for agent in agents]
    for agent in agents:
        yield from stored_routers(agent)
