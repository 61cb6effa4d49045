"""The dialect of agents older than A2A 0.3, which differs from 0.3 only in `message/send`. Pure.

A request is of this dialect if a part has `type` instead of `kind`, or if `params` has a `taskId` beside the
message. Messages have no id; a missing `messageId` alone is no mark, because 0.3 requires its refusal. In
answers, the message of a status is a text, and a task has one artifact. There are no streams.

No specification describes this dialect; the facts are those of such agents.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from . import v03_codec
from .object_codec import Json, filled
from .task import (
    Answer,
    Artifact,
    ClientRequest,
    Data,
    File,
    Link,
    Message,
    Part,
    Request,
    Send,
    State,
    Status,
    Subscribe,
    Task,
    Text,
)
from .timestamp import write_time

METHOD = "message/send"

_STATES: Mapping[State, State] = {"working": "submitted", "canceled": "failed", "rejected": "failed"}
"""The replacements of states that this dialect does not have."""


def is_older(method: str, params: object) -> bool:
    """Whether a request has a mark of this dialect."""
    if method != METHOD or not isinstance(params, Mapping):
        return False
    return params.get("taskId") is not None or any(map(_has_type, _parts(params.get("message"))))


def read_request(method: str, params: Mapping[str, Any], *, message_id: str) -> Request:
    """Read the parameters of a request that `is_older`. `message_id`: the id for a message without one.

    Raises:
        A2AError: INVALID_PARAMS.
    """
    message = params.get("message")
    if isinstance(message, Mapping):
        given = {name: value for name, value in message.items() if value is not None}
        message = {"messageId": message_id, "role": "user", "taskId": params.get("taskId"), **given}
        if isinstance(message.get("parts"), list):
            message["parts"] = [_with_kind(part) for part in message["parts"]]
    return v03_codec.read_request(method, {**params, "message": message})


def _parts(message: object) -> list[Any]:
    parts = message.get("parts") if isinstance(message, Mapping) else None
    return parts if isinstance(parts, list) else []


def _has_type(part: object) -> bool:
    return isinstance(part, Mapping) and "type" in part and "kind" not in part


def _with_kind(part: Any) -> Any:
    return {**part, "kind": part["type"]} if _has_type(part) else part


def write_request(request: ClientRequest) -> tuple[str, Json]:
    """The method of a request and its parameters, in the form of `read_request`. All parts become texts.

    Raises:
        ValueError: the request is for a stream or a list of tasks.
    """
    if isinstance(request, Subscribe) or (isinstance(request, Send) and request.stream):
        raise ValueError("agents older than 0.3 have no streams")
    method, params = v03_codec.write_request(request)
    if not isinstance(request, Send):
        return method, params
    parts = [{"type": "text", "text": _as_text(part)} for part in request.message.parts]
    rest = {name: value for name, value in params["message"].items() if name not in ("kind", "taskId")}
    return method, {**params, "message": {**rest, "parts": parts}, **filled(taskId=request.message.task)}


def as_v03(result: object) -> object:
    """The result of a request in the form of 0.3. Anything but a task of this dialect stays unchanged."""
    if not isinstance(result, Mapping):
        return result
    status, artifact = result.get("status"), result.get("artifact")
    changed: Json = {}
    if isinstance(status, Mapping) and isinstance(text := status.get("message"), str):
        message = {"role": "agent", "parts": [{"kind": "text", "text": text}]}
        changed["status"] = {**status, "message": message if text else None}
    if isinstance(artifact, Mapping) and not result.get("artifacts"):
        changed["artifacts"] = [artifact]
    return {**result, **changed}


def write_answer(request: Request, answer: Answer) -> Json:
    """The result of `message/send`, which is always a task. A message becomes a completed task. A message
    that refers to tasks becomes the first of these, which waits for an answer to it."""
    match answer:
        case Task():
            return {
                "kind": "task",
                "id": answer.id,
                "contextId": answer.context,
                "status": _status(answer.status),
                **filled(artifact=_artifact(answer.artifacts[-1]) if answer.artifacts else None),
            }
        case Message():
            return {
                "kind": "task",
                "id": next(iter(answer.references), None) or answer.task or answer.id,
                "contextId": answer.context or answer.id,
                "status": _status(
                    Status("input-required" if answer.references else "completed", message=answer)
                ),
            }
    raise AssertionError("message/send is answered with a task or a message")


def _status(status: Status) -> Json:
    return {
        "state": _STATES.get(status.state, status.state),
        **filled(
            timestamp=None if status.at is None else write_time(status.at),
            message=None if status.message is None else "\n".join(_texts(status.message.parts)),
        ),
    }


def _artifact(artifact: Artifact) -> Json:
    return {"parts": [{"type": "text", "text": text} for text in _texts(artifact.parts)]}


def _texts(parts: Sequence[Part]) -> list[str]:
    """The texts of the parts; without any, all parts as texts."""
    return [part.text for part in parts if isinstance(part, Text)] or [_as_text(part) for part in parts]


def _as_text(part: Part) -> str:
    match part:
        case Text():
            return part.text
        case File():
            return part.filename or "file"
        case Link():
            return part.url
        case Data():
            return json.dumps(part.data, ensure_ascii=False)
        case _:
            assert_never(part)
