"""One operation of the HTTP API: its parameters and all of its answers. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import attrs

from ..http.headers import MAX_KEY
from . import examples as ex
from .declaration import Shape, With
from .shapes import Turn
from .system_shapes import Error


@attrs.frozen
class Parameter:
    name: str
    where: Literal["path", "query", "header"]
    description: str
    type: Any = str
    example: str | None = None


def query(name: str, description: str, type: Any = str, **schema: Any) -> Parameter:
    """A query parameter. `schema` adds keywords to the schema of the type."""
    return Parameter(name, "query", description, Annotated[type, With(**schema)])


def header(name: str, description: str, type: Any = str, **schema: Any) -> Parameter:
    return attrs.evolve(query(name, description, type, **schema), where="header")


@attrs.frozen
class Response:
    status: int
    description: str
    body: Any = None
    """A shape that serves as the example, or the type of the body; None: there is no body."""
    example: Any = None
    """The example, if `body` is a type."""
    content_type: str = "application/json"
    headers: Mapping[str, str] = {}
    """Headers specific to this answer, with their meanings."""


@attrs.frozen
class Operation:
    id: str
    route: str
    """Method and path, with variables in braces as OpenAPI writes them."""
    summary: str
    own_responses: tuple[Response, ...]
    """The success answer first. `responses` adds the common ones of the route."""
    own_parameters: tuple[Parameter, ...] = ()
    """`parameters` adds the variables of the path and the idempotency key."""
    body: Shape | Mapping[str, Any] | None = None
    """An example of the request's body."""
    description: str = ""
    keyed: bool = True
    """Whether a POST takes an Idempotency-Key."""
    is_public: bool = False
    """Whether it needs no credential, also with `auth:`."""
    otherwise: Response | None = None
    """All answers that are not its own; None: the common ones, and `OTHERWISE`."""

    @property
    def method(self) -> str:
        return self.route.split()[0]

    @property
    def path(self) -> str:
        return self.route.split()[1]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        variables = (VARIABLES[name] for name in re.findall(r"{(\w+)}", self.path))
        return (*variables, *((KEY,) if self.method == "POST" and self.keyed else ()), *self.own_parameters)

    @property
    def responses(self) -> tuple[Response, ...]:
        """All answers by status. The operation's own answer replaces the common one with the same status."""
        if self.otherwise is not None:
            return self.own_responses
        common = {each.status: each for name, each in NOT_FOUND.items() if f"{{{name}}}" in self.path}
        common |= {each.status: each for each in COMMON.get(self.method, ())}
        own = {each.status: each for each in self.own_responses}
        return tuple(each for _, each in sorted((common | own).items()))


def error(status: int, description: str) -> Response:
    headers = {"Retry-After": "Seconds until a retry may succeed"} if status in (429, 503) else {}
    return Response(status, description, Error, headers=headers)


LOCATION = {"Location": "The path of the conversation"}
ACCEPTED = Response(
    202,
    "With `Prefer: respond-async`: the request is on disk; `Location` names the conversation",
    Turn(conversation=ex.NEW),
    headers={**LOCATION, "Preference-Applied": "The preferences that the answer follows"},
)
INVALID = error(400, "`invalid_request`, or `invalid_cursor`; `field` names the parameter")
STOPPING = error(
    503,
    "`shutting_down`, `node_unavailable`, `journal_unavailable`: `accepted` says whether the request is "
    "stored. `needs_newer_version`: it is not. `stopped`, or without `accepted`: its outcome is unknown",
)
OTHERWISE = Response(
    0,
    "Any route: `cross_site` (403), `wrong_host` (421), `internal_error` or `conversation_broken` (500), "
    "`journal_unavailable`, `too_many_connections` or `stopped` (503); with a body: `request_timeout` (408). "
    "Requests that are not HTTP/1: 400, 431, 501",
    Error,
)
"""All other answers."""

MALFORMED = "`invalid_request_body`, `unknown_field`, `invalid_idempotency_key` or `invalid_token`"
REUSED = "`idempotency_key_reused`: the key was already used for a different request"
UNUSABLE = f"`unusable_file`: `field` names the file. {REUSED}"
NOT_FOUND = {
    "id": error(404, "`conversation_not_found`, or `ambiguous_id` for an abbreviated id"),
    "uuid": error(404, "`approval_not_found`, or `ambiguous_id` for an abbreviated id"),
    "name": error(404, "`tool_not_found`"),
}
"""By the variable in the path."""
COMMON = {
    "POST": (
        error(400, MALFORMED),
        error(413, "`body_too_large`: more than 1 MiB"),
        error(422, REUSED),
        STOPPING,
    ),
    "DELETE": (STOPPING,),
}
"""By method."""
SHORT = ", or its beginning: 8 characters or more that no other id has that you may see"
VARIABLES = {
    "id": Parameter("id", "path", f"Id of the conversation{SHORT}", example=ex.CONVERSATION_ID),
    "uuid": Parameter("uuid", "path", f"UUID of the approval{SHORT}", example=ex.APPROVAL_ID),
    "name": Parameter("name", "path", "Name of the tool, as in `GET /tools`", example=ex.TOOL.name),
    "notification": Parameter(
        "notification", "path", "Id of the notification", example="msg_5feceb66ffc86f38d952786c"
    ),
    "task": Parameter("task", "path", "Id of the task", example=ex.CONVERSATION_ID),
    "config": Parameter("config", "path", "Id of the address for push notifications", example="push-1"),
}
KEY = header(
    "Idempotency-Key",
    "Makes the request safe to repeat: a repeat has no effect and gets the first answer",
    pattern="^[!-~]([ -~]*[!-~])?$",
    maxLength=MAX_KEY,
)
