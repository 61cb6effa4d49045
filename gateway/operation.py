"""What one operation is: what it takes, and all that it answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import attrs

from . import examples as ex
from .schemas import STRING, Schema, ref

Method: TypeAlias = Literal["GET", "POST", "DELETE"]


@attrs.frozen
class Parameter:
    name: str
    where: Literal["path", "query", "header"]
    description: str
    schema: Schema = STRING
    example: Any = None


@attrs.frozen
class Answer:
    status: int
    description: str
    schema: Schema | None = None
    example: Any = None
    content_type: str = "application/json"
    headers: Mapping[str, str] = {}
    """What the headers say that only this answer has."""


@attrs.frozen
class Operation:
    id: str
    method: Method
    path: str
    """Variables in braces, as OpenAPI writes them."""
    tag: str
    summary: str
    answers: tuple[Answer, ...]
    parameters: tuple[Parameter, ...] = ()
    body: Schema | None = None
    example: Mapping[str, Any] | None = None
    """Of the body."""
    description: str = ""


def turn(description: str, example: Mapping[str, Any]) -> Answer:
    return Answer(200, description, ref("Turn"), example)


def error(status: int, description: str) -> Answer:
    headers = {"Retry-After": "Seconds until asking again may help"} if status in (429, 503) else {}
    return Answer(status, description, ref("Error"), headers=headers)


LOCATION = {"Location": "The path of the conversation"}
ACCEPTED = Answer(
    202,
    "With `Prefer: respond-async`: on disk, and `Location` tells where to look",
    ref("Turn"),
    {"conversation": ex.NEW},
    headers={**LOCATION, "Preference-Applied": "`respond-async`"},
)
INVALID = error(400, "`invalid_request`, or `invalid_cursor`; `field` names the parameter")
NO_CONVERSATION = error(404, "`conversation_not_found`")
NO_APPROVAL = error(404, "`approval_not_found`")
STOPPING = error(
    503, "`shutting_down`; `accepted` says whether the request is on disk. `stopped`: nobody knows"
)
OTHERWISE = (
    "Any route: `cross_site` (403), `wrong_host` (421), `internal_error` or `conversation_broken` (500), "
    "`too_many_connections` or `stopped` (503); with a body: `request_timeout` (408). What is no HTTP/1: "
    "400, 431, 501"
)
"""What the other answers leave out."""

MALFORMED = "`invalid_request_body`, `invalid_idempotency_key` or `invalid_token`"
REUSED = "`idempotency_key_reused`: the key came with another body before"
_POST = (
    error(400, MALFORMED),
    error(413, "`body_too_large`: more than 1 MiB"),
    error(422, REUSED),
    STOPPING,
)


def posted(*own: Answer) -> tuple[Answer, ...]:
    """The answers of a POST: its own, and those of all POSTs that have none of its own in their place."""
    known = {answer.status for answer in own}
    common = (answer for answer in _POST if answer.status not in known)
    return tuple(sorted((*own, *common), key=lambda answer: answer.status))
