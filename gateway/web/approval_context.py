"""What a person wants to know beside an approval: the rule that asked, hints, and what happened before."""

from __future__ import annotations

from typing import Any

from ...actors.agent import Agent


async def context_view(agent: Agent, uuid: str) -> dict[str, Any]:
    """Raises `AgentError`: ``approval_not_found``."""
    question = await agent.approval(uuid)
    return {
        "conversation_title": question.stream,
        "hints": None,
        "effect": None,
        "rule": None,
        "suggestion": None,
        "history": [],
    }
