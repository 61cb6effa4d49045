"""The configuration of one agent, as frozen values. How it is read from YAML is in `load.py`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import attrs


@attrs.frozen
class LlmConfig:
    model: str = "google:gemini-2.5-flash"
    """`provider:name`, for instance `offline:rules` or `script:replies.yaml`."""


@attrs.frozen
class McpServerConfig:
    """One tool server: by `url` (Streamable HTTP) or by `command` (stdio)."""

    name: str
    url: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    """Added to the small safe environment a child gets."""
    connect_timeout: float = 30.0
    """Seconds until the server must have listed its tools."""
    timeout: float = 60.0
    """Seconds a single call may take, from when it is sent."""
    max_concurrency: int = 1
    """Calls at the same time."""


@attrs.frozen
class ToolsConfig:
    max_parallel: int = 5
    """How many calls of one model reply run at the same time."""


@attrs.frozen
class ApprovalConfig:
    unannotated: Literal["run", "ask"] = "run"
    """What a tool without `destructiveHint` does."""
    in_parallel: Literal["run", "ask"] = "run"
    """What a call that would ask does below a parallel node."""


@attrs.frozen
class LlmNode:
    name: str
    prompt: str
    model: str
    output_key: str | None = None
    max_turns: int = 10
    """Model calls of one execution."""
    history: Literal["conversation", "turn"] = "conversation"


@attrs.frozen
class SequentialNode:
    name: str
    agents: tuple[Node, ...]
    output_key: str | None = None


@attrs.frozen
class ParallelNode:
    name: str
    agents: tuple[Node, ...]
    output_key: str | None = None


Node: TypeAlias = LlmNode | SequentialNode | ParallelNode


@attrs.frozen
class AgentConfig:
    agent: Node
    """The tree; when the file has none, one llm node made of `name`, `prompt` and `llm.model`."""
    has_tree: bool = False
    """Whether the file has an `agent:` tree."""
    name: str = "agent"
    description: str = ""
    prompt: str = ""
    host: str = "127.0.0.1"
    port: int = 8080
    data_dir: Path = Path("data")
    shutdown_grace: float = 10.0
    """Seconds that work in flight gets when the process is asked to stop."""
    llm: LlmConfig = LlmConfig()
    mcp_servers: tuple[McpServerConfig, ...] = ()
    tools: ToolsConfig = ToolsConfig()
    approval: ApprovalConfig = ApprovalConfig()
    source: Path | None = None
    """The file it came from; relative `script:` paths are relative to its folder."""
    stored_tree: Mapping[str, object] = attrs.field(factory=dict, repr=False)
    """Tree, prompts and model names as written, `${VAR}` unexpanded: what a run goes on with."""
