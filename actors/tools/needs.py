"""What a server wants before it does what a call asks for. Pure.

A need is kept with the attempt that met it (``tool.finished``), which is then over: nothing was done. The
call goes on as the next attempt, in this life or a later one, when the need is met.

* a credential: ``{"kind": "credential", "status": 401 | 403, "challenge"?, "command"}``, where `command` is
  the one whose token, or lack of one, was refused.
* answers: ``{"kind": "answers", "requests": {name: question}, "state"?, "answers"}``, where `state` is the
  server's own and `answers` says whether the next attempt brings them (`ToolInputRequired`). Of a question
  that is put to no person, only the reason is kept: ``{"unaskable": why}``.
"""

from __future__ import annotations

from typing import Any

import attrs

from . import elicitation
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

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in attrs.asdict(self).items() if value is not None}


def credential(refusal: ToolAuthRequired, command: str) -> dict[str, Any]:
    """The need of a credential: the token of `command` did not do."""
    need: dict[str, Any] = {"kind": "credential", "status": refusal.status, "command": command}
    if refusal.challenge:
        need["challenge"] = refusal.challenge[:MAX_CHALLENGE]
    return need


def answers(wanted: ToolInputRequired) -> dict[str, Any]:
    """The need of answers to a server's questions."""
    return {
        "kind": "answers",
        "requests": {name: _request(asked) for name, asked in wanted.requests.items()},
        "state": wanted.state,
        "answers": wanted.answers,
    }


def _request(asked: Elicitation) -> dict[str, Any]:
    why = elicitation.unaskable(asked)
    return elicitation.to_json(asked) if why is None else {"unaskable": why}
