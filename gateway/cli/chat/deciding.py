"""Asks a person at the terminal for a decision."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, assert_never

from ....actors.approvals.asked import Asked
from ....actors.approvals.description import edits_text, is_shortened
from ....actors.common.errors import AgentError
from ....runtime.journal.question import Question
from ...rest.views import timestamp
from ..client.agent_client import ServerError
from ..terminal.terminal import Style
from ..terminal.typed_reply import (
    Edit,
    Field,
    Fill,
    NotUnderstood,
    ShowAll,
    TypedDecision,
    all_of,
    understand,
)

TYPED = ("reason", "result", "arguments", "content")
"""The fields of a decision that a person types."""


class Teller(Protocol):
    def tell(self, text: str, style: Style = "plain") -> None:
        """Show a text."""


class Person(Teller, Protocol):
    async def ask(self, prompt: str) -> str | None:
        """The line typed after `prompt`; None without one."""

    async def ask_reply(self, question: Asked[Any]) -> str | None:
        """A reply, for `understand`; None if the person leaves."""

    async def edit(self, asked: Asked[Any]) -> Mapping[str, Any] | None:
        """Arguments that replace those of the question; None if the person gives none."""


async def ask_for_words(person: Person, asked: Asked[Any]) -> dict[str, object] | None:
    """The words of a decision; None if the person leaves."""
    question = asked.original
    hash = {} if asked.requires is None else {"hash": asked.hash}
    unread = is_shortened(asked.description)
    while (line := await person.ask_reply(question)) is not None:
        match understand(question, line):
            case TypedDecision({"approved": True} | {"action": "retry"}) | Fill() if unread:
                person.tell("A part is left out above. Type ? to read all of it first.", "bad")
            case TypedDecision(words):
                return {**words, **hash}
            case Edit():
                if (arguments := await person.edit(asked)) is not None:
                    return {"approved": True, "arguments": arguments, **hash}
            case Fill(form):
                if (content := await _fill(person, form)) is not None:
                    return {"action": "accept", "content": content}
            case ShowAll():
                expires = None if asked.expires is None else timestamp(asked.expires)
                person.tell(all_of(asked, expires))
                unread = False
            case NotUnderstood():
                person.tell("That is not a valid answer.", "bad")
            case other:
                assert_never(other)
    return None


def tell_refusal(
    teller: Teller, error: AgentError | ServerError, sent: Mapping[str, Any] | None = None
) -> None:
    """Show why a request or decision was refused; if another decision was first, that one, and the texts of
    the decision that was `sent`."""
    teller.tell(error.message, "bad")
    if (approval := error.details.get("approval")) is not None:
        if (first := decision_text(approval)) is not None:
            teller.tell(f"It was {first}.")
        typed = [each for each in map((sent or {}).get, TYPED) if each]
        tell_typed(teller, [each if isinstance(each, str) else json.dumps(each) for each in typed])
    for mistake in error.details.get("errors", ())[1:]:
        teller.tell(mistake, "bad")
    if error.hint:
        teller.tell(error.hint)


def tell_typed(teller: Teller, typed: Iterable[str]) -> None:
    """Show what a person has typed in vain, so that it can be used again."""
    if texts := [text for text in typed if text.strip()]:
        teller.tell(f"You had typed: {' / '.join(texts)}")


def decision_text(approval: Question | Mapping[str, Any]) -> str | None:
    """The decision of an approval, of the agent or of the API, in a line; None without one."""
    if isinstance(approval, Question):
        decision: Mapping[str, Any] | None = approval.decision
        at, asked = timestamp(approval.settled or 0.0), approval.body.get("tool_args", {})
    else:
        decision = approval.get("decision")
        at, asked = decision["decided_at"] if decision else "", approval.get("tool_args", {})
    if decision is None:
        return None
    word = decision.get("action") or ("approved" if decision.get("approved") else "rejected")
    word = "answered" if word == "respond" else word
    by = f" by {decision['decided_by']}" if "decided_by" in decision else ""
    edits = f", edited: {edits_text(asked, decision['arguments'])}" if "arguments" in decision else ""
    reason = f": {decision['reason']}" if "reason" in decision else ""
    return f"{word} at {at}{by}{edits}{reason}"


async def _fill(person: Person, form: Sequence[Field]) -> dict[str, object] | None:
    """The content for an elicitation, field by field; None if the person stops before the end."""
    content: dict[str, object] = {}
    for field in form:
        line = await person.ask(field.prompt)
        if line is None or (not line and field.required):
            return None
        if line:
            content[field.name] = field.value(line)
    return content
