"""The agents that work may be delegated to over A2A, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs

from .address import AN_AUTHORIZATION, AN_ORIGIN, HEADERS, authorizes
from .shape import about

_DAY = 86_400.0

EXCHANGE_TIMEOUT = 600.0

REMOTE_NAME = {
    "pattern": "[A-Za-z0-9_-]{1,48}",
    "meaning": "a name of letters, digits, _ and -, at most 48 of them",
}
"""Limits of the name of an agent: models call it by a tool of this name."""
REMOTE_ADDRESS = {
    "pattern": r"https?://(?![^/?#]*@)[^/\s]+\S*",
    "meaning": "an http:// or https:// address without a user (credentials go into headers)",
}
"""Limits of the address of an agent."""
DESTRUCTIVE_HINT = {"key": "destructiveHint", "alias": "destructive_hint"}
"""Both spellings: the one that tools have on the wire, and that of all other keys."""


def _seconds(given: float) -> float:
    return given or EXCHANGE_TIMEOUT


@attrs.frozen(kw_only=True)
class RemoteAgentConfig:
    """An agent that speaks A2A, with a name to delegate to it by."""

    name: str = attrs.field(
        metadata=about("What the agent is called here; unique in the file.", not_empty=True, **REMOTE_NAME)
    )
    url: str = attrs.field(
        repr=False,
        metadata=about(
            "Address of the agent, of its card (it ends with `.json`), or of the host that has the card.",
            **REMOTE_ADDRESS,
        ),
    )
    description: str = attrs.field(
        default="", metadata=about("What the agent is for, in a sentence; models are told.")
    )
    destructive_hint: bool = attrs.field(
        default=False,
        metadata=about(
            "Whether a call of it waits for a human, as a destructive tool does.", **DESTRUCTIVE_HINT
        ),
    )
    headers: Mapping[str, str] = attrs.field(
        factory=dict,
        repr=False,
        metadata=about("Sent with every HTTP request; write keys as `${VAR}`.", **HEADERS),
    )
    forward_bearer: bool | None = attrs.field(
        default=None,
        metadata=about(
            "Whether calls bring the bearer token of the request that caused them. Default: `true`, but "
            "`false` with an `Authorization` header, which it would replace."
        ),
    )
    origins: tuple[str, ...] = attrs.field(
        default=(),
        metadata=about(
            "Further origins, such as `https://agents.example`, at which its card may say it is reached.",
            items=AN_ORIGIN,
        ),
    )
    timeout: float = attrs.field(
        default=EXCHANGE_TIMEOUT,
        converter=_seconds,
        metadata=about(
            "Seconds that an exchange with it may take, from a message or an answer until its task is done "
            "or waits for a person; 0 is the default.",
            minimum=0,
            maximum=_DAY,
        ),
    )
    reconnect_timeout: float = attrs.field(
        default=60.0,
        metadata=about(
            "Seconds for which it is tried again when it cannot be reached while it has a task of ours.",
            minimum=0,
            maximum=_DAY,
        ),
    )
    max_concurrency: int = attrs.field(
        default=16, metadata=about("Calls the agent gets at the same time.", minimum=1, maximum=1000)
    )
    as_written: str = attrs.field(
        default="",
        metadata=about(
            "The url with `${VAR}` unexpanded and without secrets: what a log may show.", derived=True
        ),
    )
    secrets: tuple[str, ...] = attrs.field(
        default=(),
        repr=False,
        metadata=about("The secrets among the values of the variables it refers to.", derived=True),
    )

    @property
    def id(self) -> str:
        """Its name among the servers; no tool server can have it."""
        return remote_id(self.name)

    @property
    def tool_name(self) -> str:
        """Name of the tool by which models delegate to it."""
        return f"a2a_{self.name}"

    @property
    def own_credentials(self) -> str | None:
        """The credentials that the configuration gives this agent, in words; None when there are none."""
        return AN_AUTHORIZATION if authorizes(self.headers) else None

    @property
    def forwards_bearer(self) -> bool:
        """Whether the bearer of a call reaches this agent. Credentials of its own are never replaced."""
        return self.forward_bearer is not False and self.own_credentials is None


def remote_id(name: str) -> str:
    """The name among the servers of the agent with this name."""
    return f"a2a:{name}"


@attrs.frozen(kw_only=True)
class RemoteAgentEntry:
    """An agent that the model of a node may delegate to. A bare name is one out of the top-level `a2a`."""

    SHORT: ClassVar = "name"

    name: str = attrs.field(
        metadata=about(
            "Name of an entry of the top-level `a2a`, or with a `url` a name of its own.",
            not_empty=True,
            **REMOTE_NAME,
        )
    )
    url: str | None = attrs.field(
        default=None,
        repr=False,
        metadata=about(
            "Address of the agent, as in the top-level `a2a`. One that stands there, too, brings the "
            "settings from there.",
            **REMOTE_ADDRESS,
        ),
    )
    description: str = attrs.field(
        default="",
        metadata=about("What the agent is for, in a sentence; models are told.", needs="url"),
    )
    destructive_hint: bool = attrs.field(
        default=False,
        metadata=about(
            "Whether a call of it waits for a human, as a destructive tool does.",
            needs="url",
            **DESTRUCTIVE_HINT,
        ),
    )
