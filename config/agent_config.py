"""The configuration of one agent, as frozen values. How it is read from YAML is in `load.py`.

Every field is a key of the file, unless it says that it is derived. Its type, default and description
are what the reader checks and what the JSON Schema shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import attrs

from .a2a import RemoteAgentConfig
from .address import AN_ORIGIN, HOST_NAME, ORIGIN
from .approval import ApprovalConfig
from .mcp import McpServerConfig
from .models import ContextConfig, LlmConfig, ModelConfig
from .nodes import Node
from .shape import NO_TILDE, About, about

DEFAULT_NAME = "agent"

MAX_STORED_BYTES = 1024 * 1024

_DAY = 86_400.0


@attrs.frozen
class ServerConfig:
    """Under which names clients reach the HTTP server, and which pages may use it."""

    allowed_hosts: tuple[str, ...] = attrs.field(
        default=(),
        metadata=about(
            "Names that clients may call the server by, beside IP addresses, `localhost` and the host of "
            "`public_url`.",
            items=About("", pattern=HOST_NAME, meaning="a host name without scheme and port"),
        ),
    )
    public_url: str | None = attrs.field(
        default=None,
        metadata=about(
            "Address at which browsers reach the server, if that is not the one it listens on, for instance "
            "that of a proxy.",
            pattern=rf"{ORIGIN}(/[^\s?#]*)?",
            meaning="an address such as https://agents.example",
        ),
    )
    allowed_origins: tuple[str, ...] = attrs.field(
        default=(),
        metadata=about(
            "Further origins at which browsers reach the server, such as `https://agents.example`.",
            items=AN_ORIGIN,
        ),
    )
    max_connections: int = attrs.field(
        default=2000,
        metadata=about(
            "Connections at the same time, those of streams and websockets included. For one more, an idle "
            "one is closed, or it is refused with 503.",
            minimum=1,
            maximum=100_000,
        ),
    )
    push_to_private: bool = attrs.field(
        default=False,
        metadata=about(
            "Whether A2A clients may have push notifications sent to addresses of private networks and of "
            "this machine, as tests and clusters need it."
        ),
    )


@attrs.frozen
class ToolsConfig:
    """Bounds on tool calls."""

    max_parallel: int = attrs.field(
        default=5,
        metadata=about("How many calls of one model reply run at the same time.", minimum=1, maximum=64),
    )
    max_result_chars: int = attrs.field(
        default=50_000,
        metadata=about(
            "Characters of a result that models are shown; `max_stored_bytes` says how much is kept.",
            minimum=100,
            maximum=10_000_000,
        ),
    )
    max_stored_bytes: int = attrs.field(
        default=MAX_STORED_BYTES,
        metadata=about(
            "Bytes of a result, as its server sends it, that are read and stored. Of a longer one, the "
            "beginning of its text is, with a note of how long it was.",
            minimum=4096,
            maximum=16 * 1024 * 1024,
        ),
    )


@attrs.frozen(kw_only=True)
class UsageLimits:
    """Bounds on what models are used; looked at before each model call, so the last one may go beyond."""

    max_input_tokens: int | None = attrs.field(
        default=None, metadata=about("Tokens sent, cached ones included. Default: no limit.", minimum=1)
    )
    max_output_tokens: int | None = attrs.field(
        default=None, metadata=about("Tokens generated. Default: no limit.", minimum=1)
    )
    max_cost_usd: float | None = attrs.field(
        default=None,
        metadata=about("US dollars, for models that have `prices`. Default: no limit.", above=0),
    )


@attrs.frozen(kw_only=True)
class LimitsConfig(UsageLimits):
    """Bounds on one run; a run that reaches one fails and says which."""

    max_turns: int | None = attrs.field(
        default=None, metadata=about("Model calls of a run. Default: no limit.", minimum=1, maximum=100_000)
    )
    max_tool_calls: int | None = attrs.field(
        default=None, metadata=about("Tool calls of a run. Default: no limit.", minimum=1, maximum=100_000)
    )
    timeout: float | None = attrs.field(
        default=None,
        metadata=about(
            "Seconds of work of a run; waiting for people does not count. Default: no limit.",
            above=0,
            maximum=31 * _DAY,
        ),
    )
    conversation: UsageLimits = attrs.field(
        default=UsageLimits(), metadata=about("Bounds on all runs of a conversation together.")
    )


RENAMED_KEYS: Mapping[str, str] = {"mcp": "mcp_servers, a list of servers that each have a name"}
"""Keys of old files, and what to write in their place."""


@attrs.frozen
class AgentConfig:
    """One agent: its model, its tool servers, and optionally a tree of nodes."""

    agent: Node = attrs.field(
        metadata=about(
            "The tree of nodes. Default: one llm node made of `name`, `prompt` and `llm.model`.",
            filled_in=True,
        )
    )
    has_tree: bool = attrs.field(
        default=False, metadata=about("Whether the file has an `agent:` tree.", derived=True)
    )
    name: str = attrs.field(default=DEFAULT_NAME, metadata=about("Name of the agent.", not_empty=True))
    description: str = attrs.field(default="", metadata=about("What the agent is for, in a sentence."))
    prompt: str = attrs.field(
        default="", metadata=about("System prompt of every llm node that has none of its own.")
    )
    host: str = attrs.field(
        default="127.0.0.1", metadata=about("Address the HTTP server listens on.", not_empty=True)
    )
    port: int = attrs.field(
        default=8080,
        metadata=about("Port the HTTP server listens on; 0 picks a free one.", minimum=0, maximum=65535),
    )
    server: ServerConfig = attrs.field(
        default=ServerConfig(),
        metadata=about("Under which names clients reach the HTTP server, and which pages may use it."),
    )
    data_dir: Path = attrs.field(
        default=Path("data"),
        converter=Path,
        metadata=about(
            "Where everything durable lives; a relative path is relative to the working directory. "
            "`${data_dir}` stands for it in other values.",
            not_empty=True,
            **NO_TILDE,
        ),
    )
    shutdown_grace: float = attrs.field(
        default=10.0,
        metadata=about(
            "Seconds that work in flight gets when the process is asked to stop.", minimum=0, maximum=_DAY
        ),
    )
    llm: LlmConfig = attrs.field(
        default=LlmConfig(), metadata=about("The default model, and the defaults of all.")
    )
    models: Mapping[str, ModelConfig] = attrs.field(
        factory=dict, metadata=about("Models by names of your own, for `model` and `fallbacks` anywhere.")
    )
    context: ContextConfig | None = attrs.field(
        default=None,
        metadata=about("How much of a conversation models are sent. Default: all of it."),
    )
    mcp_servers: tuple[McpServerConfig, ...] = attrs.field(
        default=(),
        metadata=about(
            "The tool servers. A mapping of their names to the rest will do.", unique_names=True, by_name=True
        ),
    )
    a2a: tuple[RemoteAgentConfig, ...] = attrs.field(
        default=(),
        metadata=about(
            "The agents that work may be delegated to. A mapping of their names to the rest will do.",
            unique_names=True,
            by_name=True,
        ),
    )
    remote_agents: tuple[RemoteAgentConfig, ...] = attrs.field(
        default=(),
        metadata=about(
            "All that can be delegated to: those of `a2a`, then those with a `url` in lists of nodes, then "
            "the nodes of type `a2a` with a `url`. No two have the same name.",
            derived=True,
        ),
    )
    tool_names: Literal["plain", "prefixed"] = attrs.field(
        default="plain",
        metadata=about(
            "What tools are called: `plain`, as their servers call them; `prefixed`, `mcp__<server>__<tool>`."
        ),
    )
    on_duplicate: Literal["error", "priority", "prefix"] = attrs.field(
        default="error",
        metadata=about(
            "What two servers with a tool of the same name are: `error`, a mistake; `priority`, the server "
            "with the lower `priority` wins, then the one that comes first; `prefix`, both tools are called "
            "`mcp__<server>__<tool>`."
        ),
    )
    tools: ToolsConfig = attrs.field(default=ToolsConfig(), metadata=about("Bounds on tool calls."))
    approval: ApprovalConfig = attrs.field(
        default=ApprovalConfig(), metadata=about("When a tool call waits for a human.")
    )
    limits: LimitsConfig = attrs.field(default=LimitsConfig(), metadata=about("Bounds on one run."))
    source: Path | None = attrs.field(
        default=None,
        metadata=about(
            "The file it came from; relative `script:` paths are relative to its folder.", derived=True
        ),
    )
    packaged: bool = attrs.field(
        default=False,
        metadata=about("Whether it is the default that comes with the package.", derived=True),
    )
    stored_tree: Mapping[str, object] = attrs.field(
        factory=dict,
        repr=False,
        metadata=about(
            "Tree, prompts and model names as written, `${VAR}` unexpanded: what a run goes on with, "
            "as plain JSON. `tree_from_stored` makes nodes of it again.",
            derived=True,
        ),
    )
    model_places: Mapping[str, str] = attrs.field(
        factory=dict,
        repr=False,
        metadata=about("Where the file defines or names each model first, for errors.", derived=True),
    )
    warnings: tuple[str, ...] = attrs.field(
        default=(), metadata=about("Sentences on what is allowed but surely not meant.", derived=True)
    )

    @property
    def enabled_servers(self) -> tuple[McpServerConfig, ...]:
        """The servers there are: `mcp_servers` without those that are switched off."""
        return tuple(server for server in self.mcp_servers if server.enabled)
