"""The branches of a run: which of them are active, how long they have worked, how many run at a time, and
their waits for humans: for the end of an approval, and for a token.

The log has to know when a run is blocked, that is, when only a human or a token can move it on: then the
senders are answered and the conversation may leave memory. `Branches` counts the active branches for this:

    ==========================================  ===========================================================
    event                                       effect on the count
    ==========================================  ===========================================================
    `begin`: the run starts in this process     1
    `gather`: one branch becomes n              + n - 1; each branch that ends, - 1, except the one whose
                                                end lets the parent continue
    a branch starts to wait for a human, for    `release`: - 1
    a token, or for a slot of a limiter
    the wait ends                               `resume`: + 1, made by the code that ends the wait
    a shutdown stops a branch (`park`)          `release`: - 1; the run is not reported as blocked
    ==========================================  ===========================================================

`resume` is called by the code that ends the wait, without a checkpoint in between, and not by the task that
waited: until that task is scheduled, the run would look blocked although it can go on. For the same reason,
`BranchLimiter` is not a `trio.CapacityLimiter`: the code that gives a slot back must `resume` the
branch that gets it, and a `CapacityLimiter` does not tell which one that is.

A branch that waits for a model or for a tool is active.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeAlias, TypeVar

import attrs
import trio

from ...tools.needs import Wanted


@attrs.define(eq=False)
class ActiveRuns:
    """The number of runs of this process with an active branch. A shutdown waits until it is 0."""

    draining: trio.Event = attrs.field(factory=trio.Event)
    """Set when the shutdown begins: no new step starts."""
    count: int = 0
    _none: trio.Event = attrs.field(factory=trio.Event)

    def change(self, by: int) -> None:
        self.count += by
        if not self.count:
            self._none.set()
            self._none = trio.Event()

    async def wait_until_none(self) -> None:
        while self.count:
            await self._none.wait()


@attrs.define(eq=False)
class WorkTimer:
    """Limits the work time of one execution: its `scope` is cancelled after `limit` seconds of work.

    Work time passes while at least one branch of the execution is active. A timer starts with one active
    branch, and with the seconds that earlier activations of the conversation have used.
    """

    limit: float
    _before: float = 0.0
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    _active: int = 0
    _since: float = 0.0

    def __attrs_post_init__(self) -> None:
        self.add(1)

    @property
    def worked(self) -> float:
        """Seconds of work so far."""
        return self._before + (trio.current_time() - self._since if self._active else 0.0)

    def add(self, branches: int) -> None:
        """Change the number of active branches; `branches` may be negative."""
        earlier = self._active
        self._active += branches
        if not earlier and self._active:
            self._since = trio.current_time()
            self.scope.deadline = self._since + self.limit - self._before
        elif earlier and not self._active:
            self._before += trio.current_time() - self._since
            self.scope.deadline = math.inf


T = TypeVar("T")

Job: TypeAlias = Callable[[], Awaitable[T]]

WorkTimers: TypeAlias = tuple[WorkTimer, ...]
"""The timers of all nodes above a branch. They stop while the branch waits for something outside the run."""


@attrs.define(eq=False)
class BranchLimiter:
    """Lets a number of branches run at a time, in the order in which they ask (`Branches.limited`)."""

    free: int
    _queue: deque[tuple[trio.Event, WorkTimers]] = attrs.field(factory=deque)


@attrs.frozen(eq=False)
class _Wait:
    approvals: Collection[str]
    """The wait ends when the first of these is settled."""
    work_timers: WorkTimers
    ended: trio.Event = attrs.field(factory=trio.Event)


@attrs.define(eq=False, kw_only=True)
class Branches:
    """Counts the active branches of one run, and has their waits for humans."""

    active_runs: ActiveRuns
    _active: int = 0
    _parked: int = 0
    """Branches that a shutdown has stopped."""
    _kept_loaded: int = 0
    """Branches that wait for something outside the run, in a state that is lost with this process."""
    _inactive: trio.Event = attrs.field(factory=trio.Event)
    _on_blocked: Callable[[], None] | None = None
    _waiting: dict[str, _Wait] = attrs.field(factory=dict)
    """Waits for approvals, by approval."""
    _unauthorized: dict[object, tuple[Wanted, trio.Event, WorkTimers]] = attrs.field(factory=dict)
    """Waits for tokens."""

    @property
    def active(self) -> int:
        """The number of active branches."""
        return self._active

    @property
    def is_kept_loaded(self) -> bool:
        """Whether unloading the run would lose something, even if no branch is active."""
        return bool(self._kept_loaded)

    @contextmanager
    def keep_loaded(self) -> Iterator[None]:
        """Keep the run in memory during the block; a shutdown gives the block its grace period."""
        self._kept_loaded += 1
        self.active_runs.change(+1)
        try:
            yield
        finally:
            self._kept_loaded -= 1
            self.active_runs.change(-1)

    @property
    def blocked(self) -> bool:
        """Whether only a human or a token can move the run on. False if a shutdown has stopped a branch."""
        return not self._active and not self._parked

    def begin(self, on_blocked: Callable[[], None]) -> None:
        """Start a run in this process; `on_blocked` is called whenever the run becomes `blocked`."""
        self._active = 0
        self._on_blocked = on_blocked
        self.resume()

    def check_blocked(self) -> None:
        """Report a run that is still blocked: a commit resumed no branch, for instance a decision for one
        without a slot."""
        if self.blocked and self._on_blocked is not None:
            self._on_blocked()

    def end(self) -> None:
        """Stop counting: the run is no longer executed in this process."""
        self._on_blocked = None
        while self._active:
            self.release()

    async def wait_inactive(self) -> None:
        """Return when no branch is active."""
        while self._active:
            await self._inactive.wait()

    def resume(self, work_timers: WorkTimers = ()) -> None:
        """Count one more active branch."""
        for timer in work_timers:
            timer.add(1)
        self._active += 1
        if self._active == 1:
            self.active_runs.change(+1)

    def release(self, work_timers: WorkTimers = ()) -> None:
        """Count one active branch less: it waits for something outside the run, or has ended."""
        for timer in work_timers:
            timer.add(-1)
        self._active -= 1
        if not self._active:
            self.active_runs.change(-1)
            self._inactive.set()
            self._inactive = trio.Event()
            self.check_blocked()

    async def park(self, work_timers: WorkTimers) -> None:
        """Stop a branch because of a shutdown: wait until it is cancelled."""
        self._parked += 1
        self.release(work_timers)
        try:
            await trio.sleep_forever()
        finally:
            self._parked -= 1
            self.resume(work_timers)

    async def gather(self, *jobs: Job[T], work_timers: WorkTimers = ()) -> list[T]:
        """Run the jobs concurrently and return their results, in the order of the jobs.

        The first error cancels the other jobs and is raised, without a group around it.
        """
        if len(jobs) < 2:
            return [await job() for job in jobs]
        results: dict[int, T] = {}
        left = len(jobs)
        failed = False

        async def one(index: int, job: Job[T]) -> None:
            # One branch is not released, because the parent goes on in its place: the first that fails, since
            # its error ends the others; without an error, the last.
            nonlocal left, failed
            becomes_parent = False
            try:
                results[index] = await job()
            except Exception:
                becomes_parent, failed = not failed, True
                raise
            finally:
                left -= 1
                if not becomes_parent and (left or failed):
                    self.release(work_timers)

        self._active += len(jobs) - 1
        for timer in work_timers:
            timer.add(len(jobs) - 1)
        try:
            async with trio.open_nursery() as nursery:
                for index, job in enumerate(jobs):
                    nursery.start_soon(one, index, job)
        except BaseExceptionGroup as group:
            errors = group.split(trio.Cancelled)[1]  # an error counts even while the run is being cancelled
            if not isinstance(errors, ExceptionGroup):
                raise
            error = first_leaf(errors)
            raise error from error.__cause__  # the cause decides how the run ends
        return [results[index] for index in range(len(jobs))]

    @asynccontextmanager
    async def limited(self, limiter: BranchLimiter, work_timers: WorkTimers) -> AsyncIterator[None]:
        """Hold a slot of `limiter` during the block.

        A branch is not active while it waits for a slot, because the branches that have one may be waiting
        for humans.
        """
        if limiter.free:
            limiter.free -= 1
        else:
            await self._wait_for_slot(limiter, work_timers)
        try:
            yield
        finally:
            self._pass_on(limiter)

    async def _wait_for_slot(self, limiter: BranchLimiter, work_timers: WorkTimers) -> None:
        waiting = (trio.Event(), work_timers)
        limiter._queue.append(waiting)
        self.release(work_timers)
        try:
            await waiting[0].wait()
        except trio.Cancelled:
            if waiting in limiter._queue:
                limiter._queue.remove(waiting)
                self.resume(work_timers)
            else:
                self._pass_on(limiter)
            raise

    def _pass_on(self, limiter: BranchLimiter) -> None:
        """Give a slot to the next branch in the queue, or back to the limiter."""
        if limiter._queue:
            ready, work_timers = limiter._queue.popleft()
            self.resume(work_timers)
            ready.set()
        else:
            limiter.free += 1

    # -------------------------------------------------------- waits for humans

    async def wait_for_end(self, approvals: Collection[str], work_timers: WorkTimers) -> None:
        """Wait until one of these approvals is settled. The branch is not active meanwhile."""
        wait = _Wait(approvals, work_timers)
        self._waiting.update(dict.fromkeys(approvals, wait))
        self.release(work_timers)
        try:
            await wait.ended.wait()
        finally:
            if not wait.ended.is_set():  # cancelled: `end_wait` has not counted the branch
                self._forget(wait)
                self.resume(work_timers)

    def end_wait(self, approval: str) -> None:
        """End the wait for this approval, if there is one: it is settled."""
        wait = self._waiting.get(approval)
        if wait is not None:
            self._forget(wait)
            self.resume(wait.work_timers)
            wait.ended.set()

    def _forget(self, wait: _Wait) -> None:
        for approval in wait.approvals:
            del self._waiting[approval]

    async def credential(self, wanted: Wanted, work_timers: WorkTimers) -> None:
        """Wait until a command moves the run on, perhaps with a token. The branch is not active meanwhile."""
        waiter = object()
        ready = trio.Event()
        self._unauthorized[waiter] = (wanted, ready, work_timers)
        self.release(work_timers)
        try:
            await ready.wait()
        finally:
            if self._unauthorized.pop(waiter, None) is not None:
                self.resume(work_timers)

    def end_credential_waits(self) -> None:
        """End all waits for tokens: a command has moved the run on."""
        for _wanted, ready, work_timers in list(self._unauthorized.values()):
            self.resume(work_timers)
            ready.set()
        self._unauthorized.clear()

    @property
    def unauthorized(self) -> Wanted | None:
        """The token that a branch needs. Of several, one that a server demanded in a refusal comes first."""
        wanted = [each for each, _, _ in self._unauthorized.values()]
        return next((each for each in wanted if each.status), wanted[0] if wanted else None)


def first_leaf(error: BaseException) -> BaseException:
    """The first error in a group of groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
