"""Whether a tool call runs, asks a human, or is denied. Pure.

Order, first match wins: `readOnlyHint: true` runs; `destructiveHint: true` asks; `destructiveHint: false`
runs; a tool that says nothing does what `approval.unannotated` says. A call that would ask below a parallel
node does what `approval.in_parallel` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias, assert_never

import attrs

from stopgo.actors.tools import EffectClass, Tool
from stopgo.config.model import ApprovalConfig, LlmNode, Node, ParallelNode, SequentialNode

Action: TypeAlias = Literal["run", "ask", "deny"]

_STRICTNESS: dict[Action, int] = {"run": 0, "ask": 1, "deny": 2}


@attrs.frozen
class Verdict:
    action: Action
    rule: str
    """What decided, in the words of the configuration or of the tool's annotations."""


@attrs.frozen
class Place:
    """Where in the tree a call is made."""

    in_parallel: bool = False
    in_sequence: bool = False
    """A sequential node above it ends when a human says no."""


def judge(tool: Tool, place: Place, config: ApprovalConfig) -> Verdict:
    hints = tool.hints
    if hints.read_only:
        return Verdict("run", "readOnlyHint: true")
    if hints.destructive is False:
        return Verdict("run", "destructiveHint: false")
    if hints.destructive:
        verdict = Verdict("ask", "destructiveHint: true")
    else:
        verdict = Verdict(config.unannotated, f"approval.unannotated: {config.unannotated}")
    if verdict.action == "ask" and place.in_parallel and config.in_parallel == "run":
        return Verdict("run", "approval.in_parallel: run")
    return verdict


def stricter(one: Action, other: Action) -> Action:
    return max(one, other, key=_STRICTNESS.__getitem__)


def effect_class(tool: Tool, *, approved: bool) -> EffectClass:
    """How often a call may be sent: `once` unless the tool says otherwise and no human approved it."""
    if tool.hints.read_only:
        return "read"
    if tool.hints.idempotent and not tool.hints.destructive and not approved:
        return "idempotent"
    return "once"


def unasked(root: Node, tools: Iterable[Tool], config: ApprovalConfig) -> Iterator[str]:
    """Say which tools that may do harm would run without asking anyone, and where."""
    tools = tuple(tools)
    for node, place in _llm_nodes(root, Place()):
        for tool in tools:
            harmless = tool.hints.read_only or tool.hints.destructive is False
            verdict = judge(tool, place, config)
            if not harmless and verdict.action == "run":
                kind = "destructive" if tool.hints.destructive else "unannotated"
                yield (
                    f'{kind} tool "{tool.name}" of server "{tool.server}" runs without approval'
                    f' in node "{node.name}" ({verdict.rule})'
                )


def _llm_nodes(node: Node, place: Place) -> Iterator[tuple[LlmNode, Place]]:
    match node:
        case LlmNode():
            yield node, place
        case SequentialNode():
            for child in node.agents:
                yield from _llm_nodes(child, attrs.evolve(place, in_sequence=True))
        case ParallelNode():
            for child in node.agents:
                yield from _llm_nodes(child, attrs.evolve(place, in_parallel=True))
        case _:
            assert_never(node)
