"""The kinds of nodes of a tree, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, TypeAlias, get_args

import attrs

from ..described.shape import SOME_TEXT, about, default
from .a2a import DESTRUCTIVE_HINT, REMOTE_ADDRESS, RemoteAgentEntry
from .approval import APPROVERS, QUORUM, REQUESTER_MAY_APPROVE, ApprovalOverride, Condition

_MONTH = 31 * 86_400.0
_WORD = "[A-Za-z_][A-Za-z0-9_]*"

ROUTER_PROMPT = (
    "You hand each request to the one agent that fits it best. "
    "Answer with the name of that agent and nothing else."
)
"""The default prompt of a router."""


ITERATION = "iteration"
"""Filled below a loop with the number of the iteration, from 1, of the innermost loop."""


@attrs.frozen(kw_only=True)
class NodeKind:
    """The facts about a kind of node on which the gate, the checks and the views depend. Each class of `Node`
    has one as `KIND`; type checkers report a class without it."""

    runs: tuple[Literal["in order", "together", "again"], ...]
    """How it runs its children. `in order`: each after the one before, until a rejection; `together`: at the
    same time; `again`: more than once. Empty: it runs one of them, or has none."""
    fills: str | None
    """The key of the file in which it fills placeholders."""
    gives: tuple[str, ...] = ()
    """The placeholders that are filled only below it."""
    calls: bool
    """Whether it calls tools or agents itself."""


@attrs.frozen(kw_only=True)
class BaseNode:
    """The keys of every kind of node."""

    name: str = attrs.field(metadata=about("Name of the node; unique in the tree.", not_empty=True))
    description: str = default("", "Purpose of the node, in a sentence; shown to the model of a router.")
    output_key: str | None = default(
        None,
        "Key under which later nodes can use the answer.",
        pattern=_WORD,
        meaning="a word of letters, digits and _",
    )
    mcp_servers: tuple[str, ...] | None = default(
        None,
        "Names of the servers whose tools this node and the nodes below it may use; `[]`: none. "
        "Default: inherited; at the root, all.",
        empty="none",
    )
    tools: tuple[str, ...] | None = default(
        None,
        "Names of the tools that this node and the nodes below it may use; `*` and `?` are wildcards; "
        "`[]`: none. Default: inherited; at the root, all.",
        empty="none",
    )
    a2a: tuple[RemoteAgentEntry, ...] | None = default(
        None,
        "Remote agents that the models of this node and of the nodes below it may delegate to; `[]`: "
        "none. Default: inherited; at the root, the top-level `a2a`.",
        empty="none",
    )
    timeout: float | None = default(
        None,
        "Seconds of work time of one attempt; waiting for people does not count. Default: no limit.",
        above=0,
        maximum=_MONTH,
    )
    retries: int = default(
        0,
        "How many times to retry a failed node. There is no retry after an attempt that started a "
        "`once` call.",
        minimum=0,
        maximum=100,
    )
    approval: ApprovalOverride | None = default(
        None, "When tool calls of this node and of the nodes below it ask a person first."
    )

    @property
    def remote_agents(self) -> tuple[str, ...] | None:
        """The names of the agents in `a2a`, each once."""
        return None if self.a2a is None else tuple(dict.fromkeys(entry.name for entry in self.a2a))


@attrs.frozen(kw_only=True)
class FallibleNode(BaseNode):
    """A node whose error can count as its answer."""

    on_error: Literal["fail", "continue"] = default(
        "fail",
        "If the node fails: `fail`, the node above fails, too; `continue`, the node above continues "
        "with the error as the answer.",
    )


@attrs.frozen(kw_only=True)
class LlmNode(FallibleNode):
    """Asks a model and runs the tools that it calls, until the model answers with text."""

    TYPE: ClassVar = "llm"
    KIND: ClassVar = NodeKind(runs=(), fills="prompt", calls=True)

    prompt: str = attrs.field(
        metadata=about(
            "System prompt; `{key}` stands for the answer of an earlier node with `output_key: key`. "
            "Default: the top-level `prompt`.",
            filled_in=True,
        )
    )
    model: str = attrs.field(
        metadata=about(
            "The model as `provider:name`, or a name from `models`. Default: `llm.model`.",
            not_empty=True,
            filled_in=True,
        )
    )
    fallbacks: tuple[str, ...] | None = default(
        None,
        "Models to try in order when the model fails; `[]`: none. Default: the fallbacks of the model "
        "in `models`, else `llm.fallbacks`.",
        empty="none",
        items=SOME_TEXT,
    )
    max_turns: int = default(10, "Maximum number of model calls of one execution.", minimum=1, maximum=1000)
    max_tool_calls: int | None = default(
        None, "Maximum number of tool calls of one execution. Default: no limit.", minimum=1, maximum=100_000
    )
    history: Literal["conversation", "turn"] = default(
        "conversation",
        "What the model sees of earlier turns: `conversation`, the user messages, the final answers and "
        "the node's own tool calls with their results; `turn`, nothing.",
    )
    can_exit_loop: bool = default(
        False, "Whether the model gets the tool `exit_loop`, which ends the nearest loop."
    )


@attrs.frozen(kw_only=True)
class OrderedNode(FallibleNode):
    """A node whose agents run one after the other."""

    on_reject: Literal["end", "continue"] = default(
        "end",
        "If a person rejects a call or checkpoint below this node: `end`, this node and the nodes above "
        "it end; `continue`, only this node ends, and the node above continues.",
    )


@attrs.frozen(kw_only=True)
class SequentialNode(OrderedNode):
    """Runs its agents one after the other. Its answer is that of the last one."""

    TYPE: ClassVar = "sequential"
    KIND: ClassVar = NodeKind(runs=("in order",), fills=None, calls=False)

    agents: tuple[Node, ...] = attrs.field(metadata=about("The nodes to run, in order."))


@attrs.frozen(kw_only=True)
class ParallelNode(BaseNode):
    """Runs its agents at the same time. Its answer is all their answers, in order, joined by line ends."""

    TYPE: ClassVar = "parallel"
    KIND: ClassVar = NodeKind(runs=("together",), fills=None, calls=False)

    agents: tuple[Node, ...] = attrs.field(metadata=about("The nodes to run at the same time."))
    max_concurrency: int | None = default(
        None, "Maximum number of nodes that run at the same time. Default: all.", minimum=1, maximum=1000
    )
    on_error: Literal["fail_fast", "collect"] = default(
        "fail_fast",
        "If one of the agents fails: `fail_fast`, the others are stopped; `collect`, the others "
        "continue, and the error takes the place of the answer.",
    )


@attrs.frozen(kw_only=True)
class LoopNode(OrderedNode):
    """Repeats its agents in order until one calls `exit_loop`."""

    TYPE: ClassVar = "loop"
    KIND: ClassVar = NodeKind(runs=("in order", "again"), fills=None, gives=(ITERATION,), calls=False)

    agents: tuple[Node, ...] = attrs.field(metadata=about("The nodes of one iteration, in order."))
    max_iterations: int = default(
        10, "Maximum number of iterations; then the loop ends.", minimum=1, maximum=1000
    )


@attrs.frozen(kw_only=True)
class Route:
    """An agent of a router, with the conditions under which it runs."""

    when: Mapping[str, Condition] = attrs.field(
        metadata=about(
            "Conditions on the answers of earlier nodes, by their `output_key`, and on `user_message`; all "
            "must hold."
        )
    )
    agent: str = attrs.field(metadata=about("Name of the agent to run.", not_empty=True))


@attrs.frozen(kw_only=True)
class RouterNode(FallibleNode):
    """Runs one of its agents: the one that a model picks, or that of the first route that matches."""

    TYPE: ClassVar = "router"
    KIND: ClassVar = NodeKind(runs=(), fills="prompt", calls=False)
    EXACTLY_ONE_OF: ClassVar = (("model", "prompt", "fallbacks"), ("routes",))

    agents: tuple[Node, ...] = attrs.field(metadata=about("The nodes to choose from."))
    model: str | None = default(
        None,
        "The model that picks, as `provider:name` or a name from `models`. Default, with a `prompt`: "
        "`llm.model`.",
        not_empty=True,
    )
    fallbacks: tuple[str, ...] | None = default(
        None,
        "Models to try in order when the model fails; `[]`: none. Default: the fallbacks of the model "
        "in `models`, else `llm.fallbacks`.",
        empty="none",
        items=SOME_TEXT,
    )
    prompt: str | None = default(
        None,
        "System prompt of the model that picks. Default, with a `model`: an instruction to answer "
        "with the name of the agent that fits best.",
    )
    routes: tuple[Route, ...] | None = default(
        None, "Checked in order; the first route whose conditions hold decides."
    )
    default: str | None = default(
        None,
        "Name of the agent to run if no route matches. Default: the router fails.",
        not_empty=True,
        needs="routes",
    )


@attrs.frozen(kw_only=True)
class CheckpointNode(FallibleNode):
    """A checkpoint: the run pauses until a person approves that it continues, or rejects."""

    TYPE: ClassVar = "approval"
    KIND: ClassVar = NodeKind(runs=(), fills="message", calls=False)

    message: str = attrs.field(
        metadata=about(
            "Question to the person, in Markdown. The values of its placeholders, such as `{key}` for the "
            "answer of an earlier node with `output_key: key`, are shown below it, whole and not formatted.",
            not_empty=True,
        )
    )
    approvers: tuple[str, ...] | None = attrs.field(default=None, metadata=APPROVERS)
    quorum: int = attrs.field(default=1, metadata=QUORUM)
    requester_may_approve: bool = attrs.field(default=True, metadata=REQUESTER_MAY_APPROVE)


@attrs.frozen(kw_only=True)
class RemoteAgentNode(FallibleNode):
    """Delegates to a remote agent over A2A. Its answer is that of the remote agent."""

    TYPE: ClassVar = "a2a"
    KIND: ClassVar = NodeKind(runs=(), fills="prompt", calls=True)
    EXACTLY_ONE_OF: ClassVar = (("agent",), ("url",))

    agent: str | None = default(None, "Name of an entry of the top-level `a2a`.", not_empty=True)
    url: str | None = default(
        None,
        "Address of the agent, as in the top-level `a2a`; the agent then has the name of the node. If an "
        "entry there has the same address, its other settings apply.",
        **REMOTE_ADDRESS,
        repr=False,
    )
    prompt: str = default(
        "{user_message}",
        "Message to the agent; `{key}` stands for the answer of an earlier node with `output_key: key`.",
        not_empty=True,
    )
    destructive_hint: bool = default(
        False,
        "Whether the node asks a person before it delegates. With `agent`, the entry decides.",
        needs="url",
        **DESTRUCTIVE_HINT,
    )

    @property
    def remote(self) -> str:
        """The name of the agent to delegate to."""
        return self.agent or self.name


Node: TypeAlias = (
    LlmNode | SequentialNode | ParallelNode | LoopNode | RouterNode | CheckpointNode | RemoteAgentNode
)

KINDS: Mapping[str, NodeKind] = {cls.TYPE: cls.KIND for cls in get_args(Node)}
"""The kinds of nodes, by the `type` in the file."""


def children_of(node: Node) -> tuple[Node, ...]:
    """The nodes directly below a node."""
    match node:
        case SequentialNode() | ParallelNode() | LoopNode() | RouterNode():
            return node.agents
        case LlmNode() | CheckpointNode() | RemoteAgentNode():
            return ()
