"""MCP's questions to people, to ours and back. Pure: nothing here sends, receives or waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stopgo.actors.tools.tool import Elicitation, ElicitationAnswer, ToolInputRequired

if TYPE_CHECKING:
    import mcp_types as types

MAX_QUESTIONS = 16
"""Questions a server may ask at once."""


class NotOffered(Exception):
    """The server wants what this client does not offer; the text says what, for the model to read."""


def question_from_wire(params: types.ElicitRequestParams) -> Elicitation:
    """A form, or an address to visit (MCP 2025-11-25, "Elicitation")."""
    if params.mode == "url":
        return Elicitation(params.message, url=params.url)
    return Elicitation(params.message, schema=dict(params.requested_schema))


def answer_to_wire(answer: ElicitationAnswer) -> types.ElicitResult:
    """The answer; what is in no field of a form is for the person who asked to have checked."""
    import mcp_types as types

    content: Any = None if answer.content is None else dict(answer.content)
    return types.ElicitResult(action=answer.action, content=content)


def input_required(result: types.InputRequiredResult) -> ToolInputRequired:
    """What a server wants before it goes on with a call (MCP 2026-07-28, `InputRequiredResult`).

    Raises:
        NotOffered: it wants something else than answers of people, or too many of them.
    """
    requests = result.input_requests or {}
    others = sorted({request.method for request in requests.values()} - {"elicitation/create"})
    if others:
        raise NotOffered(f"the server asks for {', '.join(others)}, which this client does not offer")
    if len(requests) > MAX_QUESTIONS:
        raise NotOffered(f"the server asks {len(requests)} questions at once; {MAX_QUESTIONS} are answered")
    found = {
        name: question_from_wire(request.params)
        for name, request in requests.items()
        if request.method == "elicitation/create"
    }
    return ToolInputRequired(found, state=result.request_state)


def addresses_required(data: object) -> ToolInputRequired | None:
    """The addresses to visit before a call can be made, out of the error -32042 (MCP 2025-11-25).

    None when it names none, and so is an error like any other.
    """
    from mcp_types import ElicitRequestURLParams
    from pydantic import ValidationError

    listed = data.get("elicitations") if isinstance(data, Mapping) else None
    if not isinstance(listed, list) or not 0 < len(listed) <= MAX_QUESTIONS:
        return None
    try:
        found = [ElicitRequestURLParams.model_validate(each) for each in listed]
    except ValidationError:
        return None
    asked = {str(number): question_from_wire(params) for number, params in enumerate(found)}
    return ToolInputRequired(asked, answers=False)
