"""The kinds of nodes a tree is made of, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, TypeAlias

import attrs

from .a2a import DESTRUCTIVE_HINT, REMOTE_ADDRESS, RemoteAgentEntry
from .approval import ApprovalOverride, Condition
from .shape import SOME_TEXT, about

_MONTH = 31 * 86_400.0
_WORD = "[A-Za-z_][A-Za-z0-9_]*"

ROUTER_PROMPT = (
    "You hand each request to the one agent that fits it best. "
    "Answer with the name of that agent and nothing else."
)
"""The prompt of a router that has none of its own."""


@attrs.frozen(kw_only=True)
class BaseNode:
    """What every kind of node has."""

    name: str = attrs.field(metadata=about("Name of the node; unique in the tree.", not_empty=True))
    description: str = attrs.field(
        default="", metadata=about("What the node is for, in a sentence; a router's model is told.")
    )
    output_key: str | None = attrs.field(
        default=None,
        metadata=about(
            "Where the answer is kept for the prompts of later nodes.",
            pattern=_WORD,
            meaning="a word of letters, digits and _",
        ),
    )
    mcp_servers: tuple[str, ...] | None = attrs.field(
        default=None,
        metadata=about(
            "Names of the servers whose tools it and the nodes below it may use; `[]`: none. "
            "Default: those of the node above; at the root, all."
        ),
    )
    tools: tuple[str, ...] | None = attrs.field(
        default=None,
        metadata=about(
            "Names of the tools that it and the nodes below it may use; `*` and `?` stand for any "
            "characters. Default: those of the node above; at the root, all."
        ),
    )
    a2a: tuple[RemoteAgentEntry, ...] | None = attrs.field(
        default=None,
        metadata=about(
            "Agents that its model, and those of the nodes below it, may delegate to; `[]`: none. "
            "Default: those of the node above; at the root, the top-level `a2a`."
        ),
    )
    timeout: float | None = attrs.field(
        default=None,
        metadata=about(
            "Seconds of work one attempt may take; waiting for people does not count. Default: no limit.",
            above=0,
            maximum=_MONTH,
        ),
    )
    retries: int = attrs.field(
        default=0,
        metadata=about(
            "How often it is tried again when it fails, as long as it has made no call that must not be "
            "repeated.",
            minimum=0,
            maximum=100,
        ),
    )
    approval: ApprovalOverride | None = attrs.field(
        default=None, metadata=about("When its tool calls, and those of the nodes below, wait for a human.")
    )

    @property
    def remote_agents(self) -> tuple[str, ...] | None:
        """The names of `a2a`, each once."""
        return None if self.a2a is None else tuple(dict.fromkeys(entry.name for entry in self.a2a))


@attrs.frozen(kw_only=True)
class FallibleNode(BaseNode):
    """A node whose failure may be taken as its answer."""

    on_error: Literal["fail", "continue"] = attrs.field(
        default="fail",
        metadata=about(
            "What its failure means for the node above: `fail`, that one fails, too; `continue`, "
            "it goes on with the error as the answer."
        ),
    )


@attrs.frozen(kw_only=True)
class LlmNode(FallibleNode):
    """Asks a model, runs the tools it calls, and goes on until it answers with text."""

    TYPE: ClassVar = "llm"

    prompt: str = attrs.field(
        metadata=about(
            "System prompt; `{key}` stands for what an earlier node left under `output_key: key`. "
            "Default: the top-level `prompt`.",
            filled_in=True,
        )
    )
    model: str = attrs.field(
        metadata=about(
            "The model as `provider:name`, or a name out of `models`. Default: `llm.model`.",
            not_empty=True,
            filled_in=True,
        )
    )
    fallbacks: tuple[str, ...] | None = attrs.field(
        default=None,
        metadata=about(
            "Models that are asked in its place, in order, when it fails; `[]`: none. Default: those it has "
            "under `models`, else `llm.fallbacks`.",
            items=SOME_TEXT,
        ),
    )
    max_turns: int = attrs.field(
        default=10, metadata=about("Model calls of one execution.", minimum=1, maximum=1000)
    )
    max_tool_calls: int | None = attrs.field(
        default=None,
        metadata=about("Tool calls of one execution. Default: no limit.", minimum=1, maximum=100_000),
    )
    history: Literal["conversation", "turn"] = attrs.field(
        default="conversation",
        metadata=about(
            "What the model sees of the past: `conversation`, the user messages and final answers of "
            "earlier turns and the node's own tool calls with their results; `turn`, nothing."
        ),
    )
    can_exit_loop: bool = attrs.field(
        default=False,
        metadata=about("Whether the model gets the tool `exit_loop`, which ends the loop it is in."),
    )


@attrs.frozen(kw_only=True)
class OrderedNode(FallibleNode):
    """A node whose agents run one after the other."""

    on_reject: Literal["end", "continue"] = attrs.field(
        default="end",
        metadata=about(
            "What ends when a person rejects something below it: `end`, this node and those above; "
            "`continue`, this node alone, and the node above goes on."
        ),
    )


@attrs.frozen(kw_only=True)
class SequentialNode(OrderedNode):
    """Runs its agents one after the other; the last one's answer is its own."""

    TYPE: ClassVar = "sequential"

    agents: tuple[Node, ...] = attrs.field(metadata=about("The nodes it runs, in order.", not_empty=True))


@attrs.frozen(kw_only=True)
class ParallelNode(BaseNode):
    """Runs its agents at the same time; their answers, in order and joined by line ends, are its own."""

    TYPE: ClassVar = "parallel"

    agents: tuple[Node, ...] = attrs.field(metadata=about("The nodes it runs, all at once.", not_empty=True))
    max_concurrency: int | None = attrs.field(
        default=None,
        metadata=about("How many of them run at the same time. Default: all.", minimum=1, maximum=1000),
    )
    on_error: Literal["fail_fast", "collect"] = attrs.field(
        default="fail_fast",
        metadata=about(
            "What the failure of one means for the others: `fail_fast`, they are stopped; `collect`, they "
            "go on, and the error stands where the answer would."
        ),
    )


@attrs.frozen(kw_only=True)
class LoopNode(OrderedNode):
    """Runs its agents in order, again and again, until one calls `exit_loop`."""

    TYPE: ClassVar = "loop"

    agents: tuple[Node, ...] = attrs.field(
        metadata=about("The nodes of one iteration, in order.", not_empty=True)
    )
    max_iterations: int = attrs.field(
        default=10, metadata=about("After this many it ends by itself.", minimum=1, maximum=1000)
    )


@attrs.frozen(kw_only=True)
class Route:
    """One way out of a router."""

    when: Mapping[str, Condition] = attrs.field(
        metadata=about(
            "Conditions on what earlier nodes left under their `output_key`, by key, and on "
            "`user_message`; all must hold.",
            not_empty=True,
        )
    )
    agent: str = attrs.field(metadata=about("Name of the router's agent that then runs.", not_empty=True))


@attrs.frozen(kw_only=True)
class RouterNode(FallibleNode):
    """Runs one of its agents: the one its model picks, or the one of the first route that holds."""

    TYPE: ClassVar = "router"
    EXACTLY_ONE_OF: ClassVar = (("model", "prompt", "fallbacks"), ("routes",))

    agents: tuple[Node, ...] = attrs.field(metadata=about("The nodes of which it runs one.", not_empty=True))
    model: str | None = attrs.field(
        default=None,
        metadata=about(
            "The model that picks, as `provider:name` or a name out of `models`. Default, when there is a "
            "`prompt`: `llm.model`.",
            not_empty=True,
        ),
    )
    fallbacks: tuple[str, ...] | None = attrs.field(
        default=None,
        metadata=about(
            "Models that are asked in its place, in order, when it fails; `[]`: none. Default: those it has "
            "under `models`, else `llm.fallbacks`.",
            items=SOME_TEXT,
        ),
    )
    prompt: str | None = attrs.field(
        default=None,
        metadata=about(
            "System prompt of the model that picks. Default, when there is a `model`: to answer with the "
            "name of the agent that fits best."
        ),
    )
    routes: tuple[Route, ...] | None = attrs.field(
        default=None,
        metadata=about("Looked at in order; the first whose conditions hold decides.", not_empty=True),
    )
    default: str | None = attrs.field(
        default=None,
        metadata=about(
            "Name of the agent that runs when no route holds. Default: then the router fails.",
            not_empty=True,
            needs="routes",
        ),
    )


@attrs.frozen(kw_only=True)
class CheckpointNode(FallibleNode):
    """Asks a human, who may say yes, and then the tree goes on, or no."""

    TYPE: ClassVar = "approval"

    message: str = attrs.field(
        metadata=about(
            "What is asked, in Markdown; `{key}` stands for what an earlier node left under "
            "`output_key: key`.",
            not_empty=True,
        )
    )


@attrs.frozen(kw_only=True)
class RemoteAgentNode(FallibleNode):
    """Delegates to another agent over A2A; the answer of that agent is its own answer."""

    TYPE: ClassVar = "a2a"
    EXACTLY_ONE_OF: ClassVar = (("agent",), ("url",))

    agent: str | None = attrs.field(
        default=None, metadata=about("Name of an entry of the top-level `a2a`.", not_empty=True)
    )
    url: str | None = attrs.field(
        default=None,
        repr=False,
        metadata=about(
            "Address of the agent, as in the top-level `a2a`; its name is then that of the node. One that "
            "stands there, too, brings the settings from there.",
            **REMOTE_ADDRESS,
        ),
    )
    prompt: str = attrs.field(
        default="{user_message}",
        metadata=about(
            "What is delegated; `{key}` stands for what an earlier node left under `output_key: key`.",
            not_empty=True,
        ),
    )
    destructive_hint: bool = attrs.field(
        default=False,
        metadata=about(
            "Whether it waits for a human before it delegates. For an `agent` its entry says that.",
            needs="url",
            **DESTRUCTIVE_HINT,
        ),
    )

    @property
    def remote(self) -> str:
        """The name of the agent it delegates to."""
        return self.agent or self.name


Node: TypeAlias = (
    LlmNode | SequentialNode | ParallelNode | LoopNode | RouterNode | CheckpointNode | RemoteAgentNode
)


def children_of(node: Node) -> tuple[Node, ...]:
    """The nodes directly below one."""
    match node:
        case SequentialNode() | ParallelNode() | LoopNode() | RouterNode():
            return node.agents
        case LlmNode() | CheckpointNode() | RemoteAgentNode():
            return ()
