"""What a server wants before it does what a call asks for. Pure.

A need is kept with the attempt that met it (``tool.finished``), which is then over: nothing was done. The
call goes on as the next attempt, in this life or a later one, when the need is met. As JSON:

* `NeedsToken`: ``{"kind": "credential", "status": 401 | 403, "challenge"?, "command"}``
* `NeedsAnswers`: ``{"kind": "answers", "requests": {name: question}, "state"?, "answers"}``. Of a question
  that is put to no person, only the reason is kept: ``{"unaskable": why}``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from . import elicitation
from .delegation import RemoteInputRequired, RemoteItem, is_remote
from .tool import Elicitation, ToolAuthRequired, ToolInputRequired

MAX_CHALLENGE = 2000
"""Characters of a server's challenge that are kept."""


@attrs.frozen
class Wanted:
    """A bearer token that a run cannot go on without."""

    server: str
    status: int | None = None
    """With which HTTP status the server refused; None when it was not asked."""
    challenge: str | None = None
    """What its `WWW-Authenticate` said (RFC 9110, section 11.6.1)."""

    @property
    def label(self) -> str:
        """The server, in words."""
        agent = is_remote(self.server)
        return f'Agent "{self.server.partition(":")[2]}"' if agent else f'Tool server "{self.server}"'

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in attrs.asdict(self).items() if value is not None}


@attrs.frozen
class NeedsToken:
    """The server refused the token that a call brought, or wanted one."""

    status: int
    """401 or 403."""
    command: str
    """Whose token, or lack of one, was refused."""
    challenge: str | None = None

    def to_json(self) -> dict[str, Any]:
        fields = {"kind": "credential", "status": self.status, "command": self.command}
        return fields if self.challenge is None else {**fields, "challenge": self.challenge}


@attrs.frozen
class Unaskable:
    """A question that is put to no person, and declined."""

    unaskable: str
    """Why."""


@attrs.frozen
class NeedsAnswers:
    """The server asked questions."""

    requests: Mapping[str, Elicitation | Unaskable]
    """By the server's names for them."""
    state: str | None
    """The server's own; the next attempt brings it back as it is."""
    answers: bool
    """Whether the next attempt brings the answers (`ToolInputRequired`)."""

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "answers",
            "requests": {name: elicitation.to_json(asked) for name, asked in self.requests.items()},
            "state": self.state,
            "answers": self.answers,
        }


@attrs.frozen
class NeedsDecisions:
    """The task of another agent waits for the answers to its questions. They are brought as they come, one by
    one or together."""

    items: Sequence[RemoteItem]
    refusals: Mapping[str, str] = attrs.field(factory=dict)
    """By the name of the item: why the agent did not take the answer to it."""


Need: TypeAlias = NeedsToken | NeedsAnswers | NeedsDecisions


def askable(asked: Elicitation) -> Elicitation | Unaskable:
    why = elicitation.unaskable(asked)
    return asked if why is None else Unaskable(why)


def token(refusal: ToolAuthRequired, command: str) -> NeedsToken:
    """The need of another token than that of `command`."""
    challenge = refusal.challenge[:MAX_CHALLENGE] if refusal.challenge else None
    return NeedsToken(refusal.status, command, challenge)


def answers(wanted: ToolInputRequired) -> NeedsAnswers:
    """The need of answers to a server's questions."""
    requests = {name: askable(asked) for name, asked in wanted.requests.items()}
    return NeedsAnswers(requests, wanted.state, wanted.answers)


def decisions(wanted: RemoteInputRequired) -> NeedsDecisions:
    """The need of answers to the questions of another agent."""
    return NeedsDecisions(tuple(wanted.items), dict(wanted.refusals))
