"""Prerequisites: a token or answers that a server wants before it carries out a call. Pure.

A prerequisite is stored with the attempt that met it (``tool.finished``). That attempt is over and had no
effect. The call continues with the next attempt, in this or a later incarnation, when the prerequisite is
met. As JSON:

* `NeedsToken`: ``{"kind": "credential", "status": 401 | 403, "challenge"?, "command"}``
* `NeedsAnswers`: ``{"kind": "answers", "requests": {name: question}, "state"?, "answers"}``. For a
  question that no person is asked, only the reason is stored: ``{"unaskable": why}``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import attrs

from . import elicitation
from .delegation import RemoteInputRequired, RemoteItem, is_remote
from .tool import Elicitation, ToolAuthRequired, ToolInputRequired

MAX_CHALLENGE = 2000
"""Maximum stored length of a server's challenge, in characters."""


@attrs.frozen
class Wanted:
    """A bearer token that a run needs to continue."""

    server: str
    status: int | None = None
    """The HTTP status of the refusal; None if the server was not asked."""
    challenge: str | None = None
    """The `WWW-Authenticate` header of the refusal (RFC 9110, section 11.6.1)."""

    @property
    def label(self) -> str:
        """The description of the server in messages."""
        agent = is_remote(self.server)
        return f'Agent "{self.server.partition(":")[2]}"' if agent else f'Tool server "{self.server}"'

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in attrs.asdict(self).items() if value is not None}


@attrs.frozen
class NeedsToken:
    """The server refused the token of a call, or requires a token."""

    kind: ClassVar = "credential"
    status: int
    """401 or 403."""
    command: str
    """The command whose token, or missing token, was refused."""
    challenge: str | None = None


@attrs.frozen
class Unaskable:
    """A question that is declined without asking a person."""

    unaskable: str
    """The reason."""


@attrs.frozen
class NeedsAnswers:
    """The server asked questions."""

    kind: ClassVar = "answers"
    requests: Mapping[str, Elicitation | Unaskable]
    """The questions by the names that the server gave them."""
    state: str | None
    """An opaque value of the server, which the next attempt returns unchanged."""
    answers: bool
    """Whether the next attempt sends the answers (see `ToolInputRequired`)."""


@attrs.frozen
class NeedsDecisions:
    """The task of another agent waits for answers. They are sent as they arrive, one by one or together."""

    kind: ClassVar = "decisions"
    items: Sequence[RemoteItem]
    refusals: Mapping[str, str] = attrs.field(factory=dict)
    """The reasons of refused answers, by the name of the item."""


Need: TypeAlias = NeedsToken | NeedsAnswers | NeedsDecisions


def askable(asked: Elicitation) -> Elicitation | Unaskable:
    why = elicitation.unaskable(asked)
    return asked if why is None else Unaskable(why)


def token(refusal: ToolAuthRequired, command: str) -> NeedsToken:
    """Return the prerequisite of a token other than that of `command`."""
    challenge = refusal.challenge[:MAX_CHALLENGE] if refusal.challenge else None
    return NeedsToken(refusal.status, command, challenge)


def answers(wanted: ToolInputRequired) -> NeedsAnswers:
    """Return the prerequisite of answers to a server's questions."""
    requests = {name: askable(asked) for name, asked in wanted.requests.items()}
    return NeedsAnswers(requests, wanted.state, wanted.answers)


def decisions(wanted: RemoteInputRequired) -> NeedsDecisions:
    """Return the prerequisite of answers to the questions of another agent."""
    return NeedsDecisions(tuple(wanted.items), dict(wanted.refusals))
