"""Agent Stop and Go: an agent runtime that stops before it does harm and continues when a human approves.

The names below are the interface for Python programs; each is loaded when it is first used, so that
``import stopgo`` and the command stay fast. Everything else is internal: its place may change.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
"""As in `typing`, which is not loaded for it."""

if TYPE_CHECKING:
    from .actors.agent import Agent
    from .actors.common.errors import AgentError, StartError
    from .actors.conversation.result import Result, Turn
    from .actors.conversation.watch import Announced, Gap
    from .actors.log.deltas import ModelDelta, ToolProgress
    from .actors.models.errors import UnknownProvider
    from .actors.models.messages import Emit, ModelFailed, ModelReply, ModelRequest
    from .actors.open_agent import open_agent
    from .config.agent_config import AgentConfig
    from .config.errors import ConfigError
    from .config.load import load_config
    from .config.nodes import LlmNode
    from .runtime.clock import ProcessClock
    from .runtime.journal.errors import JournalBroken, JournalBusy, JournalTooNew

__all__ = [
    "Agent",
    "AgentConfig",
    "AgentError",
    "Announced",
    "ConfigError",
    "Emit",
    "Gap",
    "JournalBroken",
    "JournalBusy",
    "JournalTooNew",
    "LlmNode",
    "ModelDelta",
    "ModelFailed",
    "ModelReply",
    "ModelRequest",
    "ProcessClock",
    "Result",
    "StartError",
    "ToolProgress",
    "Turn",
    "UnknownProvider",
    "load_config",
    "open_agent",
]

_HOMES = {
    "actors.agent": ("Agent",),
    "actors.open_agent": ("open_agent",),
    "actors.common.errors": ("AgentError", "StartError"),
    "actors.conversation.result": ("Result", "Turn"),
    "actors.conversation.watch": ("Announced", "Gap"),
    "actors.log.deltas": ("ModelDelta", "ToolProgress"),
    "actors.models.errors": ("UnknownProvider",),
    "actors.models.messages": ("Emit", "ModelFailed", "ModelReply", "ModelRequest"),
    "config.agent_config": ("AgentConfig",),
    "config.errors": ("ConfigError",),
    "config.load": ("load_config",),
    "config.nodes": ("LlmNode",),
    "runtime.clock": ("ProcessClock",),
    "runtime.journal.errors": ("JournalBroken", "JournalBusy", "JournalTooNew"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

if not TYPE_CHECKING:  # type checkers would accept any name

    def __getattr__(name: str) -> object:
        """Load a name of the interface on first use (PEP 562)."""
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f".{_HOME_OF[name]}", __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
