"""The tool servers of an agent, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

import attrs

from .address import ADDRESS, AN_AUTHORIZATION, HEADERS, authorizes, has_user
from .shape import NO_TILDE, About, about

_DAY = 86_400.0

FirstTransport: TypeAlias = Literal["stdio", "http", "sse", "program"]

CALL_TIMEOUT = 60.0
MAX_RETRIES = 3

NAME = "[A-Za-z0-9_-]+"
BROUGHT = "an object of the program"
"""Where a server is that the program brings."""


def _seconds(given: float) -> float:
    return given or CALL_TIMEOUT


def _retries(given: int) -> int:
    return given or MAX_RETRIES


@attrs.frozen(kw_only=True)
class ToolFilter:
    """Which tools of a server there are, by the names the server gives them."""

    include: tuple[str, ...] | None = attrs.field(
        default=None,
        metadata=about("Only these; `*` and `?` stand for any characters. Default: all."),
    )
    exclude: tuple[str, ...] = attrs.field(
        default=(),
        metadata=about(
            "None of these, by the server's name or by the plain name that models see, whatever "
            "`include` says; `*` and `?` as there."
        ),
    )


@attrs.frozen(kw_only=True)
class OAuthConfig:
    """How the agent itself gets a token for a server: OAuth 2 client credentials. Kept in memory only."""

    client_id: str = attrs.field(metadata=about("Who the agent is to the authorization server."))
    client_secret: str = attrs.field(
        repr=False, metadata=about("Its secret; write it as `${VAR}`.", not_empty=True)
    )
    issuer: str = attrs.field(
        metadata=about(
            "The authorization server that knows the agent; its secret is sent nowhere else.",
            **ADDRESS,
        ),
    )
    scopes: tuple[str, ...] = attrs.field(
        default=(), metadata=about("What to ask for. Default: what the server says.")
    )


def _facade(server: McpServerConfig) -> str:
    return f"mcp_{server.name}"


@attrs.frozen
class McpServerConfig:
    """One MCP tool server: by `url` (Streamable HTTP, SSE), by `command` (stdio), or brought by a program."""

    EXACTLY_ONE_OF: ClassVar = (("url",), ("command",), ("brought_by",))
    WORD_NEEDS: ClassVar = (
        ("transport", "stdio", "command"),
        ("transport", "http", "url"),
        ("transport", "sse", "url"),
    )

    name: str = attrs.field(
        metadata=about(
            "What the server is called in logs and answers; unique in the file.",
            not_empty=True,
            pattern=NAME,
            meaning="letters, digits, _ and -",
        )
    )
    url: str | None = attrs.field(
        default=None,
        repr=False,
        metadata=about("Address of a server that speaks HTTP.", **ADDRESS),
    )
    command: str | None = attrs.field(
        default=None,
        metadata=about(
            "Program of a server that speaks over stdin and stdout. A bare name is looked up beside the "
            "running interpreter, then on PATH; a relative path is relative to this file.",
            not_empty=True,
            **NO_TILDE,
        ),
    )
    brought_by: Literal["program"] | None = attrs.field(
        default=None,
        metadata=about(
            "`program`: a Python program brings the server, with `open_agent(servers=...)`; other commands "
            "cannot run this agent."
        ),
    )
    args: tuple[str, ...] = attrs.field(
        default=(), repr=False, metadata=about("Arguments of `command`.", needs="command")
    )
    transport: Literal["stdio", "http", "sse"] | None = attrs.field(
        default=None,
        metadata=about(
            "How it is spoken to: `stdio`, a command; `http`, Streamable HTTP; `sse`, the older way over "
            "HTTP. Default: a url is tried as `http`, then as `sse`.",
            alias="type",
        ),
    )
    mode: Literal["auto", "modern", "legacy"] = attrs.field(
        default="auto",
        metadata=about(
            "Which protocol: `modern`, stateless, of 2026-07-28; `legacy`, with a handshake, up to "
            "2025-11-25; `auto`, whichever the server speaks."
        ),
    )
    env: Mapping[str, str] = attrs.field(
        factory=dict,
        repr=False,
        metadata=about(
            "Added to the small safe environment that `command` gets. A list of `KEY=VALUE` will do.",
            needs="command",
            pairs=True,
            keys=About("", pattern="[^=]+", meaning="the name of a variable"),
        ),
    )
    env_file: Path | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(Path),
        metadata=about(
            "File of `KEY=VALUE` lines that go before `env`; a relative path is relative to this file.",
            needs="command",
            not_empty=True,
            **NO_TILDE,
        ),
    )
    cwd: Path | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(Path),
        metadata=about(
            "Working directory of `command`; a relative path is relative to this file. Default: the agent's.",
            needs="command",
            not_empty=True,
            **NO_TILDE,
        ),
    )
    headers: Mapping[str, str] = attrs.field(
        factory=dict,
        repr=False,
        metadata=about(
            "Sent with every HTTP request; write keys as `${VAR}`.",
            needs="url",
            **HEADERS,
        ),
    )
    enabled: bool = attrs.field(
        default=True,
        metadata=about(
            "Whether there is such a server at all; `false` leaves it out, and variables that it refers to "
            "may be unset."
        ),
    )
    required: bool = attrs.field(
        default=True,
        metadata=about(
            "What follows when it cannot be had at the start: `true`, the start fails; `false`, the agent "
            "starts without it and goes on trying."
        ),
    )
    connect_timeout: float = attrs.field(
        default=30.0,
        metadata=about("Seconds until the server must have listed its tools.", above=0, maximum=_DAY),
    )
    timeout: float = attrs.field(
        default=CALL_TIMEOUT,
        converter=_seconds,
        metadata=about(
            "Seconds a single call may take, from when it is sent; 0 is the default.", minimum=0, maximum=_DAY
        ),
    )
    max_retries: int = attrs.field(
        default=MAX_RETRIES,
        converter=_retries,
        metadata=about(
            "Attempts to reconnect that a call waits for while the server is away; if as many have failed "
            "already, for one more. 0 is the default.",
            minimum=0,
            maximum=100,
        ),
    )
    max_concurrency: int = attrs.field(
        default=16,
        metadata=about(
            "Calls the server gets at the same time; `1` is for one that cannot work on several.",
            minimum=1,
            maximum=1000,
        ),
    )
    priority: int = attrs.field(
        default=100,
        metadata=about(
            "Of two servers with a tool of the same name, the one with the lower number goes first, see "
            "`on_duplicate`.",
            minimum=0,
            maximum=1_000_000,
        ),
    )
    description: str = attrs.field(
        default="", metadata=about("What the server is for, in a few words; models are told.")
    )
    tools: ToolFilter = attrs.field(default=ToolFilter(), metadata=about("Which of its tools there are."))
    expose: Literal["tools", "server"] = attrs.field(
        default="tools",
        metadata=about(
            "What models see: `tools`, each of its tools; `server`, a single tool `mcp_<name>` that takes "
            "the name of one of them and its arguments."
        ),
    )
    oauth: OAuthConfig | None = attrs.field(
        default=None,
        metadata=about(
            "How the agent gets a token of its own. Default: it has none.", needs="url", not_empty=True
        ),
    )
    forward_bearer: bool | None = attrs.field(
        default=None,
        metadata=about(
            "Whether calls bring the bearer token of the request that caused them. Default: `true`, but "
            "`false` with `oauth`, an `Authorization` header or a user in the `url`, which it would replace.",
            needs="url",
        ),
    )
    as_written: str = attrs.field(
        default="",
        metadata=about(
            "The url or command with `${VAR}` unexpanded and without secrets: what a log may show.",
            derived=True,
        ),
    )
    secrets: tuple[str, ...] = attrs.field(
        default=(),
        repr=False,
        metadata=about("The secrets among the values of the variables it refers to.", derived=True),
    )
    facade: str = attrs.field(
        default=attrs.Factory(_facade, takes_self=True),
        metadata=about("Name of the single tool, with `expose: server`.", derived=True),
    )

    @property
    def is_brought(self) -> bool:
        """Whether it is an object of the program that runs the agent."""
        return self.url is None and self.command is None

    @property
    def first_transport(self) -> FirstTransport:
        """How it is spoken to, as far as its configuration says: `http` may turn out to be `sse`."""
        if self.is_brought:
            return "program"
        return self.transport or ("http" if self.command is None else "stdio")

    @property
    def own_credentials(self) -> str | None:
        """The credentials that the configuration gives this server, in words; None when there are none."""
        if self.oauth is not None:
            return "oauth"
        if authorizes(self.headers):
            return AN_AUTHORIZATION
        return "a user in the url" if self.url is not None and has_user(self.url) else None

    @property
    def forwards_bearer(self) -> bool:
        """Whether the bearer of a call reaches this server. Credentials of its own are never replaced."""
        return self.url is not None and self.forward_bearer is not False and self.own_credentials is None
