"""A run's events as lines for a person: which node, which tool, what came of it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ...actors.log import events as e
from ...config.nodes import Node, RouterNode, children_of
from ...runtime.journal.protocol import Event

MAX_VALUE = 40
"""Characters of an argument that are shown."""
MAX_TEXT = 160
"""Characters of everything else."""


def shortened(text: str, limit: int = MAX_TEXT) -> str:
    """On one line, and not too long."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def call_text(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call as one would write it down."""
    shown = (
        f"{name}={shortened(json.dumps(value, ensure_ascii=False), MAX_VALUE)}"
        for name, value in arguments.items()
    )
    return shortened(f"{tool}({', '.join(shown)})")


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
        self._asked: dict[str, str] = {}
        """Node by approval."""

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
        match type:
            case e.APPROVAL_REQUESTED:
                self._asked[body["id"]] = body["node"]
                return f"{body['node']}: asks {body['id']}: {asked_text(body)}"
            case e.APPROVAL_RESOLVED:
                return f"{self._asked[body['id']]}: {decision_text(body['decision'])}"
            case e.APPROVAL_EXPIRED:
                return f"{self._asked[body['id']]}: nobody answered in time"
            case e.APPROVAL_VOID:
                return f"{self._asked[body['id']]}: takes {body['id']} back: {shortened(body['reason'])}"
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


def asked_text(body: Mapping[str, Any]) -> str:
    """What an approval is about, in a line."""
    if body["kind"] == "checkpoint":
        return shortened(body["description"])
    call = call_text(body["tool_name"], body["tool_args"])
    if body["kind"] == "outcome_unknown":
        return f"what came of {call}?"
    return f"{call}, in place of {body['replaces']}" if "replaces" in body else call


def decision_text(decision: Mapping[str, Any]) -> str:
    """A decision as it is kept, in a line."""
    if "action" in decision:
        answers = ("accept", "decline", "cancel")
        what = "answer" if decision["action"] in answers else "outcome"
        said = f"{what}: {decision['action']}"
    elif not decision["approved"]:
        said = "rejected"
    else:
        said = "approved, edited" if "arguments" in decision else "approved"
    return f"{said} ({shortened(decision['reason'])})" if "reason" in decision else said
