"""What a decision has to pass before it counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio

from ...config.agent_config import AgentConfig
from ...runtime.journal.protocol import Question
from ...runtime.ref import ActorRef
from ..common.errors import AgentError
from ..tools.elicitation import completed, misformed
from ..tools.json_schema import Checker, Uncheckable
from ..tools.registry import RegistryMessage, Resolve, Resolved
from ..tools.schema_check import find_mistakes
from .approvals import ANSWER_HINT, EDIT_HINT, parse_decision
from .gate import places, root_place
from .off_loop import judge_off_loop

AS_IT_IS = "Approve or reject the call as it is."


async def checked(
    question: Question,
    words: Mapping[str, Any],
    config: AgentConfig,
    registry: ActorRef[RegistryMessage],
) -> dict[str, Any]:
    """The decision in the form that is kept.

    Raises:
        AgentError: what `parse_decision` raises, ``invalid_arguments``, ``denied_by_policy``.
        ActorError: there is no registry any more to ask for the tool of an edited call.
    """
    decision = parse_decision(question.kind, words)
    if question.state == "pending" and "arguments" in decision:
        await check_edit(decision["arguments"], question.body["input_schema"])
        await _check_policy(question, decision["arguments"], config, registry)
    if decision.get("action") == "accept":
        await _complete(question, decision)
    return decision


async def _check_policy(
    question: Question,
    arguments: Mapping[str, Any],
    config: AgentConfig,
    registry: ActorRef[RegistryMessage],
) -> None:
    tool, server = question.body["tool_name"], question.body["server"]
    found = await registry.ask(Resolve(tool, arguments, server))
    if isinstance(found, Resolved):
        node, above = question.body["node"], root_place(config)
        named = (place for _, place in places(config.agent, above) if place.node == node)
        verdict = await judge_off_loop(found.tool, arguments, next(named, above), trio.Lock())
        if verdict.action == "deny":
            raise AgentError("denied_by_policy", f"the edited call is denied: {verdict.rule}")


async def _complete(question: Question, decision: dict[str, Any]) -> None:
    """Complete what a server is answered, and check it against what it asked for. An answer that is
    repeated has to be completed too, for that is how it was kept."""
    schema = question.body.get("input_schema")
    if schema is None:  # an address to visit: that it was visited is all there is to say
        decision.pop("content", None)
        return
    decision["content"] = completed(decision.get("content", {}), schema)
    if question.state == "pending":
        await check_answer(decision["content"], schema)


async def check_edit(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Check edited arguments against the schema that was shown with the approval.

    Raises:
        AgentError: ``invalid_arguments``, with the mistakes under ``errors``.
    """
    try:
        mistakes = await find_mistakes(arguments, Checker(schema))
    except Uncheckable as error:
        text = f"the edited arguments cannot be checked against the tool's schema: {error}"
        raise AgentError("invalid_arguments", text, hint=AS_IT_IS) from error
    if mistakes:
        raise _unfit("the edited arguments do not fit the tool", mistakes, EDIT_HINT)


async def check_answer(content: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Check the answer to a server's question against the schema of that. Raises as `check_edit`."""
    try:
        mistakes = await find_mistakes(content, Checker(schema))
    except Uncheckable as error:
        text = f"the answer cannot be checked against the question's schema: {error}"
        raise AgentError("invalid_arguments", text, hint="Decline or cancel it.") from error
    mistakes += misformed(content, schema)
    if mistakes:
        raise _unfit("the answer does not fit the question", mistakes, ANSWER_HINT)


def _unfit(what: str, mistakes: list[str], hint: str) -> AgentError:
    text = f"{what}: {mistakes[0]}"
    return AgentError("invalid_arguments", text, hint=hint, details={"errors": mistakes})
