"""Remote agents that the agent may delegate to over A2A, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from ..described.shape import about, default
from .address import AN_AUTHORIZATION, AN_ORIGIN, HEADERS, authorizes

_DAY = 86_400.0

API_KEY_HEADER = "X-API-Key"

EXCHANGE_TIMEOUT = 600.0

REMOTE_NAME: Mapping[str, Any] = {
    "pattern": "[A-Za-z0-9_-]{1,48}",
    "meaning": "a name of at most 48 letters, digits, _ and -",
}
"""Limits of the name of an agent, which is a part of the name of its tool."""
REMOTE_ADDRESS = {
    "pattern": r"https?://(?![^/?#]*@)[^/\s]+\S*",
    "meaning": "an http:// or https:// address without a user (credentials go into headers)",
}
"""Limits of the address of an agent."""
DESTRUCTIVE_HINT: Mapping[str, Any] = {"key": "destructiveHint", "alias": "destructive_hint"}
"""Both spellings: that of MCP, and that of the other keys."""
_DESTRUCTIVE = "Whether calls of the agent count as destructive, so that they ask a person."


def _seconds(given: float) -> float:
    return given or EXCHANGE_TIMEOUT


@attrs.frozen(kw_only=True)
class RemoteAgentConfig:
    """A remote agent that speaks A2A."""

    name: str = attrs.field(
        metadata=about("Name of the agent; unique in the file.", not_empty=True, **REMOTE_NAME)
    )
    url: str = attrs.field(
        repr=False,
        metadata=about(
            "Address of the agent, of its card (ending with `.json`), or of the host that serves the card.",
            **REMOTE_ADDRESS,
        ),
    )
    description: str = default("", "Purpose of the agent, in a sentence; shown to models.")
    destructive_hint: bool = default(False, _DESTRUCTIVE, **DESTRUCTIVE_HINT)
    headers: Mapping[str, str] = default(
        attrs.Factory(dict),
        "Headers of every HTTP request; write API keys as `${VAR}`.",
        empty="nothing",
        **HEADERS,
        repr=False,
    )
    api_key: str | None = default(
        None,
        "API key of this agent at the other one, which is sent as `X-API-Key`; write it as `${VAR}`.",
        not_empty=True,
        pattern=HEADERS["items"].pattern,
        meaning=HEADERS["items"].meaning,
        repr=False,
    )
    forward_bearer: bool | None = default(
        None,
        "Whether calls carry the bearer token of the request that caused them. Default: `true`; `false` "
        "if `headers` has an `Authorization`, which the token would replace.",
    )
    origins: tuple[str, ...] = default(
        (),
        "Further origins that the agent's card may name, such as `https://agents.example`.",
        items=AN_ORIGIN,
        empty="nothing",
    )
    timeout: float = attrs.field(
        default=EXCHANGE_TIMEOUT,
        converter=_seconds,
        metadata=about(
            "Seconds an exchange may take, from a message or an answer until the task has ended or waits for "
            f"a person. 0 means the default, {EXCHANGE_TIMEOUT:g}.",
            minimum=0,
            maximum=_DAY,
        ),
    )
    reconnect_timeout: float = default(
        60.0,
        "Seconds to keep retrying an agent that cannot be reached in the middle of a task.",
        minimum=0,
        maximum=_DAY,
    )
    max_concurrency: int = default(
        16, "Maximum number of concurrent calls to the agent.", minimum=1, maximum=1000
    )
    as_written: str = default(
        "", "The url as logs show it, with `${VAR}` unexpanded and without secrets.", derived=True
    )
    secrets: tuple[str, ...] = default(
        (), "Secrets in the values of the variables that the entry refers to.", derived=True, repr=False
    )

    @property
    def id(self) -> str:
        """The agent's name among the servers, which no tool server can have."""
        return remote_id(self.name)

    @property
    def tool_name(self) -> str:
        """Name of the tool by which models delegate to it."""
        return f"a2a_{self.name}"

    @property
    def all_headers(self) -> Mapping[str, str]:
        """The headers of every HTTP request, with the API key."""
        return self.headers if self.api_key is None else {**self.headers, API_KEY_HEADER: self.api_key}

    @property
    def own_credentials(self) -> str | None:
        """The credentials that the configuration gives this agent, as named in errors; None without any."""
        return AN_AUTHORIZATION if authorizes(self.headers) else None

    @property
    def forwards_bearer(self) -> bool:
        """Whether the bearer token of a call goes to this agent. It never replaces configured credentials."""
        return self.forward_bearer is not False and self.own_credentials is None


def remote_id(name: str) -> str:
    """The name that the agent with this name has among the servers."""
    return f"a2a:{name}"


@attrs.frozen(kw_only=True)
class RemoteAgentEntry:
    """A remote agent that a node's model may delegate to. A bare name refers to the top-level `a2a`."""

    SHORT: ClassVar = "name"

    name: str = attrs.field(
        metadata=about(
            "Name of an entry of the top-level `a2a`; with `url`, a new name.",
            not_empty=True,
            **REMOTE_NAME,
        )
    )
    url: str | None = default(
        None,
        "Address of the agent, as in the top-level `a2a`. If an entry there has the same address, its "
        "other settings apply.",
        **REMOTE_ADDRESS,
        repr=False,
    )
    description: str = default("", "Purpose of the agent, in a sentence; shown to models.", needs="url")
    destructive_hint: bool = default(False, _DESTRUCTIVE, needs="url", **DESTRUCTIVE_HINT)
