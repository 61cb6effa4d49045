"""The tool servers of an agent, as frozen values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias

import attrs

from ..described.shape import NO_TILDE, About, about, default
from .address import ADDRESS, AN_AUTHORIZATION, HEADERS, authorizes, has_user

_DAY = 86_400.0

StructuredText: TypeAlias = Literal["append", "only", "off"]
FirstTransport: TypeAlias = Literal["stdio", "http", "sse", "program"]

CALL_TIMEOUT = 60.0
LONGEST = 4
"""The default of `max_timeout` is so many times `timeout`."""
MAX_RETRIES = 3

_SIGN = r"[^\s:*?$\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
"""Not a colon, which tells `a2a:NAME` from a server; no wildcard, reference or invisible sign."""
NAME = f"{_SIGN}+( {_SIGN}+)*"
BROUGHT = "an object of the program"
"""Stands in place of the address of a server that the program provides."""


def plain_server_name(name: str) -> str:
    """The name of a server as it stands in the names of its tools. No two servers of a file have the same."""
    return re.sub("[^A-Za-z0-9_-]", "_", name)


def _seconds(given: float) -> float:
    return given or CALL_TIMEOUT


@attrs.frozen(kw_only=True)
class ToolFilter:
    """Which tools of a server to offer, by the server's names for them."""

    include: tuple[str, ...] | None = default(
        None, "Tools to offer; `*` and `?` are wildcards. Default: all."
    )
    exclude: tuple[str, ...] = default(
        (),
        "Tools to leave out, even if `include` has them: by the server's name or by the plain name that "
        "models see; `*` and `?` are wildcards.",
    )


@attrs.frozen(kw_only=True)
class OAuthConfig:
    """OAuth 2 client credentials for the agent's own token, which is kept in memory only."""

    client_id: str = attrs.field(metadata=about("Client id of the agent at the authorization server."))
    client_secret: str = attrs.field(
        repr=False, metadata=about("Client secret; write it as `${VAR}`.", not_empty=True)
    )
    issuer: str = attrs.field(
        metadata=about(
            "Address of the authorization server. The secret is sent nowhere else.",
            **ADDRESS,
        ),
    )
    scopes: tuple[str, ...] = default((), "Scopes to request. Default: those that the server names.")


def _facade(server: McpServerConfig) -> str:
    return f"mcp_{server.name}"


@attrs.frozen
class McpServerConfig:
    """One MCP tool server: a `url` (Streamable HTTP, SSE), a `command` (stdio), or `brought_by: program`."""

    EXACTLY_ONE_OF: ClassVar = (("url",), ("command",), ("brought_by",))
    WORD_NEEDS: ClassVar = (
        ("transport", "stdio", "command"),
        ("transport", "http", "url"),
        ("transport", "sse", "url"),
    )

    name: str = attrs.field(
        metadata=about(
            "Name of the server in logs and answers; unique in the file.",
            not_empty=True,
            pattern=NAME,
            meaning="visible text without : * ? $ and double spaces",
        )
    )
    url: str | None = default(None, "Address of an HTTP server.", alias="serverUrl", **ADDRESS, repr=False)
    command: str | None = default(
        None,
        "Program of a stdio server. A bare name is looked up next to the running interpreter, then on "
        "PATH; a relative path is relative to this file.",
        not_empty=True,
        **NO_TILDE,
    )
    brought_by: Literal["program"] | None = default(
        None,
        "`program`: a Python program provides the server, with `open_agent(servers=...)`; the commands "
        "of `stopgo` cannot run this agent.",
    )
    args: tuple[str, ...] = default(
        (), "Arguments of `command`.", needs="command", empty="nothing", repr=False
    )
    transport: Literal["stdio", "http", "sse"] | None = default(
        None,
        "Transport: `stdio`, for a command; `http`, Streamable HTTP; `sse`, the older HTTP transport. "
        "Default: for a url, `http`, then `sse`. `streamable-http`, `streamableHttp` and "
        "`streamable_http` are other words for `http`.",
        alias="type",
        synonyms=dict.fromkeys(("streamable-http", "streamableHttp", "streamable_http"), "http"),
    )
    mode: Literal["auto", "modern", "legacy"] = default(
        "auto",
        "Protocol: `modern`, the stateless one of 2026-07-28; `legacy`, with a handshake, up to "
        "2025-11-25; `auto`, the one that the server speaks.",
    )
    env: Mapping[str, str] = default(
        attrs.Factory(dict),
        "Variables to add to the minimal environment of `command`, as a mapping or as a list of `KEY=VALUE`.",
        needs="command",
        pairs=True,
        empty="nothing",
        keys=About("", pattern="[^=]+", meaning="the name of a variable"),
        repr=False,
    )
    env_file: Path | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(Path),
        metadata=about(
            "File with `KEY=VALUE` lines; `env` overrides them. A relative path is relative to this file.",
            alias="envFile",
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
    headers: Mapping[str, str] = default(
        attrs.Factory(dict),
        "Headers of every HTTP request; write API keys as `${VAR}`.",
        needs="url",
        empty="nothing",
        **HEADERS,
        repr=False,
    )
    enabled: bool = default(
        True,
        "Whether to use the server. With `false`, variables that the entry refers to may be unset.",
        opposite="disabled",
    )
    required: bool = default(
        True,
        "If the server is unavailable at startup: `true`, startup fails; `false`, the agent starts "
        "without it and keeps trying to connect; it is not ready while no server is connected.",
    )
    connect_timeout: float = default(30.0, "Seconds to connect and list the tools.", above=0, maximum=_DAY)
    timeout: float = attrs.field(
        default=CALL_TIMEOUT,
        converter=_seconds,
        metadata=about(
            f"Seconds a call may take, counted from when it is sent. 0 means the default, {CALL_TIMEOUT:g}.",
            minimum=0,
            maximum=_DAY,
        ),
    )
    max_timeout: float | None = default(
        None,
        "Seconds a call may take in all if the server reports progress: each report begins `timeout` "
        f"anew. Default: {LONGEST} times `timeout`.",
        above=0,
        maximum=_DAY,
    )
    retry_for: float = default(
        10.0,
        "Seconds that a call waits for an HTTP server that refuses connections, as during a restart, "
        "unless `max_retries` is set. Such a call was not sent.",
        needs="url",
        minimum=0,
        maximum=_DAY,
    )
    max_retries: int = default(
        0,
        "How many reconnection attempts a call waits for at most while the server is unavailable; if as "
        f"many have failed already, it waits for one more. 0 means {MAX_RETRIES}, and all further "
        "attempts within `retry_for`.",
        minimum=0,
        maximum=100,
    )
    max_concurrency: int = default(
        16,
        "Maximum number of concurrent calls to the server; `1` for a server that cannot handle more.",
        minimum=1,
        maximum=1000,
    )
    priority: int = default(
        100,
        "If two servers have a tool of the same name, the lower number wins; see `on_duplicate`.",
        minimum=0,
        maximum=1_000_000,
    )
    description: str = default("", "Purpose of the server, in a few words; shown to models.")
    tools: ToolFilter = default(ToolFilter(), "Which of the server's tools to offer.")
    structured: StructuredText = default(
        "append",
        "How models see the structured content of a result that also has text: `append`, after the text, "
        "unless that is the same data; `only`, in place of the text, except in errors; `off`, not at "
        "all. Without text it is always shown.",
    )
    expose: Literal["tools", "server"] = default(
        "tools",
        "What models see: `tools`, each tool; `server`, the server facade, a single tool `mcp_<name>` "
        "that takes the name of a tool and its arguments.",
    )
    oauth: OAuthConfig | None = default(
        None, "Credentials with which the agent gets its own token. Default: none.", needs="url"
    )
    forward_bearer: bool | None = default(
        None,
        "Whether calls carry the bearer token of the request that caused them. Default: `true`; `false` "
        "with `oauth`, an `Authorization` header or a user in the `url`, which the token would replace.",
        needs="url",
    )
    as_written: str = default(
        "", "The url or command as logs show it, with `${VAR}` unexpanded and without secrets.", derived=True
    )
    secrets: tuple[str, ...] = default(
        (), "Secrets in the values of the variables that the entry refers to.", derived=True, repr=False
    )
    facade: str = default(
        attrs.Factory(_facade, takes_self=True),
        "Name of the server facade, with `expose: server`.",
        derived=True,
    )

    @property
    def is_brought(self) -> bool:
        """Whether the program that runs the agent provides the server, as an object."""
        return self.url is None and self.command is None

    @property
    def longest(self) -> float:
        """Seconds that a call may take in all."""
        return LONGEST * self.timeout if self.max_timeout is None else self.max_timeout

    @property
    def first_transport(self) -> FirstTransport:
        """The transport to try first. After `http`, `sse` is tried if `transport` is not given."""
        if self.is_brought:
            return "program"
        return self.transport or ("http" if self.command is None else "stdio")

    @property
    def own_credentials(self) -> str | None:
        """The credentials that the configuration gives this server, as named in errors; None without any."""
        if self.oauth is not None:
            return "oauth"
        if authorizes(self.headers):
            return AN_AUTHORIZATION
        return "a user in the url" if self.url is not None and has_user(self.url) else None

    @property
    def attempts(self) -> int:
        """How many reconnection attempts a call waits for."""
        return self.max_retries or MAX_RETRIES

    @property
    def forwards_bearer(self) -> bool:
        """Whether the bearer token of a call goes to the server. It never replaces configured credentials."""
        return self.url is not None and self.forward_bearer is not False and self.own_credentials is None
