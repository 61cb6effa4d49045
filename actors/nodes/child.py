"""The execution of a child for its parent: attempts, work time, and the handling of failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from ...config.sections.nodes import Node, OrderedNode, ParallelNode, children_of
from ...config.sections.placeholders import works_on_its_key
from ...runtime.context import Context
from ..approvals.decided import CANCELLED, EXPIRED, Decided, Expired
from ..common.errors import NodeFailed
from ..log.words import events as e
from ..log.words import keys
from ..log.words.outcomes import Ended, NodeEnd, StepFailed
from ..log.writer.step import attempt_failed, recorded_failure, step
from ..run.scopes import Execute, RunScope


async def run_child(ctx: Context[Any], scope: RunScope, spec: Node, message: Execute) -> NodeEnd:
    """Execute a child in an actor of its own, or return its recorded end.

    Raises `NodeFailed` if it failed after all retries.
    """
    child = _Attempts(ctx, scope, spec, message)
    return _end(await step(scope.log, message.key, Ended, spec.name, child.work, also=child.state_set))


async def run_root(ctx: Context[Any], scope: RunScope, spec: Node, message: Execute) -> NodeEnd:
    """Execute the root. Its end is recorded as the end of the run. Raises `NodeFailed`."""
    return _end(await _Attempts(ctx, scope, spec, message).work())


def _end(outcome: Ended | StepFailed) -> NodeEnd:
    if isinstance(outcome, StepFailed):
        raise NodeFailed.of(outcome.error)
    return outcome.end


@attrs.frozen(eq=False)
class _Attempts:
    ctx: Context[Any]
    scope: RunScope
    spec: Node
    message: Execute

    async def work(self) -> Ended | StepFailed:
        attempt = 1
        while True:
            key = keys.attempt(self.message.key, attempt)
            over = recorded_failure(self.scope.log, keys.failure(key), self.spec.name)
            error = await self._attempt(key) if over is None else NodeFailed.of(over.error)
            if isinstance(error, NodeEnd):
                return Ended(self._with_output(error))
            if not error.fatal and over is None and (no := self._rejection(key)) is not None:
                return self._rejected(error, no)
            if error.fatal or attempt > self.spec.retries or self._may_have_acted(key):
                return self._failed(error)
            if over is None and not await self._record_failure(key, error):
                no = self._rejection(key)
                assert no is not None
                return self._rejected(error, no)
            attempt += 1

    def _rejection(self, key: str) -> str | None:
        return rejection(self.scope, self.spec, self.message, key)

    async def _record_failure(self, key: str, error: NodeFailed) -> bool:
        """Record that the attempt failed, so that the next one can begin. False if something was rejected
        meanwhile."""
        failed, name = StepFailed(error=error.fault), self.spec.name
        return await attempt_failed(
            self.scope.log, keys.failure(key), name, failed, when=lambda: self._rejection(key) is None
        )

    async def _attempt(self, key: str) -> NodeEnd | NodeFailed:
        try:
            message = self.message if key == self.message.key else attrs.evolve(self.message, key=key)
            return await self._execute(message)
        except NodeFailed as error:
            return error

    async def _execute(self, message: Execute) -> NodeEnd:
        name = f"{self.ctx.ref.name}.{message.path[-1] if message.path else 'run'}"
        behaviour = self.scope.node(self.spec, self.scope)
        log = self.scope.log
        log.observer.node_started(log.state, message.key, self.spec, log.wall())
        if self.spec.timeout is None:
            return await self.ctx.ask_new(name, behaviour, message)
        with log.limit_work_time(message.key, self.spec.timeout) as work_timer:
            timed = attrs.evolve(message, work_timers=(*message.work_timers, work_timer))
            return await self.ctx.ask_new(name, behaviour, timed)
        raise NodeFailed(
            "timed_out", f'node "{self.spec.name}" took longer than {self.spec.timeout:g} s of work (timeout)'
        )

    def _may_have_acted(self, key: str) -> bool:
        """Return whether the attempt started a `once` call, so that the attempt must not be repeated."""
        return any(
            record.started is not None and record.started.effect == "once"
            for call, record in self.scope.log.run.calls.items()
            if keys.is_within_attempt(call, key)
        )

    def _failed(self, error: NodeFailed) -> Ended | StepFailed:
        goes_on = not isinstance(self.spec, ParallelNode) and self.spec.on_error == "continue"
        if error.fatal or not goes_on:
            return StepFailed(error=error.fault)
        return self._goes_on(error, NodeEnd(f"Error: {error}"))

    def _rejected(self, error: NodeFailed, text: str) -> Ended:
        """A failure after a rejection: end the node as rejected, without a retry."""
        return self._goes_on(error, NodeEnd(text, rejected=not _contains_rejections(self.spec)))

    def _goes_on(self, error: NodeFailed, end: NodeEnd) -> Ended:
        return Ended(in_place_of_answer(self.scope, self.spec, self.message, end), continued=error.fault)

    def _with_output(self, end: NodeEnd) -> NodeEnd:
        """Store the node's text under its `output_key`, unless it was rejected or has none.

        A node that leaves a loop without a text, and works on the value under its key, is content with this
        value. So it is the answer, and not the remark of a node before it. If others only read what the node
        stores, it is a critic, and the answer is the text before it.
        """
        key = self.spec.output_key
        if key is None or end.rejected:
            return end
        if end.text.strip():
            return attrs.evolve(end, writes={**end.writes, key: end.text})
        if end.exited and works_on_its_key(self.spec, self.scope.services.config.agent):
            return attrs.evolve(end, text=self.message.session.get(key, ""))
        return end

    def state_set(self, outcome: Ended | StepFailed) -> Sequence[e.LogEvent]:
        key = self.spec.output_key
        if key is None or isinstance(outcome, StepFailed) or not outcome.end.text:
            return ()
        if outcome.end.writes.get(key) != outcome.end.text:
            return ()
        return (e.StateSet(key, outcome.end.writes[key], self.spec.name),)


def in_place_of_answer(scope: RunScope, spec: Node, execute: Execute, end: NodeEnd) -> NodeEnd:
    """The end of a node that has failed, while the nodes above go on: `end` is stored like an answer, and the
    values that nodes below it have stored are kept."""
    made: dict[str, str] = {}
    for key, done in scope.log.run.steps.items():
        if keys.is_within(key, execute.key) and isinstance(done.outcome, Ended):
            made.update(done.outcome.end.writes)
    if spec.output_key is not None and not end.rejected:
        made[spec.output_key] = end.text
    return attrs.evolve(end, writes=made)


def rejection(scope: RunScope, spec: Node, execute: Execute, key: str) -> str | None:
    """Return the answer of a node after the rejection or expiry that prevents further steps in this execution
    of it, or None.

    It rejects a call or checkpoint at or below the node, the call that one there repeats, or something in the
    task of an agent that is called there; it ends a sequential node or loop above, and is contained by no
    node below this one. It is found in the record alone, because an error may have stopped the node that
    would have reported it."""
    for place, text in _rejections(scope):
        if not keys.is_within(place, key):
            continue
        above, node = [], spec
        for index in keys.places(place)[len(execute.path) :]:
            above.append(node)
            node = children_of(node)[index]
        ends = execute.policy_scope.ends_on_reject or any(isinstance(each, OrderedNode) for each in above)
        if ends and not any(_contains_rejections(each) for each in above[1:]):
            return text
    return None


def _rejections(scope: RunScope) -> Iterator[tuple[str, str]]:
    """The keys of what was rejected in the run, with the answers of the nodes that end."""
    run = scope.log.run
    for id, decision in run.decisions.items():
        if decision.rejects or (isinstance(decision, Expired) and decision.fails):
            yield scope.log.state.approvals[id].asked.key, _answer(decision)
    for key, record in run.calls.items():
        if record.repeats is not None:
            yield key, _answer(run.decisions[record.repeats])
        elif record.rejected:  # perhaps at the called agent, so that this run has no decision
            yield key, CANCELLED


def _answer(decision: Decided) -> str:
    return EXPIRED if isinstance(decision, Expired) else CANCELLED


def _contains_rejections(node: Node) -> bool:
    return isinstance(node, OrderedNode) and node.on_reject == "continue"
