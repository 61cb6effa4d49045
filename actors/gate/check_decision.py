"""Validates a decision before it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio

from ...config.sections.agent_config import AgentConfig
from ...runtime.ref import ActorRef
from ..approvals.decided import Decided
from ..approvals.kinds import Approval
from ..approvals.tool_approval import ToolQuestion
from ..approvals.yes_or_no import Approved
from ..common.errors import AgentError
from ..tools.registry import RegistryMessage, Resolve, Resolved
from .gate import policy_scopes, root_scope
from .off_loop import judge_off_loop


async def checked(
    approval: Approval,
    words: Mapping[str, Any],
    config: AgentConfig,
    registry: ActorRef[RegistryMessage],
) -> Decided:
    """The decision in its stored form.

    Raises:
        AgentError: the errors of `Asked.parse`; ``invalid_arguments``; ``denied_by_policy``;
            ``may_not_approve``.
        ActorError: the call was edited, and the registry, which has its tool, has stopped.
    """
    asked, pending = approval.asked, approval.state == "pending"
    decision = await asked.decision_in(words, pending=pending)
    match asked, decision:
        case ToolQuestion(), Approved(arguments=Mapping() as arguments) if pending:
            await _check_policy(asked, arguments, config, registry)
    return decision


async def _check_policy(
    asked: ToolQuestion,
    arguments: Mapping[str, Any],
    config: AgentConfig,
    registry: ActorRef[RegistryMessage],
) -> None:
    found = await registry.ask(Resolve(asked.tool_name, arguments, asked.server))
    if isinstance(found, Resolved):
        above = root_scope(config)
        named = (scope for _, scope in policy_scopes(config.agent, above) if scope.node == asked.node)
        verdict = await judge_off_loop(found.tool, arguments, next(named, above), trio.Lock())
        if verdict.action == "deny":
            raise AgentError("denied_by_policy", f"the edited call is denied: {verdict.rule}")
