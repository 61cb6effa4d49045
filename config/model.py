"""The configuration of one agent, as frozen values. How it is read from YAML is in `load.py`.

Every field is a key of the file, unless it says that it is derived. Its type, default and description
are what the reader checks and what the JSON Schema shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import attrs

from stopgo.config.approval import ApprovalConfig, ApprovalOverride, Condition, Rule
from stopgo.config.llm import ContextConfig, LlmConfig, ModelConfig
from stopgo.config.nodes import (
    LATER_NODE_TYPES,
    ROUTER_PROMPT,
    BaseNode,
    CheckpointNode,
    LlmNode,
    LoopNode,
    Node,
    ParallelNode,
    Route,
    RouterNode,
    SequentialNode,
    children_of,
)
from stopgo.config.shape import about

__all__ = [
    "DEFAULT_NAME",
    "LATER_KEYS",
    "LATER_NODE_TYPES",
    "RENAMED_KEYS",
    "ROUTER_PROMPT",
    "AgentConfig",
    "ApprovalConfig",
    "ApprovalOverride",
    "BaseNode",
    "CheckpointNode",
    "Condition",
    "ContextConfig",
    "LimitsConfig",
    "LlmConfig",
    "LlmNode",
    "LoopNode",
    "McpServerConfig",
    "ModelConfig",
    "Node",
    "ParallelNode",
    "Route",
    "RouterNode",
    "Rule",
    "SequentialNode",
    "ToolsConfig",
    "children_of",
]

DEFAULT_NAME = "agent"

_DAY = 86_400.0


@attrs.frozen
class McpServerConfig:
    """One MCP tool server: by `url` (Streamable HTTP) or by `command` (stdio)."""

    EXACTLY_ONE_OF: ClassVar = (("url",), ("command",))

    name: str = attrs.field(
        metadata=about("What the server is called in logs and answers; unique in the file.", not_empty=True)
    )
    url: str | None = attrs.field(
        default=None,
        repr=False,
        metadata=about(
            "Address of a server that speaks Streamable HTTP.",
            pattern=r"https?://[^/\s]+\S*",
            meaning="an http:// or https:// address",
        ),
    )
    command: str | None = attrs.field(
        default=None,
        metadata=about(
            "Program of a server that speaks over stdin and stdout. A bare name is looked up beside the "
            "running interpreter, then on PATH; a relative path is relative to this file.",
            not_empty=True,
        ),
    )
    args: tuple[str, ...] = attrs.field(
        default=(), repr=False, metadata=about("Arguments of `command`.", needs="command")
    )
    env: Mapping[str, str] = attrs.field(
        factory=dict,
        repr=False,
        metadata=about("Added to the small safe environment that `command` gets.", needs="command"),
    )
    connect_timeout: float = attrs.field(
        default=30.0,
        metadata=about("Seconds until the server must have listed its tools.", above=0, maximum=_DAY),
    )
    timeout: float = attrs.field(
        default=60.0,
        metadata=about("Seconds a single call may take, from when it is sent.", above=0, maximum=_DAY),
    )
    max_concurrency: int = attrs.field(
        default=1, metadata=about("Calls the server gets at the same time.", minimum=1, maximum=1000)
    )
    as_written: str = attrs.field(
        default="",
        metadata=about("The url or command with `${VAR}` unexpanded: what a log may show.", derived=True),
    )


@attrs.frozen
class ToolsConfig:
    """Bounds on tool calls."""

    max_parallel: int = attrs.field(
        default=5,
        metadata=about("How many calls of one model reply run at the same time.", minimum=1, maximum=64),
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


LATER_KEYS = ("a2a",)
"""Sections that already mean something, but that this version does not run."""
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
    data_dir: Path = attrs.field(
        default=Path("data"),
        converter=Path,
        metadata=about(
            "Where everything durable lives; a relative path is relative to the working directory. "
            "`${data_dir}` stands for it in other values.",
            not_empty=True,
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
        metadata=about("The tool servers; all of them must start, or the agent does not.", unique_names=True),
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
    warnings: tuple[str, ...] = attrs.field(
        default=(), metadata=about("Sentences on what is allowed but surely not meant.", derived=True)
    )
