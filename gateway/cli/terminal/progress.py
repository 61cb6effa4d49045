"""Turns the events of a run into lines for a person. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, assert_never

from ....actors.approvals.asked import Asked
from ....actors.approvals.description import call_text, shortened
from ....actors.log.words import events as e
from ....actors.log.words.event_json import decode
from ....actors.log.words.outcomes import Chosen, Delegation, Ended, NotSent, Replied, StepFailed
from ....config.sections.nodes import Node, RouterNode, children_of
from ....runtime.journal.protocol import Event


def routers(node: Node) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every router of a tree, with the names of its agents."""
    if isinstance(node, RouterNode):
        yield node.name, tuple(child.name for child in node.agents)
    for child in children_of(node):
        yield from routers(child)


def stored_routers(tree: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each router of a stored tree, with the names of its agents."""
    agents = [agent for agent in tree.get("agents") or () if isinstance(agent, Mapping)]
    if tree.get("type") == "router":
        yield str(tree.get("name")), [str(agent.get("name")) for agent in agents]
    for agent in agents:
        yield from stored_routers(agent)


class ProgressView:
    """Needs all events from the start of a run, because events refer to earlier ones."""

    def __init__(self, routers: Mapping[str, Sequence[str]] | None = None) -> None:
        """`routers`: the names of the agents of routers, if they are known before the events; stored trees
        have names as they are written in the file."""
        self._known = routers or {}
        self._routers = dict(self._known)
        self._calls: dict[str, tuple[str, str]] = {}
        """Node and tool, by the key of the call."""
        self._asked: dict[str, Asked[Any]] = {}
        """Approvals by id."""
        self._pending: set[str] = set()
        self._together = 0
        """The number of approvals that were requested since none was pending."""

    @property
    def place(self) -> str:
        """The place of the next approval among those that wait or were settled before it, as `2 of 30`; empty
        if there is only one."""
        number = self._together - len(self._pending) + 1
        return f"{number} of {self._together}" if self._together > 1 else ""

    def line(self, event: Event) -> str | None:
        """The line for an event; None without one."""
        match decode(event).event:
            case e.ConversationCreated():
                return f"conversation {event.stream}"
            case e.RunStarted(tree=tree):
                self._routers |= {**dict(stored_routers(tree or {})), **self._known}
                self._pending.clear()
                return None
            case e.StepFinished() as step:
                return self._step(step)
            case e.ToolStarted(node=node, tool=tool) as started:
                self._calls[started.key] = node, tool
                again = f", attempt {started.attempt}" if started.attempt > 1 else ""
                return f"{node}: {call_text(tool, started.arguments)}{again}"
            case e.ToolFinished(key=key, result=result):
                node, tool = self._calls[key]
                return f"{node}: {tool} {'failed:' if result.is_error else '->'} {shortened(result.content)}"
            case e.ToolUnknown(key=key, reason=reason):
                node, tool = self._calls[key]
                return f"{node}: {tool}: outcome unknown: {shortened(reason)}"
            case e.ApprovalRequested(asked=asked):
                self._asked[asked.id] = asked
                self._together = self._together + 1 if self._pending else 1
                self._pending.add(asked.id)
                return f"{asked.node}: asks {asked.id}: {asked.line}"
            case e.ApprovalVoted(id=id, voters=voters, needed=needed) if id in self._asked:
                return f"{self._asked[id].node}: {len(voters)} of {needed} approvals: {voters[-1]}"
            case e.ApprovalResolved() | e.ApprovalExpired() | e.ApprovalVoid() as end:
                return self._approval_end(end)
            case _:
                return None

    def _approval_end(self, end: e.ApprovalEnd) -> str | None:
        if (asked := self._asked.get(end.id)) is None:
            return None
        self._pending.discard(end.id)
        match end:
            case e.ApprovalResolved(decision=decision):
                return f"{asked.node}: {asked.original.decision_line(decision)}"
            case e.ApprovalExpired():
                return f"{asked.node}: not answered in time"
            case e.ApprovalVoid(reason=reason):
                return f"{asked.node}: withdraws {asked.id}: {shortened(reason)}"
            case _:
                assert_never(end)

    def _step(self, step: e.StepFinished) -> str | None:
        node = step.node
        match step.outcome:
            case StepFailed(error=error):
                again = ", retrying" if step.kind == "attempt" else ""
                # The error of a node repeats that of a step in it.
                return None if step.kind == "node" else f"{node}: failed{again}: {shortened(error.message)}"
            case Replied(text=text):
                return f"{node}: {shortened(text)}" if text else None
            case Chosen(choice=choice):
                agents = self._routers.get(node, ())
                return f"{node}: picks {agents[choice] if choice < len(agents) else choice}"
            case NotSent(outcome="exit_loop"):
                return f"{node}: exits the loop"
            case NotSent(content=content):
                return f"{node}: not called: {shortened(content)}"
            case Ended() | Delegation():
                return None
            case _:
                assert_never(step.outcome)
