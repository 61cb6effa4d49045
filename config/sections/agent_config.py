"""The configuration of one agent, as frozen values. `load.py` reads it from YAML.

Every field is a key of the file, unless it is marked as derived. The reader checks its type, and the JSON
Schema shows its type, default and description.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import attrs

from ..described.shape import NO_TILDE, About, about, default
from ..text.errors import Problem
from .a2a import RemoteAgentConfig
from .address import AN_ORIGIN, HOST_NAME, ORIGIN
from .approval import ApprovalConfig
from .auth import AuthConfig
from .mcp import McpServerConfig
from .models import ContextConfig, LlmConfig, ModelConfig
from .nodes import Node
from .notify import NotifyConfig

DEFAULT_NAME = "agent"

MAX_STORED_BYTES = 1024 * 1024

_DAY = 86_400.0


@attrs.frozen
class ServerConfig:
    """The HTTP server: hosts and origins that it accepts, connections and push notifications."""

    allowed_hosts: tuple[str, ...] = default(
        (),
        "Host names that requests may use, besides IP addresses, `localhost` and the host of `public_url`.",
        items=About("", pattern=HOST_NAME, meaning="a host name without scheme and port"),
    )
    public_url: str | None = default(
        None,
        "Address at which browsers reach the server, if it differs from the one the server listens on, "
        "for instance the address of a proxy. Its path, if any, may arrive with requests or be removed.",
        pattern=rf"{ORIGIN}(/[^\s?#]*)?",
        meaning="an address such as https://agents.example",
    )
    allowed_origins: tuple[str, ...] = default(
        (),
        "Further origins at which browsers reach the server, such as `https://agents.example`.",
        items=AN_ORIGIN,
    )
    max_connections: int = default(
        2000,
        "Maximum number of connections, including streams and websockets. Beyond it, an idle connection "
        "is closed, else one whose client is slow; if there is none, the new one gets 503.",
        minimum=1,
        maximum=100_000,
    )
    keep_alive: float = default(
        75.0,
        "Seconds that an idle connection is kept after an answer. A load balancer before the server "
        "should close its idle connections earlier.",
        minimum=1,
        maximum=3600,
    )
    push_to_private: bool = default(
        False,
        "Whether A2A push notifications may go to private networks and to this machine, as tests and "
        "clusters need.",
    )


@attrs.frozen
class ToolsConfig:
    """Limits of tool calls."""

    max_parallel: int = default(
        5, "Maximum number of concurrent calls of one model reply.", minimum=1, maximum=64
    )
    max_result_chars: int = default(
        50_000,
        "Maximum number of characters of a result that models see; `max_stored_bytes` limits storage.",
        minimum=100,
        maximum=10_000_000,
    )
    max_stored_bytes: int = default(
        MAX_STORED_BYTES,
        "Maximum number of bytes of a result, as its server sends it. Of a longer result, the beginning "
        "of its text is stored, with a note of its length.",
        minimum=4096,
        maximum=16 * 1024 * 1024,
    )


@attrs.frozen(kw_only=True)
class UsageLimits:
    """Limits of model usage. They are checked before each model call, so the last call may exceed them."""

    max_input_tokens: int | None = default(
        None, "Input tokens, including cached ones. Default: no limit.", minimum=1
    )
    max_output_tokens: int | None = default(None, "Output tokens. Default: no limit.", minimum=1)
    max_cost_usd: float | None = default(
        None, "US dollars; every model of the tree needs `prices`. Default: no limit.", above=0
    )


@attrs.frozen(kw_only=True)
class LimitsConfig(UsageLimits):
    """Limits of one run. A run that reaches a limit fails with an error that names it."""

    max_turns: int | None = default(
        None, "Model calls in a run. Default: no limit.", minimum=1, maximum=100_000
    )
    max_tool_calls: int | None = default(
        None, "Tool calls in a run. Default: no limit.", minimum=1, maximum=100_000
    )
    timeout: float | None = default(
        None,
        "Seconds of work time of a run; waiting for people does not count. Default: no limit.",
        above=0,
        maximum=31 * _DAY,
    )
    conversation: UsageLimits = default(UsageLimits(), "Limits of all runs of a conversation together.")


RENAMED_KEYS: Mapping[str, str] = {"mcp": "mcp_servers, a list of servers that each have a name"}
"""Keys of older versions, with their replacements."""


@attrs.frozen
class AgentConfig:
    """One agent: its model, its tool servers, and optionally a tree of nodes."""

    agent: Node = attrs.field(
        metadata=about(
            "The tree of nodes. Default: one `llm` node with `name`, `prompt` and `llm.model`.",
            filled_in=True,
        )
    )
    has_tree: bool = default(False, "Whether the file has an `agent:` tree.", derived=True)
    name: str = default(DEFAULT_NAME, "Name of the agent.", not_empty=True)
    description: str = default("", "Purpose of the agent, in a sentence.")
    prompt: str = default("", "System prompt of every `llm` node without its own.")
    examples: tuple[str, ...] = default(
        (),
        "Messages to try, which the page shows before the first one. Default: none.",
        items=About(
            "",
            pattern=r"(?=[\s\S]*\S)[\s\S]{1,500}",
            meaning="a message of at most 500 characters, with more than spaces",
        ),
    )
    host: str = default("127.0.0.1", "Address the HTTP server listens on.", not_empty=True)
    port: int = default(
        8080, "Port the HTTP server listens on; 0 picks a free one.", minimum=0, maximum=65535
    )
    server: ServerConfig = default(
        ServerConfig(), "Hosts and origins that the HTTP server accepts, connections, push notifications."
    )
    auth: AuthConfig | None = default(
        None,
        "Who may use the agent, and for what. Default: there is no authentication, and the server "
        "listens on this machine only, unless it is started with `--insecure`.",
    )
    data_dir: Path = attrs.field(
        default=Path("data"),
        converter=Path,
        metadata=about(
            "The data directory, which holds everything durable. A relative path is relative to the working "
            "directory. Other values can refer to it as `${data_dir}`.",
            not_empty=True,
            **NO_TILDE,
        ),
    )
    journal_cache_bytes: int = default(
        24 * 1024 * 1024,
        "Bytes of memory for pages of the journal in the data directory. A journal in PostgreSQL has no such "
        "cache.",
        minimum=1024 * 1024,
    )
    shutdown_grace: float = default(
        10.0,
        "Seconds that a shutdown takes at most. In-flight work gets all but the last one to finish; with "
        "less than 4, three quarters.",
        minimum=0,
        maximum=_DAY,
    )
    llm: LlmConfig = default(
        LlmConfig(), "The default model, and the default settings of all models.", empty="nothing"
    )
    models: Mapping[str, ModelConfig] = default(
        attrs.Factory(dict),
        "Models by names of your choice, for use in `model` and `fallbacks`.",
        empty="nothing",
    )
    context: ContextConfig | None = default(
        None, "How much of a conversation is sent to models. Default: all of it."
    )
    mcp_servers: tuple[McpServerConfig, ...] = default(
        (),
        "The tool servers, as a list or as a mapping by name.",
        alias="mcpServers",
        empty="nothing",
        unique_names=True,
        by_name=True,
    )
    a2a: tuple[RemoteAgentConfig, ...] = default(
        (),
        "The remote agents to delegate to, as a list or as a mapping by name.",
        empty="nothing",
        unique_names=True,
        by_name=True,
    )
    remote_agents: tuple[RemoteAgentConfig, ...] = default(
        (),
        "All that can be delegated to: those of `a2a`, then those with a `url` in lists of nodes, then "
        "the nodes of type `a2a` with a `url`. No two have the same name.",
        derived=True,
    )
    tool_names: Literal["plain", "prefixed"] = default(
        "plain", "Names of tools for models: `plain`, as on the server; `prefixed`, `mcp__<server>__<tool>`."
    )
    on_duplicate: Literal["error", "priority", "prefix"] = default(
        "error",
        "If two servers have a tool of the same name: `error`, this is an error; `priority`, the server "
        "with the lower `priority` wins, then the first in the file; `prefix`, both tools are named "
        "`mcp__<server>__<tool>`.",
    )
    tools: ToolsConfig = default(ToolsConfig(), "Limits of tool calls.")
    approval: ApprovalConfig = default(ApprovalConfig(), "When a tool call asks a person first.")
    limits: LimitsConfig = default(LimitsConfig(), "Limits of one run.")
    notify: NotifyConfig | None = default(
        None, "Who is told what happens, for instance of approvals. Default: nobody."
    )
    source: Path | None = default(
        None, "The agent file; relative `script:` paths are relative to its folder.", derived=True
    )
    packaged: bool = default(False, "Whether the agent file is the default of the package.", derived=True)
    stored_tree: Mapping[str, object] = default(
        attrs.Factory(dict),
        "The tree that a run resumes with, as plain JSON: prompts and model names as written, with "
        "`${VAR}` unexpanded. `tree_from_stored` makes nodes of it.",
        derived=True,
        repr=False,
    )
    revision: str = default(
        "", "The revision of the agent file: a hash of its values, with `${VAR}` unexpanded.", derived=True
    )
    model_places: Mapping[str, str] = default(
        attrs.Factory(dict),
        "Where the file defines or first names each model, for errors.",
        derived=True,
        repr=False,
    )
    warnings: tuple[str, ...] = default((), "Warnings about likely mistakes.", derived=True)
    rule_secrets: tuple[str, ...] = default(
        (),
        "Secrets in the variables to which `approval` and the tree refer, to mask them in the policy.",
        derived=True,
        repr=False,
    )
    weak_secrets: tuple[Problem, ...] = default(
        (),
        "Secrets with which clients use this agent, and that are easy to guess. They are among the "
        "warnings, too.",
        derived=True,
    )

    @property
    def enabled_servers(self) -> tuple[McpServerConfig, ...]:
        """The servers of `mcp_servers` that are not disabled."""
        return tuple(server for server in self.mcp_servers if server.enabled)
