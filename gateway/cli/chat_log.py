"""The fold of a conversation's events for `stopgo chat`: run, pending approvals and history. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from ...actors.approvals.asked import Asked
from ...actors.log import events as e
from ...actors.log.event_json import decode
from ...runtime.journal.protocol import Event
from .progress import Progress

MAX_ENTRIES = 500
"""Number of messages and answers to keep for `/history`."""


@attrs.define(eq=False)
class ChatLog:
    running: bool = False
    """Whether a run is active."""
    waiting_on: Sequence[str] = ()
    """The approvals that a blocked run waits for."""
    asked: dict[str, Asked[Any]] = attrs.field(factory=dict)
    """The pending approvals."""
    entries: deque[tuple[bool, str]] = attrs.field(factory=lambda: deque(maxlen=MAX_ENTRIES))
    """Messages of people (true) and answers of the agent (false)."""
    _routers: dict[str, Sequence[str]] = attrs.field(factory=dict)
    _progress: Progress = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._progress = Progress(self._routers)

    def take_in(self, event: Event) -> tuple[e.LogEvent | None, str | None]:
        """The event, or None if this version cannot decode it, and the line for it, if it has one."""
        try:
            entry, line = decode(event).event, self._progress.line(event)
        except (LookupError, TypeError, ValueError):
            return None, None
        match entry:
            case e.MessageAdded(text=text):
                self.entries.append((True, text))
            case e.RunStarted(tree=tree):
                self._routers.update(stored_routers(tree or {}))
                self.running, self.waiting_on = True, ()
            case e.RunResumed():
                self.running, self.waiting_on = True, ()
            case e.ApprovalRequested(asked=asked):
                self.asked[asked.id] = asked
            case e.ApprovalResolved(id=id) | e.ApprovalExpired(id=id) | e.ApprovalVoid(id=id):
                self.asked.pop(id, None)
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
        return entry, line

    @property
    def question(self) -> Asked[Any] | None:
        """The next approval to decide."""
        return next((self.asked[id] for id in self.waiting_on if id in self.asked), None)


def stored_routers(tree: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[str]]]:
    """Every router of a stored tree, with the names of its agents."""
    agents = [agent for agent in tree.get("agents") or () if isinstance(agent, Mapping)]
    if tree.get("type") == "router":
        yield str(tree.get("name")), [str(agent.get("name")) for agent in agents]
    for agent in agents:
        yield from stored_routers(agent)
