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
    from .actors.approvals.checkpoint_approval import CheckpointQuestion
    from .actors.approvals.elicitation_approval import ElicitationQuestion
    from .actors.approvals.kinds import Approval
    from .actors.approvals.outcome_approval import OutcomeQuestion
    from .actors.approvals.proxy_approval import ProxyQuestion
    from .actors.approvals.tool_approval import ToolQuestion
    from .actors.bridge.blocking import BlockingAgent, blocking
    from .actors.bridge.for_asyncio import AsyncioAgent, for_asyncio
    from .actors.common.errors import AgentError, StartError
    from .actors.conversation.lists import ApprovalPage, ConversationItem, ConversationPage, ListedTool
    from .actors.conversation.result import AnsweredTurn, Result, Turn
    from .actors.conversation.watch import Announced, Gap
    from .actors.log.deltas import ModelDelta, ToolProgress
    from .actors.log.head import RunHead
    from .actors.log.record import CallView, Message
    from .actors.log.state import Conversation
    from .actors.models.errors import UnknownProvider
    from .actors.models.messages import (
        ArgumentsDelta,
        AssistantMessage,
        Emit,
        ModelFailed,
        ModelReply,
        ModelRequest,
        ModelTool,
        TextDelta,
        ToolCall,
        ToolMessage,
        Usage,
        UserMessage,
    )
    from .actors.models.model import Model
    from .actors.models.usage import Spent
    from .actors.open_agent import open_agent
    from .actors.tools.health import Health, PartHealth
    from .actors.tools.tool import Hints, Progress, Tool
    from .config.agent_config import AgentConfig
    from .config.errors import ConfigError, Problem
    from .config.load import load_config
    from .config.nodes import LlmNode
    from .gateway.testing.crash_driver import CrashReport, crash_at_every_step
    from .gateway.testing.tool_stub import ToolStub
    from .runtime.clock import ProcessClock
    from .runtime.journal.errors import JournalBroken, JournalBusy, JournalTooNew
    from .runtime.journal.protocol import Event

__all__ = [
    "Agent",
    "AgentConfig",
    "AgentError",
    "Announced",
    "AnsweredTurn",
    "Approval",
    "ApprovalPage",
    "ArgumentsDelta",
    "AssistantMessage",
    "AsyncioAgent",
    "BlockingAgent",
    "CallView",
    "CheckpointQuestion",
    "ConfigError",
    "Conversation",
    "ConversationItem",
    "ConversationPage",
    "CrashReport",
    "ElicitationQuestion",
    "Emit",
    "Event",
    "Gap",
    "Health",
    "Hints",
    "JournalBroken",
    "JournalBusy",
    "JournalTooNew",
    "ListedTool",
    "LlmNode",
    "Message",
    "Model",
    "ModelDelta",
    "ModelFailed",
    "ModelReply",
    "ModelRequest",
    "ModelTool",
    "OutcomeQuestion",
    "PartHealth",
    "Problem",
    "ProcessClock",
    "Progress",
    "ProxyQuestion",
    "Result",
    "RunHead",
    "Spent",
    "StartError",
    "TextDelta",
    "Tool",
    "ToolCall",
    "ToolMessage",
    "ToolProgress",
    "ToolQuestion",
    "ToolStub",
    "Turn",
    "UnknownProvider",
    "Usage",
    "UserMessage",
    "blocking",
    "crash_at_every_step",
    "for_asyncio",
    "load_config",
    "open_agent",
]

_HOMES = {
    "actors.agent": ("Agent",),
    "actors.bridge.blocking": ("BlockingAgent", "blocking"),
    "actors.bridge.for_asyncio": ("AsyncioAgent", "for_asyncio"),
    "actors.open_agent": ("open_agent",),
    "actors.approvals.checkpoint_approval": ("CheckpointQuestion",),
    "actors.approvals.elicitation_approval": ("ElicitationQuestion",),
    "actors.approvals.kinds": ("Approval",),
    "actors.approvals.outcome_approval": ("OutcomeQuestion",),
    "actors.approvals.proxy_approval": ("ProxyQuestion",),
    "actors.approvals.tool_approval": ("ToolQuestion",),
    "actors.common.errors": ("AgentError", "StartError"),
    "actors.conversation.lists": ("ApprovalPage", "ConversationItem", "ConversationPage", "ListedTool"),
    "actors.conversation.result": ("AnsweredTurn", "Result", "Turn"),
    "actors.conversation.watch": ("Announced", "Gap"),
    "actors.log.deltas": ("ModelDelta", "ToolProgress"),
    "actors.log.head": ("RunHead",),
    "actors.log.record": ("CallView", "Message"),
    "actors.log.state": ("Conversation",),
    "actors.models.errors": ("UnknownProvider",),
    "actors.models.messages": (
        "ArgumentsDelta",
        "AssistantMessage",
        "Emit",
        "ModelFailed",
        "ModelReply",
        "ModelRequest",
        "ModelTool",
        "TextDelta",
        "ToolCall",
        "ToolMessage",
        "Usage",
        "UserMessage",
    ),
    "actors.models.model": ("Model",),
    "actors.models.usage": ("Spent",),
    "actors.tools.health": ("Health", "PartHealth"),
    "actors.tools.tool": ("Hints", "Progress", "Tool"),
    "config.agent_config": ("AgentConfig",),
    "config.errors": ("ConfigError", "Problem"),
    "config.load": ("load_config",),
    "config.nodes": ("LlmNode",),
    "gateway.testing.crash_driver": ("CrashReport", "crash_at_every_step"),
    "gateway.testing.tool_stub": ("ToolStub",),
    "runtime.clock": ("ProcessClock",),
    "runtime.journal.errors": ("JournalBroken", "JournalBusy", "JournalTooNew"),
    "runtime.journal.protocol": ("Event",),
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
