"""The data of the page about an approval: the rule that asked, the hints of the tool, a rule that would avoid
the question, earlier decisions, and the channels that were told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...actors.agent.agent import Agent
from ...actors.agent.precedents import Precedent
from ...actors.approvals.kinds import Approval
from ...actors.approvals.tool_approval import ToolQuestion
from ...actors.gate.gate import PolicyScope, policy_scopes, root_scope
from ...actors.gate.halt import RULE
from ...actors.notify.delivery import ChannelDelivery
from ...actors.replay.recorded_call import DECIDED
from ...actors.replay.rule_report import CallFigures
from ...actors.tools.tool import Tool
from ...config.text.interpolate import escape
from ...config.text.values import from_plain
from ...config.text.wildcards import has_wildcards
from ..rest.views import timestamp
from .agent_file import agent_file
from .shown_config import yaml_of


async def context_view(agent: Agent, uuid: str) -> dict[str, Any]:
    """JSON for `approval_card.js`. Raises `AgentError` ``approval_not_found`` or ``conversation_broken``."""
    approval = await agent.approval(uuid)
    asked = approval.asked
    tool = None if asked.server is None else agent.catalogue.of_server(asked.server, asked.tool_name)
    return {
        "conversation_title": await agent.title(approval.stream),
        "hints": None if tool is None else tool.hints.in_effect.to_json(),
        "effect": None if tool is None else tool.hints.effect,
        "rule": (await agent_file(agent)).rule(asked.rule),
        "suggestion": None if tool is None else _suggestion(approval, tool, agent),
        "history": [_precedent(each) for each in await agent.precedents(approval)],
        "told": [_told(each) for each in await agent.notifications_about(uuid)],
    }


async def calls_view(agent: Agent, uuid: str) -> dict[str, Any]:
    """The calls of an approval's tool in 30 days, and those of them that the suggested rule would run: how
    many ran, and what people decided about the others. Raises `AgentError`, also ``role_required``."""
    approval = await agent.approval(uuid)
    report = await agent.policy_report()
    nodes = report.tools.get((approval.asked.server or "", approval.asked.tool_name), {})
    place = _first_place(_scope_of(agent, approval.asked.node))
    own = {each.node for each in _scopes(agent) if _first_place(each) == place}
    would_run = CallFigures.sum(found for node, found in nodes.items() if node in own)
    return {
        "calls": CallFigures.sum(nodes.values()).hits[-1],
        "would_run": would_run.hits[-1],
        "ran": would_run.actions["run"],
        **{answer: would_run.answers[answer] for answer in DECIDED},
    }


def _told(delivery: ChannelDelivery) -> dict[str, Any]:
    """`at`: when it arrived or ended, or is tried next."""
    at = timestamp(delivery.settled or delivery.next)
    return {"channel": delivery.channel, "kind": delivery.kind, "state": delivery.state, "at": at}


def _suggestion(approval: Approval, tool: Tool, agent: Agent) -> str | None:
    """A rule that would run exactly this tool without approval; None if no rule can name it alone, or if the
    call asks because of a halt."""
    asked = approval.asked
    others = (each for each in agent.catalogue.tools if each.server == tool.server and each != tool)
    if (
        not isinstance(asked, ToolQuestion)
        or asked.rule == RULE
        or has_wildcards(tool.name)
        or any(each.is_called(tool.name) for each in others)
    ):
        return None
    policy_scope = _scope_of(agent, asked.node)
    rule = {"tool": tool.name, "server": tool.server, "then": "run"}
    written = {name: escape(text) for name, text in rule.items()}
    yaml = yaml_of(from_plain({"approval": {"rules": [written]}}))
    return f"# {_where(policy_scope)}\n{yaml}"


def _scopes(agent: Agent) -> Iterator[PolicyScope]:
    return (scope for _, scope in policy_scopes(agent.config.agent, root_scope(agent.config)))


def _scope_of(agent: Agent, node: str) -> PolicyScope | None:
    return next((each for each in _scopes(agent) if each.node == node), None)


def _first_place(policy_scope: PolicyScope | None) -> str:
    """The node whose rules come first, in words; empty for the rules of the agent file."""
    rules = () if policy_scope is None else policy_scope.policy.rules
    owner = rules[0].place.rpartition(" approval.rules[")[0] if rules else ""
    return owner if owner.startswith("node ") else ""


def _where(policy_scope: PolicyScope | None) -> str:
    """The position at which the rule is the first match."""
    if owner := _first_place(policy_scope):
        return f"in {owner}, before its other rules"
    return "in the agent file, before the other rules"


def _precedent(precedent: Precedent) -> dict[str, Any]:
    approval = precedent.approval
    decision = approval.decision or {}
    at = approval.created if approval.settled is None else approval.settled
    view = {
        "uuid": approval.id,
        "conversation_id": approval.stream,
        "title": precedent.title,
        "at": timestamp(at),
        "decision": _word(decision),
        "outcome": precedent.outcome,
        "arguments": decision.get("arguments") or approval.asked.tool_args,
    }
    by = decision.get("decided_by")
    return view if by is None else {**view, "decided_by": by}


def _word(decision: Mapping[str, Any]) -> str:
    approved = decision.get("approved")
    if isinstance(approved, bool):
        return "approved" if approved else "rejected"
    return str(decision.get("action", ""))
