"""The thread of an agent: a trio loop of its own, and calls that other threads make there.

A call is a task of the loop, for as long as its caller waits for it, so there is no queue and nothing to
bound: a caller that gives up cancels its task. Each call comes back as a `concurrent.futures.Future`, for
which both a thread and an asyncio task know how to wait.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import Any, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar

import trio

from ...runtime.clock import ProcessClock
from ..agent import Agent
from ..common.errors import AgentError, shutting_down

P = ParamSpec("P")
T = TypeVar("T")

Source: TypeAlias = Callable[[Agent], AbstractAsyncContextManager[AsyncIterator[T]]]
"""Opens a stream of the agent's, in its thread."""

AHEAD = 64
"""Items of a stream that are read before their reader asks for them; the agent's own bounds come behind."""
ENDING = 0.2
"""Seconds that calls get to learn that the agent has ended."""
NAP = 0.5
"""Seconds between two looks at whether the program has come to its end without closing the agent."""

logger = logging.getLogger(__name__)


class AgentThread:
    """Runs one agent. Its public methods may be called from any thread."""

    def __init__(self, opening: AbstractAsyncContextManager[Agent]) -> None:
        """
        Args:
            opening: the result of `open_agent(...)`, not entered yet.
        """
        self._opening = opening
        self.opened: Future[Agent] = Future()
        """The agent, once it is open; fails with the error that kept it from opening."""
        self.ended: Future[None] = Future()
        """Done when the thread has nothing left to do. Never fails."""
        self.failure: BaseException | None = None
        """The error that an open agent ended with."""
        # The interpreter waits for the thread at its exit, so work in flight then gets the grace period, too.
        self._thread = threading.Thread(target=self._run, name="stopgo agent", daemon=False)
        self._token: trio.lowlevel.TrioToken | None = None
        self._open: set[Future[Any]] = set()
        self._asked = 0
        """How often `stop` was called."""
        # Of the loop:
        self._stop = trio.Event()
        self._scope = trio.CancelScope()
        self._over = trio.Event()
        """Set when the agent has ended."""
        self._calls: trio.Nursery | None = None
        """Where calls run, while there is an agent."""

    def start(self) -> None:
        """Start the thread; `opened` and `ended` say how it goes on."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the agent to stop within its grace period; asked again, or before it is open, it stops at once.

        Does not wait.
        """
        self._asked += 1
        self.soon(self._heed)

    def join(self) -> None:
        """Wait for the end of the thread. May be interrupted, and called again."""
        if self._thread.is_alive():
            self.ended.result()  # an interrupted `Thread.join` takes the thread for ended, up to Python 3.12
            self._thread.join()

    def is_alive(self) -> bool:
        """Whether the thread runs; false in a forked process."""
        return self._thread.is_alive()

    def is_current(self) -> bool:
        """Whether this is called in the thread itself, which cannot wait for itself."""
        return threading.current_thread() is self._thread

    def submit(
        self,
        function: Callable[Concatenate[Agent, P], Awaitable[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Future[T]:
        """Call an async function with the agent, in its thread. Cancelling the future cancels the call.

        The future raises what the function raises, and `AgentError` ``shutting_down`` when the agent has
        stopped; the failure of the agent, if there was one, is the cause of that error.
        """
        future: Future[T] = Future()
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        if not self.soon(self._begin, future, lambda agent: function(agent, *args, **kwargs)):
            _fail(future, self._refusal())
        return future

    def soon(self, function: Callable[..., object], *args: Any) -> bool:
        """Have the loop call a function. False when no loop runs, as in a child after a fork."""
        if self._token is None or not self._thread.is_alive():
            return False
        try:
            self._token.run_sync_soon(function, *args)
        except trio.RunFinishedError:
            return False
        return True

    def _refusal(self) -> AgentError:
        """The error of a call that comes too late."""
        error = shutting_down(accepted=False)
        error.__cause__ = self.failure
        return error

    def _cut_off(self, error: BaseException | None = None) -> AgentError:
        """The error of a call that had begun when the agent ended. That end may have caused `error`."""
        text = "the agent has stopped; a command goes on at the next start if it was stored by then"
        cut_off = AgentError("shutting_down", text, hint="Repeat a command with the same key.")
        cut_off.__cause__ = self.failure or error
        return cut_off

    # ------------------------------------------------------------- in the thread

    def _run(self) -> None:
        try:
            trio.run(self._serve, clock=ProcessClock())
        except BaseException as error:
            # No frame is above this one; the end of the block raises the error in the program's thread.
            self._end_by(error)
        finally:
            for call in list(self._open):
                _fail(call, self._cut_off())
            _fail(self.opened, self._refusal())
            _settle(self.ended, None)

    async def _serve(self) -> None:
        with self._scope:
            self._token = trio.lowlevel.current_trio_token()
            self._heed()
            async with trio.open_nursery() as calls:
                calls.start_soon(self._watch_program)
                try:
                    async with self._opening as agent:
                        self._calls = calls
                        _settle(self.opened, agent)
                        await self._stop.wait()
                except Exception as error:
                    self._end_by(error)
                finally:
                    self._calls = None
                    self._over.set()
                    # Calls outlive the agent: it tells each of them what became of its command.
                    calls.cancel_scope.deadline = trio.current_time() + ENDING

    def _end_by(self, error: BaseException) -> None:
        if not self.opened.done():
            _fail(self.opened, error)
        elif self.failure is None:
            self.failure = error
            logger.critical("the agent has stopped: %s", error, exc_info=error)

    def _heed(self) -> None:
        if self._asked:
            self._stop.set()
        if self._asked > 1 or (self._asked and self._calls is None):
            self._scope.cancel()

    async def _watch_program(self) -> None:
        """Stop when the main thread has ended: the interpreter then waits for this one."""
        while threading.main_thread().is_alive():
            with trio.move_on_after(NAP):
                await self._over.wait()
                return
        self._asked = max(1, self._asked)
        self._heed()

    def _begin(self, future: Future[T], function: Callable[[Agent], Awaitable[T]]) -> None:
        if self._calls is None:
            _fail(future, self._refusal())
        elif not future.cancelled():
            self._calls.start_soon(self._carry_out, future, function)

    async def _carry_out(self, future: Future[T], function: Callable[[Agent], Awaitable[T]]) -> None:
        with trio.CancelScope() as scope:

            def give_up(done: Future[T]) -> None:
                if done.cancelled():
                    self.soon(scope.cancel)

            future.add_done_callback(give_up)
            try:
                _settle(future, await function(self.opened.result()))
            except AgentError as error:
                _fail(future, error)
            except Exception as error:
                over = self._over.is_set()  # and with the agent its journal
                _fail(future, self._cut_off(error) if over else error)
            except BaseException:
                _fail(future, self._cut_off())
                raise


class Stream(Generic[T]):
    """A stream of the agent's, read in another thread a batch at a time. For one reader.

    A task of the agent's thread reads ahead, at most `AHEAD` items, until the stream ends or is closed. The
    reader gets what was read also after the end of the agent.
    """

    def __init__(self, thread: AgentThread, source: Source[T]) -> None:
        self.begun: Future[None] = Future()
        """Done when the stream is open; fails with the error that kept it from opening."""
        self._thread = thread
        # The collector may drop a stream, and so close it, wherever it runs: while it hands over, too.
        self._lock = threading.RLock()
        self._items: list[T] = []
        self._reader: Future[list[T]] | None = None
        self._freed = trio.Event()
        self._ended = False
        self._reading = thread.submit(partial(self._read, source))
        self._reading.add_done_callback(self._end)

    def take(self) -> Future[list[T]]:
        """The next items; none when the stream is over."""
        taken: Future[list[T]] = Future()
        with self._lock:
            self._reader = taken
        self._hand_over()
        return taken

    def over(self) -> None:
        """To be called when `take` brought nothing. Raises the error of the stream: that the agent has ended
        only if the stream had not begun."""
        error = None if self._reading.cancelled() else self._reading.exception()
        is_end = isinstance(error, AgentError) and error.code == "shutting_down"
        if error is not None and not (is_end and self.begun.exception() is None):
            raise error

    def close(self) -> None:
        """Stop reading. Waits for nothing, so a generator that is dropped may call it."""
        self._reading.cancel()

    async def _read(self, source: Source[T], agent: Agent) -> None:
        async with source(agent) as items:
            _settle(self.begun, None)
            async for item in items:
                while len(self._items) >= AHEAD:
                    self._freed = trio.Event()
                    await self._freed.wait()
                with self._lock:
                    self._items.append(item)
                self._hand_over()

    def _end(self, reading: Future[None]) -> None:
        if not reading.cancelled() and (error := reading.exception()) is not None:
            _fail(self.begun, error)
        _settle(self.begun, None)
        self._ended = True
        self._hand_over()

    def _hand_over(self) -> None:
        """Give the reader the items that are there. Called in the thread that changed something."""
        reader, taken = None, []
        with self._lock:
            if self._items or self._ended:
                reader, self._reader = self._reader, None
            if reader is not None:
                taken, self._items = self._items, []
        if reader is not None:
            _settle(reader, taken)
            self._thread.soon(self._free)

    def _free(self) -> None:
        self._freed.set()


def _settle(future: Future[T], result: T) -> None:
    """Unless it is settled or cancelled."""
    with suppress(InvalidStateError):
        future.set_result(result)


def _fail(future: Future[Any], error: BaseException) -> None:
    """Unless it is settled or cancelled."""
    with suppress(InvalidStateError):
        future.set_exception(error)
