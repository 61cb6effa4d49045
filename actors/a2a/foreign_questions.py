"""The questions of agents of other makes, and the answers that these understand. Pure.

    ========  ==============================================  ============================================
    form      the question, in a status message               the answer, in a message to the task
    ========  ==============================================  ============================================
    hitl      metadata under the URI of the extension         the same place: approvals or answers
    adk       data: a call of `adk_request_confirmation`      data: the response of that call
    strands   data: `interrupts`, each with its id            data: an `interruptResponse` for each
    ========  ==============================================  ============================================

All answers to one message are sent together: kagent refuses a response that omits one, and the others resume
the agent with the answers that have arrived.

Sources: kagent, docs/architecture/human-in-the-loop.md; google-adk 2.13.0,
a2a/converters/part_converter.py and flows/llm_flows/tools/_confirmation.py; strands-agents 1.62.0,
multiagent/a2a/executor.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..tools.delegation import RemoteAnswer, RemoteItem
from .wire.a2a_headers import HITL
from .wire.task import Data, Message, Part, Task, Text

CONFIRMATION = "adk_request_confirmation"
_YES, _NO = "y", ""
"""The responses to an interrupt. Handlers of Strands compare with "y", or take any true value for consent, so
that a word such as "n" could be taken for it."""


def foreign_items(message: Message) -> Iterator[RemoteItem]:
    """The questions in a status message. Their sizes are unchecked."""
    yield from _hitl_items(message)
    for data in (part.data for part in message.parts if isinstance(part, Data)):
        match data:
            case {"id": str(id), "name": "adk_request_confirmation", "args": Mapping() as asked}:
                call = _mapping(asked.get("originalFunctionCall"))
                wanted = _mapping(asked.get("toolConfirmation"))
                hints = (wanted.get("hint"), wanted.get("payload"))
                yield _item(message, id, "adk", call.get("name"), call.get("args"), *hints)
            case {"interrupts": list(interrupts)}:
                for each in interrupts:
                    match each:
                        case {"interruptId": str(id)}:
                            yield _item(message, id, "strands", each.get("name"), None, each.get("reason"))
                        case _:
                            pass
            case _:
                pass


def _hitl_items(message: Message) -> Iterator[RemoteItem]:
    request = _mapping((message.metadata or {}).get(HITL))
    match request:
        case {"type": "tool_approval_request"}:
            nested = _mapping(request.get("nested"))
            agent = nested.get("subagent_name")
            tools = request.get("tools") or nested.get("tools")
            for tool in tools if isinstance(tools, list) else ():
                match tool:
                    case {"id": str(id)}:
                        path = (agent,) if isinstance(agent, str) else ()
                        name, args, hint = tool.get("name"), tool.get("args"), request.get("hint")
                        yield _item(message, id, "hitl", name, args, hint, path=path)
                    case _:
                        pass
        case {"type": "ask_user_request", "id": str(id), "questions": list(questions)}:
            yield RemoteItem(
                message=message.id,
                id=id,
                kind="elicitation",
                description=str(request.get("hint") or "The agent asks."),
                schema=_form(questions),
                form="hitl",
            )
        case _:
            pass


def _item(
    message: Message,
    id: str,
    form: str,
    tool: object,
    args: object,
    *hints: object,
    path: Sequence[str] = (),
) -> RemoteItem:
    """A question about a call. Its text has all that the agent says of it."""
    name, arguments = tool if isinstance(tool, str) else "", _mapping(args)
    call = f"{name}({_shown(args) if args else ''})" if name or args else ""
    texts = [text for text in (*map(_shown, hints), call) if text]
    return RemoteItem(
        message=message.id,
        id=id,
        tool=name,
        arguments=arguments,
        description="\n".join(texts),
        agents=path,
        form=form,
    )


def _form(questions: Sequence[object]) -> Mapping[str, Any]:
    """The JSON Schema of a form with these questions."""
    fields: dict[str, Any] = {}
    for number, question in enumerate(questions, 1):
        asked = _mapping(question)
        offered = asked.get("choices")
        choices = [each for each in offered if isinstance(each, str)] if isinstance(offered, list) else []
        one: dict[str, Any] = {"type": "string", **({"enum": choices} if choices else {})}
        title = {"title": str(asked.get("question") or f"Question {number}")}
        many = asked.get("multiple") is True and choices
        fields[f"answer_{number}"] = {"type": "array", "items": one, **title} if many else {**one, **title}
    return {"type": "object", "properties": fields, "required": list(fields)}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


# --------------------------------------------------------------------------- answers


def foreign_answer(
    answers: Sequence[RemoteAnswer], items: Sequence[RemoteItem]
) -> tuple[Sequence[Part], Mapping[str, Any]]:
    """The parts and the metadata of the message with these answers, all in one form. `items`: the questions
    as they were asked."""
    match answers[0].item.form:
        case "adk":
            return [_adk_response(each) for each in answers], {}
        case "strands":
            return [_interrupt_response(each) for each in answers], {}
        case _:
            agreed = all(each.agrees for each in answers)
            return (Text("approved" if agreed else "rejected"),), {HITL: _hitl_response(answers, items)}


def _adk_response(answer: RemoteAnswer) -> Part:
    said = {"id": answer.item.id, "name": CONFIRMATION, "response": {"confirmed": _agrees(answer)}}
    # kagent's module for ADK, 0.10.4, reads its own name only (kagent/adk/converters/part_converter.py).
    return Data(said, metadata=dict.fromkeys(("adk_type", "kagent_type"), "function_response"))


def _interrupt_response(answer: RemoteAnswer) -> Part:
    response = _YES if _agrees(answer) else _NO
    return Data({"interruptResponse": {"interruptId": answer.item.id, "response": response}})


def _hitl_response(answers: Sequence[RemoteAnswer], items: Sequence[RemoteItem]) -> Mapping[str, Any]:
    first = answers[0]
    if first.item.kind == "elicitation":
        schema = next((item.schema for item in items if item.name == first.item.name), None) or {}
        content = _mapping(first.words.get("content")) if first.agrees else {}
        given = [content.get(name) for name in _mapping(schema.get("properties"))]
        texts = [
            each if isinstance(each, list) else [each] if isinstance(each, str) else [] for each in given
        ]
        return {
            "type": "ask_user_response",
            "id": first.item.id,
            "answers": [{"answer": each} for each in texts],
        }
    return {"type": "tool_approval_response", "approvals": [_approval(each) for each in answers]}


def _approval(answer: RemoteAnswer) -> Mapping[str, Any]:
    agrees, reason = _agrees(answer), answer.words.get("reason")
    told = {"rejection_reason": reason} if isinstance(reason, str) and not agrees else {}
    return {"id": answer.item.id, "approved": agrees, **told}


def _agrees(answer: RemoteAnswer) -> bool:
    return answer.words.get("approved") is True


def uncalled(task: Task, approved: Sequence[RemoteItem]) -> Sequence[str]:
    """The tools among these approved questions that the agent has not called, as its completed task shows. An
    agent that shows no calls is believed."""
    last = () if task.status.message is None else task.status.message.parts
    said = [*(each.parts for each in task.history), last, *(each.parts for each in task.artifacts)]
    parts = [part for each in said for part in each]
    shown = [part.data for part in parts if isinstance(part, Data) and isinstance(part.data, Mapping)]
    names = dict.fromkeys(item.tool for item in approved if item.form == "adk" and item.tool)
    return [name for name in names if _only_announced([each for each in shown if each.get("name") == name])]


def _only_announced(shown: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a call is shown, and no response of it but the one that asks for the confirmation."""
    responses = [each["response"] for each in shown if "response" in each]
    return bool(shown) and all(
        "requires confirmation" in str(_mapping(each).get("error")) for each in responses
    )
