"""Agent Stop and Go: an agent runtime that stops before a tool call can do harm and asks a person.

The names in `_HOMES` are the interface for Python programs. Each is loaded when it is first used, so that
``import stopgo`` and the command stay fast. Everything else is internal and may change.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
"""As in `typing`, without loading it."""

if TYPE_CHECKING:  # the form `NAME as NAME` makes a name public for type checkers
    from .actors.agent.agent import Agent as Agent
    from .actors.agent.lists import ApprovalPage as ApprovalPage
    from .actors.agent.lists import ConversationItem as ConversationItem
    from .actors.agent.lists import ConversationPage as ConversationPage
    from .actors.agent.lists import ListedTool as ListedTool
    from .actors.agent.open_agent import open_agent as open_agent
    from .actors.agent.watch import Announced as Announced
    from .actors.agent.watch import Gap as Gap
    from .actors.approvals.checkpoint_approval import CheckpointQuestion as CheckpointQuestion
    from .actors.approvals.elicitation_approval import ElicitationQuestion as ElicitationQuestion
    from .actors.approvals.kinds import Approval as Approval
    from .actors.approvals.outcome_approval import OutcomeQuestion as OutcomeQuestion
    from .actors.approvals.proxy_approval import ProxyQuestion as ProxyQuestion
    from .actors.approvals.tool_approval import ToolQuestion as ToolQuestion
    from .actors.bridge.blocking import BlockingAgent as BlockingAgent
    from .actors.bridge.blocking import blocking as blocking
    from .actors.bridge.for_asyncio import AsyncioAgent as AsyncioAgent
    from .actors.bridge.for_asyncio import for_asyncio as for_asyncio
    from .actors.common.errors import AgentError as AgentError
    from .actors.common.errors import StartError as StartError
    from .actors.conversation.result import AnsweredTurn as AnsweredTurn
    from .actors.conversation.result import Result as Result
    from .actors.conversation.result import Turn as Turn
    from .actors.gate.halt import HaltState as HaltState
    from .actors.log.fold.head import RunHead as RunHead
    from .actors.log.fold.record import CallView as CallView
    from .actors.log.fold.record import Message as Message
    from .actors.log.fold.state import Conversation as Conversation
    from .actors.log.words.deltas import ModelDelta as ModelDelta
    from .actors.log.words.deltas import ToolProgress as ToolProgress
    from .actors.models.messages.errors import UnknownProvider as UnknownProvider
    from .actors.models.messages.messages import ArgumentsDelta as ArgumentsDelta
    from .actors.models.messages.messages import AssistantMessage as AssistantMessage
    from .actors.models.messages.messages import Emit as Emit
    from .actors.models.messages.messages import ModelFailed as ModelFailed
    from .actors.models.messages.messages import ModelReply as ModelReply
    from .actors.models.messages.messages import ModelRequest as ModelRequest
    from .actors.models.messages.messages import ModelTool as ModelTool
    from .actors.models.messages.messages import TextDelta as TextDelta
    from .actors.models.messages.messages import ToolCall as ToolCall
    from .actors.models.messages.messages import ToolMessage as ToolMessage
    from .actors.models.messages.messages import Usage as Usage
    from .actors.models.messages.messages import UserMessage as UserMessage
    from .actors.models.messages.usage import Spent as Spent
    from .actors.models.providers.model import Model as Model
    from .actors.servers.health import Health as Health
    from .actors.servers.health import PartHealth as PartHealth
    from .actors.tools.names import parse_tool_name as parse_tool_name
    from .actors.tools.pictures import Picture as Picture
    from .actors.tools.pictures import picture_in as picture_in
    from .actors.tools.tool import Hints as Hints
    from .actors.tools.tool import Progress as Progress
    from .actors.tools.tool import Tool as Tool
    from .config.load import load_config as load_config
    from .config.sections.agent_config import AgentConfig as AgentConfig
    from .config.sections.approval import ApprovalConfig as ApprovalConfig
    from .config.sections.nodes import LlmNode as LlmNode
    from .config.text.errors import ConfigError as ConfigError
    from .config.text.errors import Problem as Problem
    from .gateway.testing.crash_driver import CrashReport as CrashReport
    from .gateway.testing.crash_driver import crash_at_every_step as crash_at_every_step
    from .gateway.testing.tool_stub import ToolStub as ToolStub
    from .runtime.clock import ProcessClock as ProcessClock
    from .runtime.journal.errors import JournalBroken as JournalBroken
    from .runtime.journal.errors import JournalBusy as JournalBusy
    from .runtime.journal.errors import JournalTooNew as JournalTooNew
    from .runtime.journal.protocol import Event as Event

_HOMES = {
    "actors.agent.agent": ("Agent",),
    "actors.bridge.blocking": ("BlockingAgent", "blocking"),
    "actors.bridge.for_asyncio": ("AsyncioAgent", "for_asyncio"),
    "actors.agent.open_agent": ("open_agent",),
    "actors.approvals.checkpoint_approval": ("CheckpointQuestion",),
    "actors.approvals.elicitation_approval": ("ElicitationQuestion",),
    "actors.approvals.kinds": ("Approval",),
    "actors.approvals.outcome_approval": ("OutcomeQuestion",),
    "actors.approvals.proxy_approval": ("ProxyQuestion",),
    "actors.approvals.tool_approval": ("ToolQuestion",),
    "actors.common.errors": ("AgentError", "StartError"),
    "actors.agent.lists": ("ApprovalPage", "ConversationItem", "ConversationPage", "ListedTool"),
    "actors.conversation.result": ("AnsweredTurn", "Result", "Turn"),
    "actors.agent.watch": ("Announced", "Gap"),
    "actors.gate.halt": ("HaltState",),
    "actors.log.words.deltas": ("ModelDelta", "ToolProgress"),
    "actors.log.fold.head": ("RunHead",),
    "actors.log.fold.record": ("CallView", "Message"),
    "actors.log.fold.state": ("Conversation",),
    "actors.models.messages.errors": ("UnknownProvider",),
    "actors.models.messages.messages": (
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
    "actors.models.providers.model": ("Model",),
    "actors.models.messages.usage": ("Spent",),
    "actors.servers.health": ("Health", "PartHealth"),
    "actors.tools.names": ("parse_tool_name",),
    "actors.tools.pictures": ("Picture", "picture_in"),
    "actors.tools.tool": ("Hints", "Progress", "Tool"),
    "config.sections.agent_config": ("AgentConfig",),
    "config.sections.approval": ("ApprovalConfig",),
    "config.text.errors": ("ConfigError", "Problem"),
    "config.load": ("load_config",),
    "config.sections.nodes": ("LlmNode",),
    "gateway.testing.crash_driver": ("CrashReport", "crash_at_every_step"),
    "gateway.testing.tool_stub": ("ToolStub",),
    "runtime.clock": ("ProcessClock",),
    "runtime.journal.errors": ("JournalBroken", "JournalBusy", "JournalTooNew"),
    "runtime.journal.protocol": ("Event",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

if not TYPE_CHECKING:  # hidden from type checkers, which would accept any name
    __all__ = sorted(_HOME_OF)

    def __getattr__(name: str) -> object:
        """Load a public name when it is first used (PEP 562)."""
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f".{_HOME_OF[name]}", __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
