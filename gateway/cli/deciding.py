"""How a person at the terminal decides about a question."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, assert_never

from ...actors.approvals.asked import Asked
from ...actors.approvals.replies import Decide, Edit, Field, Fill, NotUnderstood, ShowAll, edited
from ...actors.common.errors import AgentError
from ..views import timestamp
from .terminal import Terminal


async def ask_for_words(terminal: Terminal, asked: Asked[Any]) -> dict[str, object] | None:
    """A decision; None: the terminal gives none."""
    question = asked.original
    while (line := await terminal.ask(question.prompt)) is not None:
        match question.understand(line):
            case Decide(words):
                return dict(words)
            case Edit():
                if (arguments := await _edit(terminal, asked)) is not None:
                    return {"approved": True, "arguments": arguments}
            case Fill(form):
                if (content := await _fill(terminal, form)) is not None:
                    return {"action": "accept", "content": content}
            case ShowAll():
                expires = None if asked.expires is None else timestamp(asked.expires)
                terminal.tell(asked.all_of(expires))
            case NotUnderstood():
                terminal.tell("That is none of the answers.", "bad")
            case other:
                assert_never(other)
    return None


def tell_refusal(terminal: Terminal, error: AgentError) -> None:
    """Say why a decision does not count."""
    terminal.tell(error.message, "bad")
    for mistake in error.details.get("errors", ())[1:]:
        terminal.tell(mistake, "bad")
    if error.hint:
        terminal.tell(error.hint)


async def _fill(terminal: Terminal, form: Sequence[Field]) -> dict[str, object] | None:
    """The answer to a server's question, field by field; None: not now."""
    content: dict[str, object] = {}
    for field in form:
        line = await terminal.ask(field.prompt)
        if line is None or (not line and field.required):
            return None
        if line:
            content[field.name] = field.value(line)
    return content


async def _edit(terminal: Terminal, asked: Asked[Any]) -> object | None:
    """The arguments in place of those that were asked about; None: not now."""
    shown = json.dumps(asked.tool_args, ensure_ascii=False)
    terminal.tell(f"Now they are: {shown}")
    line = await terminal.ask("All arguments, as JSON on one line; nothing to leave them >")
    if not line:
        return None
    arguments = edited(line)
    if isinstance(arguments, str):
        terminal.tell(arguments, "bad")
        return None
    return arguments
