"""What every node of the tree has in common: one `Execute`, and an end that its parent records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, assert_never

import attrs
import trio

from stopgo.actors import events as e
from stopgo.actors.gate import Place
from stopgo.actors.log import ConversationLog
from stopgo.actors.services import Services
from stopgo.actors.state import Exchange
from stopgo.config.model import LlmNode, Node, ParallelNode, SequentialNode
from stopgo.runtime.context import Behaviour, Context
from stopgo.runtime.errors import Refused
from stopgo.runtime.journal.protocol import NewEvent
from stopgo.runtime.message import Request

Session: TypeAlias = Mapping[str, str]
"""Session state: what nodes with an `output_key` left for others. A branch works on the copy it was given."""


@attrs.frozen
class NodeEnd:
    text: str
    rejected: bool = False
    """A human said no below; the nearest sequential node above starts nothing further."""
    writes: Session = attrs.field(factory=dict)
    """What it and the nodes below it put into the session state."""


class NodeFailed(Refused):
    """A node could not do its work. `failure` is a stable word, the text is for the user."""

    def __init__(self, failure: str, message: str) -> None:
        super().__init__(message)
        self.failure = failure


@attrs.frozen
class Execute(Request["Execute", NodeEnd]):
    """Run this node once. Raises `NodeFailed`."""

    path: tuple[int, ...]
    """Indices from the root."""
    session: Session
    place: Place


@attrs.frozen(eq=False)
class RunScope:
    """What the nodes of one run share."""

    services: Services
    log: ConversationLog
    turn: int
    user: str
    """The turn's user message."""
    earlier: tuple[Exchange, ...]

    def key(self, path: tuple[int, ...]) -> str:
        """The key of a node's execution, and the start of the keys of its steps."""
        return f"{self.turn}/{'.'.join(map(str, path))}"


def node(spec: Node, scope: RunScope) -> Behaviour[Execute]:
    # Imported here since every kind of node that has children needs this module.
    from stopgo.actors.nodes.llm import llm
    from stopgo.actors.nodes.parallel import parallel
    from stopgo.actors.nodes.sequential import sequential

    match spec:
        case LlmNode():
            return llm(spec, scope)
        case SequentialNode():
            return sequential(spec, scope)
        case ParallelNode():
            return parallel(spec, scope)
        case _:
            assert_never(spec)


async def execute_once(ctx: Context[Execute], execute: Callable[[Execute], Awaitable[NodeEnd]]) -> None:
    """Serve a single `Execute`; then the node's actor is done."""

    async def handle(message: Execute) -> NodeEnd:
        ctx.stop()
        return await execute(message)

    await ctx.serve(handle)


async def execute_child(
    ctx: Context[Any], name: str, behaviour: Behaviour[Execute], message: Execute
) -> NodeEnd:
    """Have a new actor execute a node. When this ends, also by cancellation, the actor and all below it are
    gone: nothing of a branch that was stopped is sent, or recorded, after whoever stopped it went on.
    """
    scope = trio.CancelScope()
    gone = trio.Event()

    async def child(ctx: Context[Execute]) -> None:
        try:
            with scope:
                await behaviour(ctx)
        finally:
            gone.set()

    try:
        return await ctx.spawn(name, child).ask(message)
    finally:
        scope.cancel()
        with trio.CancelScope(shield=True):  # bounded: a call gives up soon after it is cancelled
            await gone.wait()


async def run_child(
    ctx: Context[Execute],
    scope: RunScope,
    spec: Node,
    path: tuple[int, ...],
    session: Session,
    place: Place,
) -> NodeEnd:
    """Execute a child in an actor of its own, unless its end is on record. Raises `NodeFailed`."""
    key = scope.key(path)

    async def work() -> Mapping[str, Any]:
        name = f"{ctx.ref.name}.{path[-1]}"
        try:
            end = await execute_child(ctx, name, node(spec, scope), Execute(path, session, place))
        except NodeFailed as error:
            return {"error": {"code": error.failure, "message": str(error)}}
        return {"end": attrs.asdict(with_output(spec, end))}

    def state_set(outcome: Mapping[str, Any]) -> Sequence[NewEvent]:
        writes = outcome.get("end", {}).get("writes", {})
        if spec.output_key is None or spec.output_key not in writes:
            return ()
        return (e.state_set(spec.output_key, writes[spec.output_key], spec.name),)

    recorded = await scope.log.step(key, "node", spec.name, work, also=state_set)
    if "error" in recorded:
        raise NodeFailed(recorded["error"]["code"], recorded["error"]["message"])
    return NodeEnd(**recorded["end"])


def with_output(spec: Node, end: NodeEnd) -> NodeEnd:
    """Put the node's text under its `output_key`, unless a human stopped it."""
    if spec.output_key is None or end.rejected:
        return end
    return attrs.evolve(end, writes={**end.writes, spec.output_key: end.text})
