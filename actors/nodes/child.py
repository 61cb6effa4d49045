"""A child's execution, as its parent sees it: attempts, time, and what a failure becomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import trio

from ...config.nodes import Node, ParallelNode
from ...runtime.context import Context
from ...runtime.journal.protocol import NewEvent
from ..log import events as e
from ..log.step import step
from .node import Execute, NodeEnd, NodeFailed, RunScope


async def run_child(ctx: Context[Any], scope: RunScope, spec: Node, message: Execute) -> NodeEnd:
    """Execute a child in an actor of its own, unless its end is on record.

    Raises `NodeFailed` when it failed for good.
    """
    child = _Child(ctx, scope, spec, message)
    return _end(await step(scope.log, message.key, "node", spec.name, child.work, also=child.state_set))


async def run_root(ctx: Context[Any], scope: RunScope, spec: Node, message: Execute) -> NodeEnd:
    """Execute the root; the end of the run is its record. Raises `NodeFailed`."""
    return _end(await _Child(ctx, scope, spec, message).work())


def _end(outcome: Mapping[str, Any]) -> NodeEnd:
    if "error" in outcome:
        raise NodeFailed.from_json(outcome["error"])
    return NodeEnd(**outcome["end"])


@attrs.frozen(eq=False)
class _Child:
    ctx: Context[Any]
    scope: RunScope
    spec: Node
    message: Execute

    async def work(self) -> Mapping[str, Any]:
        attempt = 1
        while True:
            key = self.message.key if attempt == 1 else f"{self.message.key}!{attempt}"
            error = await self._attempt(key)
            if isinstance(error, NodeEnd):
                return {"end": _with_output(self.spec, error).to_json()}
            if error.fatal or attempt > self.spec.retries or self._may_have_acted(key):
                return self._failed(error)
            # On record, so that a replay knows without trying that this attempt is over.
            outcome = {"error": error.to_json()}
            await self._record_attempt(key, outcome)
            attempt += 1

    async def _attempt(self, key: str) -> NodeEnd | NodeFailed:
        over = self.scope.log.run.steps.get(f"{key}!")
        if over is not None:
            return NodeFailed.from_json(over["error"])
        try:
            message = self.message if key == self.message.key else attrs.evolve(self.message, key=key)
            return await self._execute(message)
        except NodeFailed as error:
            return error

    async def _record_attempt(self, key: str, outcome: Mapping[str, Any]) -> None:
        async def done() -> Mapping[str, Any]:
            await trio.lowlevel.checkpoint()
            return outcome

        await step(self.scope.log, f"{key}!", "attempt", self.spec.name, done)

    async def _execute(self, message: Execute) -> NodeEnd:
        name = f"{self.ctx.ref.name}.{message.path[-1] if message.path else 'run'}"
        behaviour = self.scope.node(self.spec, self.scope)
        if self.spec.timeout is None:
            return await self.ctx.ask_new(name, behaviour, message)
        with self.scope.log.metered(message.key, self.spec.timeout) as meter:
            timed = attrs.evolve(message, meters=(*message.meters, meter))
            return await self.ctx.ask_new(name, behaviour, timed)
        raise NodeFailed(
            "timed_out", f'node "{self.spec.name}" took longer than {self.spec.timeout:g} s of work (timeout)'
        )

    def _may_have_acted(self, key: str) -> bool:
        """Whether the attempt started a call that must not be repeated: then neither must the attempt."""
        inner = (f"{key}:", f"{key}.", f"{key}@")
        return any(
            record.started is not None and record.started["effect"] == "once"
            for call, record in self.scope.log.run.calls.items()
            if call.startswith(inner)
        )

    def _failed(self, error: NodeFailed) -> Mapping[str, Any]:
        goes_on = not isinstance(self.spec, ParallelNode) and self.spec.on_error == "continue"
        if error.fatal or not goes_on:
            return {"error": error.to_json()}
        end = NodeEnd(f"Error: {error}")
        return {"end": _with_output(self.spec, end).to_json(), "continued": error.to_json()}

    def state_set(self, outcome: Mapping[str, Any]) -> Sequence[NewEvent]:
        key = self.spec.output_key
        writes = outcome.get("end", {}).get("writes", {})
        if key is None or key not in writes:
            return ()
        return (e.state_set(key, writes[key], self.spec.name),)


def _with_output(spec: Node, end: NodeEnd) -> NodeEnd:
    """Put the node's text under its `output_key`, unless a human stopped it."""
    if spec.output_key is None or end.rejected:
        return end
    return attrs.evolve(end, writes={**end.writes, spec.output_key: end.text})
