"""The messages to a remote agent. Pure. Their ids derive from the exchange, so a repeated message is the same
message."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import attrs

from ..tools.delegation import Delegate, RemoteAnswer, RemoteTask
from .foreign_questions import foreign_answer
from .wire.a2a_headers import HITL, PATH
from .wire.task import Data, Message, Part, Text

_NAMESPACE = uuid.UUID("b8b1c6a4-3f0e-4f43-9d0c-6a4f2f3c9d11")


def context_of(request: Delegate) -> str:
    """The context of the task that an exchange starts, by which the task is found again."""
    return str(uuid.uuid5(_NAMESPACE, f"{request.key}/context"))


def first_message(request: Delegate, context: str | None) -> Message:
    return _message(request, "message", (Text(request.text),), None, context)


def answer_message(request: Delegate, task: RemoteTask, answer: RemoteAnswer) -> Message:
    """The answer to a question: with the id of the question, or in words if it has none."""
    return _message(request, answer.item.name, _parts(answer), task.id, task.context or None)


def foreign_message(request: Delegate, task: RemoteTask, answers: Sequence[RemoteAnswer]) -> Message:
    """The answers to questions of an agent of another make, in its form."""
    parts, metadata = foreign_answer(answers, request.items)
    name = ",".join(answer.item.name for answer in answers)
    message = _message(request, name, parts, task.id, task.context or None)
    extensions = (HITL,) if HITL in metadata else ()
    return attrs.evolve(message, metadata={**(message.metadata or {}), **metadata}, extensions=extensions)


def token_message(request: Delegate, task: RemoteTask) -> Message:
    """The message to a task that waits for a bearer token. The token is in the headers."""
    text = Text("Go on with the token of this request.")
    return _message(request, "token", (text,), task.id, task.context or None)


def _message(
    request: Delegate, part: str, parts: Sequence[Part], task: str | None, context: str | None
) -> Message:
    """`part`: the name of the message within its exchange."""
    return Message(
        id=str(uuid.uuid5(_NAMESPACE, f"{request.key}/{part}")),
        role="user",
        parts=parts,
        task=task,
        context=context,
        metadata={PATH: {"agents": list(request.hop.visited)}},
    )


def _parts(answer: RemoteAnswer) -> Sequence[Part]:
    if answer.item.id is not None:
        return (Data({"id": answer.item.id, **answer.words}),)
    word = Text("approved" if answer.words.get("approved") is True else "rejected")
    reason = answer.words.get("reason")
    return (word, Text(reason)) if isinstance(reason, str) and reason else (word,)
