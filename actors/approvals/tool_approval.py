"""The question before a tool call: may it run?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self, assert_never

import attrs

from ..arguments.json_schema import Checker, Uncheckable
from ..arguments.schema_check import find_mistakes
from ..common.errors import AgentError, check_fields
from ..tools.delegation import MESSAGE, SERVER, is_remote
from ..tools.tool import Tool
from ..tools.verdict_facts import VerdictFacts
from .asked import Occasion, Settled
from .decided import (
    COMMON,
    MAX_TEXT,
    NOT_IN_TIME,
    NOTHING_DONE,
    Decided,
    Expired,
    action_in,
    object_of,
    text_of,
    unfit,
)
from .description import describe_call, describe_delegation, shortened
from .requirement import Requirement
from .yes_or_no import Approved, Rejected, Respond, YesOrNo, YesOrNoDecision

_HINT = "Edited arguments replace the shown ones in full."
REJECTED_BEFORE = "Rejected before: a person rejected this very call earlier in the conversation."
_RESPOND = 'Send {"action": "respond", "result": "..."} to answer in place of the call.'
_AS_IT_IS = "Approve or reject the call as it is."


@attrs.frozen(kw_only=True)
class ToolQuestion(YesOrNo):
    """The question before a tool call: may it run? It is decided with yes or no, or with a text that the
    model gets in place of the result. The text is for a call that was never sent: otherwise it would hide an
    attempt that may have happened."""

    kind: ClassVar = "tool"
    decisions: ClassVar = (Approved, Rejected, Respond)
    field_names: ClassVar = (*YesOrNo.field_names, "result")

    server: str = attrs.field()
    input_schema: Mapping[str, Any]
    """JSON Schema of edited arguments."""
    tool_fingerprint: str
    """The fingerprint of the tool that was shown."""
    facade: str | None = None
    """The server facade that the model called; None if it called the tool itself."""
    rejected_before: str | None = None
    """The id of the latest approval in which a person rejected the same call, in an earlier turn."""
    verdict: VerdictFacts | None = None
    """The facts of the gate's verdict. Early versions did not record them."""
    was_sent: bool | None = None
    """True if an earlier attempt of the call was sent, so that it takes no text in place of its result."""

    @classmethod
    def about(
        cls,
        occasion: Occasion,
        *,
        tool: Tool,
        facade: str | None,
        arguments: Mapping[str, Any],
        rule: str,
        replaces: str | None,
        expires: float | None,
        on_expiry: str,
        requires: Requirement | None = None,
        rejected_before: str | None = None,
        verdict: VerdictFacts | None = None,
        was_sent: bool = False,
    ) -> Self:
        description = _description(tool.name, tool.server, facade, arguments)
        return cls(
            **attrs.asdict(occasion, recurse=False),
            expires=expires,
            on_expiry="" if expires is None else on_expiry,
            tool_name=tool.name,
            tool_args=arguments,
            description=description if rejected_before is None else f"{description}\n\n{REJECTED_BEFORE}",
            server=tool.server,
            input_schema=tool.input_schema,
            tool_fingerprint=tool.fingerprint,
            rule=rule,
            requires=requires,
            replaces=replaces,
            facade=facade,
            rejected_before=rejected_before,
            verdict=verdict,
            was_sent=was_sent or None,
        )

    def with_arguments(self, arguments: Mapping[str, Any]) -> Self:
        description = _description(self.tool_name, self.server, self.facade, arguments)
        return attrs.evolve(self, tool_args=arguments, description=description)

    @property
    def shown_definition(self) -> str:
        return self.tool_fingerprint

    @classmethod
    def _edited(cls, arguments: object) -> Mapping[str, Any]:
        return object_of(arguments, "arguments", _HINT)

    @classmethod
    def _parse(cls, words: Mapping[str, Any]) -> YesOrNoDecision:
        if ("action", action_in(words)) == Respond.marker:
            return _response(words)
        decision = super()._parse(words)
        # Ignored, a `result` with a yes would run the call although a person wrote an answer.
        check_fields(words, (*YesOrNo.field_names, *COMMON), "this decision")
        return decision

    async def decision_in(self, words: Mapping[str, Any], *, pending: bool) -> Decided:
        decision = await super().decision_in(words, pending=pending)
        if pending and self.was_sent and isinstance(decision, Respond):
            text = "an earlier attempt of the call was sent, so a text cannot stand for its result"
            raise AgentError("decision_required", text, hint="Approve or reject it.")
        return decision

    async def checked(self, decision: YesOrNoDecision, *, pending: bool) -> YesOrNoDecision:
        if pending and isinstance(decision, Approved) and decision.arguments is not None:
            await check_edit(decision.arguments, self.input_schema)
        return decision

    def shown_call(self) -> Mapping[str, Any]:
        name = {"name": self.tool_name, "arguments": self.tool_args}
        return {**name, "server": self.server, "facade": self.facade}

    def settled(self, decision: YesOrNoDecision | Expired, *, lost: bool) -> Settled | None:
        done = "An earlier attempt may have happened." if lost else NOTHING_DONE
        match decision:
            case Approved():
                return None
            case Rejected(reason=reason):
                text = f"Operation rejected by the user. {done}"
                return Settled("rejected", text if reason is None else f"{text} Reason: {reason}")
            case Respond(result=result):
                text = f"A person answered in place of the call. {done} The answer: {result}"
                return Settled("answered", text, is_error=False)
            case Expired():
                return Settled("expired", f"{NOT_IN_TIME} {done}")
            case _:
                assert_never(decision)

    @property
    def line(self) -> str:
        call = super().line if self.facade is None else f"{super().line} of {shortened(self.server)}"
        call = call if self.replaces is None else f"{call}, in place of {self.replaces}"
        return call if self.rejected_before is None else f"{call}, rejected before"


def _response(words: Mapping[str, Any]) -> Respond:
    check_fields(words, ("action", "result", *COMMON), "this decision")
    result = "" if words.get("result") is None else text_of(words, "result", limit=MAX_TEXT)
    if not result.strip():
        text = "the action `respond` needs a result, which is not empty"
        raise AgentError("invalid_request", text, hint=_RESPOND, details={"field": "result"})
    return Respond(result=result)


def _description(tool: str, server: str, facade: str | None, arguments: Mapping[str, Any]) -> str:
    if is_remote(server):
        return describe_delegation(server.removeprefix(SERVER), str(arguments.get(MESSAGE, "")))
    return describe_call(tool, server, facade, arguments)


async def check_edit(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Check edited arguments against the schema that was shown with the approval.

    Raises:
        AgentError: ``invalid_arguments``, with the mistakes under ``errors``.
    """
    try:
        mistakes = await find_mistakes(arguments, Checker(schema))
    except Uncheckable as error:
        text = f"the edited arguments cannot be checked against the tool's schema: {error}"
        raise AgentError("invalid_arguments", text, hint=_AS_IT_IS) from error
    if mistakes:
        raise unfit("the edited arguments do not fit the tool", mistakes, _HINT)
