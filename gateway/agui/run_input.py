"""Parsing of the body of `POST /agui`, a RunAgentInput of AG-UI. Pure.

The agent keeps the conversation, its state and its tools itself. Therefore only the user's last message is
read, and `state`, `tools`, `context` and unknown fields are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from ...actors.tools.pictures import Picture
from ..contract.attachments import Content, File, FileAddress, MessagePart, UnusableFile, content_of
from ..http.body import kind
from ..http.errors import RequestError

MAX_ID = 255
"""Characters of the ids that a client chooses."""
MAX_RESUMED = 100
"""Maximum number of interrupts that one request may answer."""

_HINT = "Send a RunAgentInput of AG-UI 1.0, as `runAgent` of @ag-ui/client does."


@attrs.frozen
class UserMessage:
    id: str
    text: str
    pictures: tuple[Picture, ...] = ()


@attrs.frozen
class ResumeEntry:
    """The answer to one interrupt."""

    interrupt: str
    status: Literal["resolved", "cancelled"]
    payload: Any = None


@attrs.frozen
class RunInput:
    thread: str
    run: str
    message: UserMessage | None
    """The last message of the user, if there is one."""
    resume: tuple[ResumeEntry, ...]
    parent_run: str | None = None
    messages: Sequence[Any] = ()
    """All messages that the client has, unparsed."""


def parse_run_input(body: Mapping[str, Any]) -> RunInput:
    """Raises `RequestError` 400 ``invalid_request_body``, 422 ``unusable_file``, or 400 ``message_required``
    without a message of the user and without an answer to an interrupt."""
    resume = tuple(
        _resume_entry(entry, f"resume[{index}]") for index, entry in enumerate(_list(body, "resume"))
    )
    if len(resume) > MAX_RESUMED:
        raise _invalid("resume", f"must have at most {MAX_RESUMED} entries")
    if len({entry.interrupt for entry in resume}) < len(resume):
        raise _invalid("resume", "must name each interrupt once")
    parent, messages = body.get("parentRunId"), _list(body, "messages")
    found = RunInput(
        thread=_id(body, "threadId"),
        run=_id(body, "runId"),
        message=None if resume else _last_user_message(messages),
        resume=resume,
        parent_run=None if parent is None else _id(body, "parentRunId"),
        messages=messages,
    )
    if not found.resume and found.message is None:
        raise RequestError(
            400,
            "message_required",
            "message is required",
            hint="Add a message with the role `user` to `messages`, or answer interrupts with `resume`.",
        )
    return found


def _last_user_message(messages: list[Any]) -> UserMessage | None:
    for index, message in reversed(list(enumerate(messages))):
        place = f"messages[{index}]"
        if not isinstance(message, dict):
            raise _invalid(place, f"must be an object, not {kind(message)}")
        if message.get("role") == "user":
            content = _content(message.get("content"), f"{place}.content")
            id = _id(message, "id", place)
            return UserMessage(id, content.text, content.pictures) if content.text.strip() else None
    return None


def _content(content: Any, place: str) -> Content:
    """The content of a message: a text, or parts (docs.ag-ui.com, "Multimodal Inputs")."""
    if isinstance(content, str):
        return Content(content)
    if not isinstance(content, list):
        raise _invalid(place, f"must be a string or an array, not {kind(content)}")
    parts = [_part(part, f"{place}[{index}]") for index, part in enumerate(content)]
    try:
        return content_of(parts, between="\n")
    except UnusableFile as error:
        raise error.refused(f"{place}[{error.index}]") from None


def _part(part: Any, place: str) -> MessagePart:
    match part:
        case {"type": "text"}:
            return _string(part, "text", place)
        # Of the type `binary` in earlier clients, with its fields beside the type.
        case {"type": "binary" | "image" | "document" | "audio" | "video" as type_}:
            inside = part.get("source", part if type_ == "binary" or "data" in part else {})
            if not isinstance(inside, dict):
                raise _invalid(f"{place}.source", f"must be an object, not {kind(inside)}")
            return _file(part, inside, place)
        case _:
            raise _invalid(place, "must be a part of type `text`, `image`, `document` or `binary`")


def _file(part: dict[str, Any], source: dict[str, Any], place: str) -> MessagePart:
    """A file, whose `source` is the part itself in earlier clients."""
    media_type, name = source.get("mimeType"), part.get("filename")
    about = [each if isinstance(each, str) else None for each in (media_type, name)]
    match source:
        case {"type": "data", "value": str(data)} | {"data": str(data)}:
            return File(data, *about)
        case {"type": "url", "value": str(url)} | {"url": str(url)}:
            return FileAddress(url, *about)
        case _:
            raise _invalid(place, "must have its data or its address as a string")


def _string(part: dict[str, Any], name: str, place: str) -> str:
    value = part.get(name)
    if not isinstance(value, str):
        raise _invalid(f"{place}.{name}", f"must be a string, not {kind(value)}")
    return value


def _resume_entry(entry: Any, place: str) -> ResumeEntry:
    if not isinstance(entry, dict):
        raise _invalid(place, f"must be an object, not {kind(entry)}")
    match entry.get("status"):
        case ("resolved" | "cancelled") as status:
            return ResumeEntry(_id(entry, "interruptId", place), status, entry.get("payload"))
        case _:
            raise _invalid(f"{place}.status", "must be `resolved` or `cancelled`")


def _id(body: Mapping[str, Any], name: str, place: str = "") -> str:
    value, path = body.get(name), f"{place}.{name}" if place else name
    if not isinstance(value, str):
        raise _invalid(path, f"must be a string, not {kind(value)}")
    if not 0 < len(value) <= MAX_ID:
        raise _invalid(path, f"must have 1 to {MAX_ID} characters")
    return value


def _list(body: Mapping[str, Any], name: str) -> list[Any]:
    value = body.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise _invalid(name, f"must be an array, not {kind(value)}")
    return value


def _invalid(place: str, why: str) -> RequestError:
    text = f"invalid request body: {place} {why}"
    return RequestError(400, "invalid_request_body", text, hint=_HINT, details={"field": place})
