"""The facts of a verdict, for the event that it causes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..gate.policy import Policy
from ..tools.verdict_facts import UnsentCall, VerdictFacts, facts_of_tool
from .facts import Judgement, Missing


def facts_of(judgement: Judgement, policy: Policy, *, held: bool = False) -> VerdictFacts:
    """The facts for the intent of a call, or for its question. `held`: a halt holds the call."""
    return VerdictFacts(**_verdict(judgement, policy), **facts_of_tool(judgement.tool), held=held)


def facts_of_unsent(judgement: Judgement | Missing | None, policy: Policy) -> UnsentCall:
    """The facts for the end of a call that is not sent. None: the model's arguments cannot be read."""
    tool = None if judgement is None else judgement.tool
    about: Mapping[str, Any] = {}
    if tool is not None:
        named = {"tool_name": tool.name, "server": tool.server, "fingerprint": tool.fingerprint}
        about = {**named, **facts_of_tool(tool)}
    if not isinstance(judgement, Judgement):
        return UnsentCall(action="none", policy=policy.revision, **about)
    arguments = judgement.arguments if judgement.fitted else None
    return UnsentCall(**_verdict(judgement, policy), **about, arguments=arguments)


def _verdict(judgement: Judgement, policy: Policy) -> Mapping[str, Any]:
    verdict = judgement.verdict
    return {
        "action": verdict.action,
        "policy": policy.revision,
        "rule": policy.ids[verdict.place] if verdict.place else verdict.rule,
        "undecided": verdict.undecided,
        "shadows": {policy.ids[each.place]: each.action for each in verdict.shadows},
    }
