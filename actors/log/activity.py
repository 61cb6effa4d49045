"""Which branches of a run can move by themselves.

Rule: every branch counts as active, except while it waits for somebody outside the run, or for a turn that
only such a branch can give it. All concurrency of a run goes through `gather` and every such wait releases
its branch and is resumed by whoever ends the wait, without a checkpoint in between. So zero active branches
means exactly that nothing but somebody outside can move the run on.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeAlias, TypeVar

import attrs
import trio


@attrs.define(eq=False)
class Pulse:
    """How many runs of this process can move by themselves: a shutdown waits until there are none."""

    draining: trio.Event = attrs.field(factory=trio.Event)
    """Set when shutdown began: no new step starts."""
    moving: int = 0
    _still: trio.Event = attrs.field(factory=trio.Event)

    def beat(self, change: int) -> None:
        self.moving += change
        if not self.moving:
            self._still.set()
            self._still = trio.Event()

    async def still(self) -> None:
        """Return when nothing moves by itself."""
        while self.moving:
            await self._still.wait()


@attrs.define(eq=False)
class Meter:
    """Bounds the work of one piece of a run: its `scope` is cancelled once `limit` seconds are worked.

    Time counts as work while at least one branch can move by itself, not while all wait for people.
    A meter starts with one branch that can move, and with the seconds that an earlier life worked.
    """

    limit: float
    _worked: float = 0.0
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    _active: int = 0
    _since: float = 0.0

    def __attrs_post_init__(self) -> None:
        self.add(1)

    @property
    def worked(self) -> float:
        """Seconds so far."""
        return self._worked + (trio.current_time() - self._since if self._active else 0.0)

    def add(self, branches: int) -> None:
        """So many more branches can move; fewer, when negative."""
        before = self._active
        self._active += branches
        if not before and self._active:
            self._since = trio.current_time()
            self.scope.deadline = self._since + self.limit - self._worked
        elif before and not self._active:
            self._worked += trio.current_time() - self._since
            self.scope.deadline = math.inf


T = TypeVar("T")

Job: TypeAlias = Callable[[], Awaitable[T]]

Meters: TypeAlias = tuple[Meter, ...]
"""Those of the nodes a branch is in: they do not run while it waits for somebody outside."""


@attrs.define(eq=False)
class Turns:
    """Lets so many branches through at a time, first come first served."""

    free: int
    _queue: deque[tuple[trio.Event, Meters]] = attrs.field(factory=deque)


@attrs.define(eq=False, kw_only=True)
class Branches:
    """The branches of one run, counted."""

    pulse: Pulse
    _active: int = 0
    _parked: int = 0
    """Branches that a shutdown keeps from going on."""
    _held: int = 0
    """Branches that wait for somebody outside in the middle of something that is lost with this process."""
    _quiet: trio.Event = attrs.field(factory=trio.Event)
    _on_stall: Callable[[], None] | None = None

    @property
    def active(self) -> int:
        """Branches that can move by themselves."""
        return self._active

    @property
    def held(self) -> bool:
        """Something is lost when the run leaves memory, although nothing in it moves by itself."""
        return bool(self._held)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep the run in memory for the length of the block; a shutdown gives it the grace, too."""
        self._held += 1
        self.pulse.beat(+1)
        try:
            yield
        finally:
            self._held -= 1
            self.pulse.beat(-1)

    @property
    def still(self) -> bool:
        """No branch can move by itself, and none would but for a shutdown."""
        return not self._active and not self._parked

    @property
    def stalled(self) -> bool:
        """Only somebody outside can move the run on, and nobody was told yet."""
        return self.still

    def begin(self, on_stall: Callable[[], None]) -> None:
        """A run starts to move, in this life; `on_stall` is called whenever it is `stalled`."""
        self._active = 0
        self._on_stall = on_stall
        self.resume()

    def end(self) -> None:
        """The run does not move any more, in this life."""
        self._on_stall = None
        while self._active:
            self.release()

    async def quiet(self) -> None:
        """Return when no branch can move by itself."""
        while self._active:
            await self._quiet.wait()

    def resume(self, meters: Meters = ()) -> None:
        """A branch can move again."""
        for meter in meters:
            meter.add(1)
        self._active += 1
        if self._active == 1:
            self.pulse.beat(+1)

    def release(self, meters: Meters = ()) -> None:
        """A branch cannot move by itself any more, or has ended."""
        for meter in meters:
            meter.add(-1)
        self._active -= 1
        if not self._active:
            self.pulse.beat(-1)
            self._quiet.set()
            self._quiet = trio.Event()
            if self._on_stall is not None and self.stalled:
                self._on_stall()

    async def park(self, meters: Meters) -> None:
        """Stay where a shutdown found this branch, until it is cancelled."""
        self._parked += 1
        self.release(meters)
        try:
            await trio.sleep_forever()
        finally:
            self._parked -= 1
            self.resume(meters)

    async def gather(self, *jobs: Job[T], meters: Meters = ()) -> list[T]:
        """Run jobs side by side; results in the order of the jobs. The first error cancels the others."""
        if len(jobs) < 2:
            return [await job() for job in jobs]
        results: dict[int, T] = {}
        left = len(jobs)
        failed = False

        async def one(index: int, job: Job[T]) -> None:
            # One branch hands its place to the parent: the first that fails, for that moves the run on,
            # else the last.
            nonlocal left, failed
            hands_on = False
            try:
                results[index] = await job()
            except Exception:
                hands_on, failed = not failed, True
                raise
            finally:
                left -= 1
                if not hands_on and (left or failed):
                    self.release(meters)

        self._active += len(jobs) - 1
        for meter in meters:
            meter.add(len(jobs) - 1)
        try:
            async with trio.open_nursery() as nursery:
                for index, job in enumerate(jobs):
                    nursery.start_soon(one, index, job)
        except BaseExceptionGroup as group:
            errors = group.split(trio.Cancelled)[1]  # an error counts, also while the run is being stopped
            if not isinstance(errors, ExceptionGroup):
                raise
            error = first_leaf(errors)
            raise error from error.__cause__  # whose cause says what it means for the run
        return [results[index] for index in range(len(jobs))]

    @asynccontextmanager
    async def turn(self, turns: Turns, meters: Meters) -> AsyncIterator[None]:
        """Hold one of `turns` for the length of the block. Waiting for it does not count as being active:
        who holds it may wait for a human."""
        if turns.free:
            turns.free -= 1
        else:
            await self._queue_for(turns, meters)
        try:
            yield
        finally:
            self._hand_on(turns)

    async def _queue_for(self, turns: Turns, meters: Meters) -> None:
        place = (trio.Event(), meters)
        turns._queue.append(place)
        self.release(meters)
        try:
            await place[0].wait()
        except trio.Cancelled:
            if place in turns._queue:
                turns._queue.remove(place)
                self.resume(meters)
            else:
                self._hand_on(turns)
            raise

    def _hand_on(self, turns: Turns) -> None:
        if turns._queue:
            ready, meters = turns._queue.popleft()
            self.resume(meters)  # here and not in the waiter: in between the run would look idle
            ready.set()
        else:
            turns.free += 1


def first_leaf(error: BaseException) -> BaseException:
    """The first error in a group of groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
