"""The tools that may do harm and run without approval, and the nodes where they do. Pure.

A tool may do harm unless its hints in effect say that it only reads, or that it is not destructive. The
verdicts are those of `gate.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs

from ...config.sections.agent_config import AgentConfig
from ..tools.tool import Tool
from .gate import PolicyScope, Verdict, by_hints, mismatch, offered, policy_scopes, root_scope, rule_text

_MOST_NAMED = 8
"""Tools that the summary names; the others are counted."""


@attrs.frozen
class Unapproved:
    """A tool that may do harm and runs without approval in a node."""

    tool: Tool
    node: str
    reason: str
    """The rule or setting that lets it run, in words."""
    by_rule: bool
    """Whether a rule of the agent file says so."""
    sometimes: bool
    """Whether it depends on the arguments."""

    @property
    def key(self) -> tuple[str, str]:
        return self.tool.server, self.tool.name


def unapproved_tools(config: AgentConfig, tools: Iterable[Tool]) -> Iterator[Unapproved]:
    """Every tool that may do harm and runs without approval, with each node where it does."""
    tools = tuple(tools)
    for node, scope in policy_scopes(config.agent, root_scope(config)):
        if not node.KIND.calls:
            continue
        for tool in tools:
            hints = tool.hints.in_effect
            if hints.read_only or hints.destructive is False or not offered(tool, scope):
                continue
            verdict, by_rule, sometimes = _most_permissive(tool, scope)
            if verdict.action == "run":
                yield Unapproved(tool, node.name, verdict.rule, by_rule, sometimes)


def summary(config: AgentConfig, found: Sequence[Unapproved]) -> str | None:
    """One sentence about these tools, and about the switch that stops them; None without any."""
    by_tool: dict[tuple[str, str], list[Unapproved]] = {}
    for each in found:
        by_tool.setdefault(each.key, []).append(each)
    if not by_tool:
        return None
    named = [_named(places) for places in list(by_tool.values())[:_MOST_NAMED]]
    more = len(by_tool) - len(named)
    listing = ", ".join(named) + (f" and {more} more" if more else "")
    said = "1 tool may do harm and runs" if len(by_tool) == 1 else f"{len(by_tool)} tools may do harm and run"
    return f"{said} without approval: {listing}{_remedy(config, by_tool.values())}"


def _named(places: Sequence[Unapproved]) -> str:
    first, others = places[0], len(places) - 1
    more = f" and {others} more" if others else ""
    return (
        f'"{first.tool.name}" of server "{first.tool.server}"'
        f"{' with some arguments' if first.sometimes else ''}"
        f' in node "{first.node}"{more} ({first.reason})'
    )


def _remedy(config: AgentConfig, by_tool: Iterable[Sequence[Unapproved]]) -> str:
    """The effect of `approval.defaults: strict`: none where a rule or a single key decides."""
    strict = attrs.evolve(config, approval=attrs.evolve(config.approval, defaults="strict"))
    tools = [places[0].tool for places in by_tool]
    remaining = {each.key for each in unapproved_tools(strict, tools)}
    match len(tools) - len(remaining), len(remaining):
        case 0, _:
            return ""
        case stopped, 0:
            return f"; approval.defaults: strict stops {'it' if stopped == 1 else 'them'}"
        case stopped, _:
            return f"; approval.defaults: strict stops {stopped} of them"


def _most_permissive(tool: Tool, scope: PolicyScope) -> tuple[Verdict, bool, bool]:
    """The most permissive verdict that a call of the tool can get, whether a rule decides it, and whether it
    depends on the arguments."""
    conditional: Verdict | None = None
    stricter = by_rule = False
    last = by_hints(tool, scope)
    for rule in scope.policy.rules:
        if rule.shadow or mismatch(rule, tool, scope) is not None:
            continue
        if not rule.reads_arguments:
            last, by_rule = Verdict(rule.then, rule_text(rule)), True
            break
        if rule.then != "run":
            stricter = True
        elif conditional is None:
            conditional = Verdict("run", rule_text(rule))
    if last.action == "run" or conditional is None:
        return last, by_rule, stricter
    return conditional, True, True
