"""A run's events as lines for a person: which node, which tool, what came of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...actors.approvals.asked import Asked
from ...actors.approvals.description import call_text, shortened
from ...actors.approvals.kinds import question_of
from ...actors.log import events as e
from ...config.nodes import Node, RouterNode, children_of
from ...runtime.journal.protocol import Event


def routers(node: Node) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every router of a tree, with the names of its agents."""
    if isinstance(node, RouterNode):
        yield node.name, tuple(child.name for child in node.agents)
    for child in children_of(node):
        yield from routers(child)


class Progress:
    """Tells a run from its start; an event may refer to an earlier one."""

    def __init__(self, root: Node) -> None:
        self._routers = dict(routers(root))
        self._calls: dict[str, tuple[str, str]] = {}
        """Node and tool by the key of the call."""
        self._asked: dict[str, Asked[Any]] = {}
        """By approval."""

    def line(self, event: Event) -> str | None:
        """What to say of the event; None: nothing."""
        body = event.body
        match event.type:
            case e.CONVERSATION_CREATED:
                return f"conversation {event.stream}"
            case e.STEP_FINISHED:
                return self._step(body)
            case e.TOOL_STARTED:
                self._calls[body["key"]] = body["node"], body["tool"]
                again = f", attempt {body['attempt']}" if body["attempt"] > 1 else ""
                return f"{body['node']}: {call_text(body['tool'], body['arguments'])}{again}"
            case e.TOOL_FINISHED:
                node, tool = self._calls[body["key"]]
                sign = "failed:" if body["result"]["is_error"] else "->"
                return f"{node}: {tool} {sign} {shortened(body['result']['content'])}"
            case e.TOOL_UNKNOWN:
                node, tool = self._calls[body["key"]]
                return f"{node}: {tool}: nobody knows what came of it: {shortened(body['reason'])}"
            case _:
                return self._approval(event.type, body)

    def _approval(self, type: str, body: Mapping[str, Any]) -> str | None:
        if type == e.APPROVAL_REQUESTED:
            asked = self._asked[body["id"]] = question_of(body)
            return f"{asked.node}: asks {asked.id}: {asked.line}"
        if (known := self._asked.get(body.get("id", ""))) is None:
            return None
        match type:
            case e.APPROVAL_RESOLVED:
                return f"{known.node}: {known.decision_line(known.read(body['decision']))}"
            case e.APPROVAL_EXPIRED:
                return f"{known.node}: nobody answered in time"
            case e.APPROVAL_VOID:
                return f"{known.node}: takes {known.id} back: {shortened(body['reason'])}"
            case _:
                return None

    def _step(self, body: Mapping[str, Any]) -> str | None:
        node, kind = body["node"], body["kind"]
        if "error" in body:
            again = ", tries again" if kind == "attempt" else ""
            # The end of a node repeats what went wrong in it.
            return None if kind == "node" else f"{node}: failed{again}: {shortened(body['error']['message'])}"
        match kind:
            case "model" if body["text"]:
                return f"{node}: {shortened(body['text'])}"
            case "route":
                return f"{node}: picks {self._routers[node][body['choice']]}"
            case "call" if body["outcome"] != "exit_loop":
                return f"{node}: not called: {shortened(body['content'])}"
            case "call":
                return f"{node}: exits the loop"
            case _:
                return None
