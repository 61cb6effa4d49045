"""Approvals of kind `elicitation`: the question of an MCP server to a person, and its answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeAlias

import attrs

from ..arguments.json_schema import Checker, Uncheckable
from ..arguments.schema_check import find_mistakes
from ..common.errors import AgentError
from ..tools.elicitation import completed, misformed, required_fields
from ..tools.tool import Elicitation, ElicitationAnswer
from .asked import Asked, Occasion
from .decided import Decided, named, object_of, unfit
from .description import describe_elicitation

_HINT = 'Send {"action": "accept", "content": {...}}, {"action": "decline"} or {"action": "cancel"}.'


@attrs.frozen(kw_only=True)
class Accept(Decided):
    marker: ClassVar = ("action", "accept")
    content: Mapping[str, Any] | None = None

    @property
    def agrees(self) -> bool:
        return True


@attrs.frozen(kw_only=True)
class Decline(Decided):
    marker: ClassVar = ("action", "decline")


@attrs.frozen(kw_only=True)
class CancelForm(Decided):
    marker: ClassVar = ("action", "cancel")


FormAnswer: TypeAlias = Accept | Decline | CancelForm


@attrs.frozen(kw_only=True)
class ElicitationQuestion(Asked[FormAnswer]):
    """An elicitation of an MCP server. It is decided with `accept`, `decline` or `cancel`."""

    kind: ClassVar = "elicitation"
    decisions: ClassVar[tuple[type[FormAnswer], ...]] = (Accept, Decline, CancelForm)
    field_names: ClassVar = ("action", "content")

    message: str
    """The text of the question, as the server wrote it."""
    in_flight: bool = attrs.field()
    """Whether the call is in flight, so that the answer is lost if the process ends."""
    url: str | None = None
    """The address that the person is asked to visit; None if the server asks for a form."""
    input_schema: Mapping[str, Any] | None = None
    """JSON Schema of the form; None if there is a `url`."""

    @classmethod
    def about(
        cls,
        occasion: Occasion,
        *,
        tool: str,
        server: str,
        arguments: Mapping[str, Any],
        elicitation: Elicitation,
        in_flight: bool,
        expires: float | None,
    ) -> Self:
        """Make the question for an elicitation in a call of `tool`."""
        form = elicitation.schema or {"type": "object"}
        return cls(
            **attrs.asdict(occasion, recurse=False),
            expires=expires,
            on_expiry="" if expires is None else "cancel",
            tool_name=tool,
            tool_args=arguments,
            description=describe_elicitation(server, elicitation.message, elicitation.url),
            message=elicitation.message,
            server=server,
            rule="the server asks",
            in_flight=in_flight,
            url=elicitation.url,
            input_schema=form if elicitation.url is None else None,
        )

    @classmethod
    def _parse(cls, words: Mapping[str, Any]) -> FormAnswer:
        decision = named(words, cls.decisions, "what to answer the server", _HINT)
        if isinstance(decision, Accept) and words.get("content") is not None:
            return Accept(content=object_of(words["content"], "content", _HINT))
        return decision

    async def checked(self, decision: FormAnswer, *, pending: bool) -> FormAnswer:
        """Add the schema's defaults to an answer; check it while the question is pending. A repeated answer
        gets the defaults as well, because it is compared with the stored one."""
        if not isinstance(decision, Accept):
            return decision
        if self.input_schema is None:  # a visit to a `url` has no content
            return attrs.evolve(decision, content=None)
        content = completed(decision.content or {}, self.input_schema)
        if pending:
            await check_answer(content, self.input_schema)
        return attrs.evolve(decision, content=content)

    def _decision_text(self, decision: FormAnswer) -> str:
        return f"answer: {decision.marker[1]}"

    def example(self) -> dict[str, Any]:
        content = dict.fromkeys(required_fields(self.input_schema or {}), "...")
        return {"action": "accept", **({"content": content} if content else {})}


def answer_of(decision: Decided) -> ElicitationAnswer:
    """Return the answer to the server: `cancel` for any decision except `Accept` and `Decline`."""
    match decision:
        case Accept(content=content):
            return ElicitationAnswer("accept", content)
        case Decline():
            return ElicitationAnswer("decline")
        case _:
            return ElicitationAnswer("cancel")


async def check_answer(content: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Check an answer against the schema of the elicitation.

    Raises:
        AgentError: ``invalid_arguments``, with the mistakes under ``errors``.
    """
    try:
        mistakes = await find_mistakes(content, Checker(schema))
    except Uncheckable as error:
        text = f"the answer cannot be checked against the question's schema: {error}"
        raise AgentError("invalid_arguments", text, hint="Decline or cancel it.") from error
    mistakes += misformed(content, schema)
    if mistakes:
        raise unfit("the answer does not fit the question", mistakes, _HINT)
