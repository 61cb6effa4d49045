"""The thread of an agent: it runs a trio loop, in which other threads call the agent.

Each call runs as a task of that loop; cancelling the call cancels the task. The caller gets a
`concurrent.futures.Future`, which both a thread and an asyncio task can wait for. Calls are not queued.
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
from ..agent.agent import Agent
from ..common.errors import AgentError, shutting_down
from ..common.server_host import ServerHost, own_loop, server_host

P = ParamSpec("P")
T = TypeVar("T")

Source: TypeAlias = Callable[[Agent], AbstractAsyncContextManager[AsyncIterator[T]]]
"""Opens a stream of the agent, in the thread of the agent."""

READ_AHEAD = 64
"""Maximum number of items that a stream reads ahead, in addition to the agent's own buffers."""
RETURN_GRACE = 0.2
"""Seconds that calls have to return after the agent has ended."""
EXIT_CHECK_INTERVAL = 0.5
"""Seconds between checks whether the main thread has ended without closing the agent."""
SIGNAL_CHECK_INTERVAL = 0.5
"""Seconds between checks of a waiting main thread for a signal that has not woken it."""

logger = logging.getLogger(__name__)


class AgentThread:
    """Runs one agent. Its public methods may be called from any thread."""

    def __init__(self, opening: AbstractAsyncContextManager[Agent], host: ServerHost = own_loop) -> None:
        """
        Args:
            opening: the result of `open_agent(...)`, not entered yet.
            host: where the tool servers run that the program brings.
        """
        self._opening = opening
        self._host = host
        self.opened: Future[Agent] = Future()
        """Resolves to the open agent, or fails with the error of opening it."""
        self.ended: Future[None] = Future()
        """Resolves at the end of the thread. Never fails."""
        self.failure: BaseException | None = None
        """The error that ended an open agent."""
        # Not a daemon: at exit the interpreter waits for it, so that calls in flight get the grace period.
        self._thread = threading.Thread(target=self._run, name="stopgo agent", daemon=False)
        self._token: trio.lowlevel.TrioToken | None = None
        self._open_calls: set[Future[Any]] = set()
        self._stops = 0
        """The number of calls of `stop`."""
        # Used in the loop only:
        self._stop = trio.Event()
        self._scope = trio.CancelScope()
        self._agent_ended = trio.Event()
        """Set when the agent has ended."""
        self._calls: trio.Nursery | None = None
        """The nursery of the calls while the agent is open."""

    def start(self) -> None:
        """Start the thread. `opened` and `ended` report its progress."""
        self._thread.start()

    def stop(self) -> None:
        """Begin to stop the agent within its grace period. A second call, or a call before the agent is open,
        stops it immediately. Does not wait.
        """
        self._stops += 1
        self.call_soon(self._apply_stop)

    def join(self) -> None:
        """Wait for the end of the thread. Can be interrupted and called again."""
        if self._thread.is_alive():
            result_of(self.ended)  # up to Python 3.12, an interrupted `Thread.join` marks the thread as ended
            self._thread.join()

    def is_alive(self) -> bool:
        """Whether the thread is running. False in a forked process."""
        return self._thread.is_alive()

    def is_current(self) -> bool:
        """Whether the caller runs in this thread, which must not wait for itself."""
        return threading.current_thread() is self._thread

    def submit(
        self,
        function: Callable[Concatenate[Agent, P], Awaitable[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Future[T]:
        """Call an async function with the agent, in its thread. Cancelling the future cancels the call.

        The future raises the error of the function, or `AgentError` ``shutting_down`` if the agent has
        stopped, with the failure of the agent, if any, as its cause.
        """
        future: Future[T] = Future()
        self._open_calls.add(future)
        future.add_done_callback(self._open_calls.discard)
        if not self.call_soon(self._begin, future, lambda agent: function(agent, *args, **kwargs)):
            _fail(future, self._refusal())
        return future

    def call_soon(self, function: Callable[..., object], *args: Any) -> bool:
        """Call a function in the loop. Return False if no loop is running, as in a forked child."""
        if self._token is None or not self._thread.is_alive():
            return False
        try:
            self._token.run_sync_soon(function, *args)
        except trio.RunFinishedError:
            return False
        return True

    def _refusal(self) -> AgentError:
        """Return the error for a call made after the end of the agent."""
        error = shutting_down(accepted=False)
        error.__cause__ = self.failure
        return error

    def _cut_off(self, error: BaseException | None = None) -> AgentError:
        """Return the error for a call that was running when the agent ended. `error`: the error of the call,
        possibly a consequence of that end."""
        text = "the agent has stopped; a command that was stored continues at the next start"
        cut_off = AgentError("shutting_down", text, hint="Repeat a command with the same key.")
        cut_off.__cause__ = self.failure or error
        return cut_off

    # ------------------------------------------------------------- in the thread

    def _run(self) -> None:
        server_host.set(self._host)
        try:
            trio.run(self._serve, clock=ProcessClock())
        except BaseException as error:
            # Nothing could catch it here. The block that opened the agent raises it in its own thread.
            self._end_by(error)
        finally:
            for call in list(self._open_calls):
                _fail(call, self._cut_off())
            _fail(self.opened, self._refusal())
            _set(self.ended, None)

    async def _serve(self) -> None:
        with self._scope:
            self._token = trio.lowlevel.current_trio_token()
            self._apply_stop()
            async with trio.open_nursery() as calls:
                calls.start_soon(self._watch_program)
                try:
                    async with self._opening as agent:
                        self._calls = calls
                        _set(self.opened, agent)
                        await self._stop.wait()
                except Exception as error:
                    self._end_by(error)
                finally:
                    self._calls = None
                    self._agent_ended.set()
                    # Calls may outlive the agent briefly, so that they can return the outcome of their
                    # command.
                    calls.cancel_scope.deadline = trio.current_time() + RETURN_GRACE

    def _end_by(self, error: BaseException) -> None:
        if not self.opened.done():
            _fail(self.opened, error)
        elif self.failure is None:
            self.failure = error
            logger.critical("the agent has stopped: %s", error, exc_info=error)

    def _apply_stop(self) -> None:
        if self._stops:
            self._stop.set()
        if self._stops > 1 or (self._stops and self._calls is None):
            self._scope.cancel()

    async def _watch_program(self) -> None:
        """Stop the agent when the main thread has ended, because the interpreter then waits for this
        thread."""
        while threading.main_thread().is_alive():
            with trio.move_on_after(EXIT_CHECK_INTERVAL):
                await self._agent_ended.wait()
                return
        self._stops = max(1, self._stops)
        self._apply_stop()

    def _begin(self, future: Future[T], function: Callable[[Agent], Awaitable[T]]) -> None:
        if self._calls is None:
            _fail(future, self._refusal())
        elif not future.cancelled():
            self._calls.start_soon(self._carry_out, future, function)

    async def _carry_out(self, future: Future[T], function: Callable[[Agent], Awaitable[T]]) -> None:
        with trio.CancelScope() as scope:

            def cancel_task(done: Future[T]) -> None:
                if done.cancelled():
                    self.call_soon(scope.cancel)

            future.add_done_callback(cancel_task)
            try:
                _set(future, await function(self.opened.result()))
            except AgentError as error:
                _fail(future, error)
            except Exception as error:
                # After the end of the agent, the error may come from the closed journal.
                _fail(future, self._cut_off(error) if self._agent_ended.is_set() else error)
            except BaseException:
                _fail(future, self._cut_off())
                raise


class ThreadStream(Generic[T]):
    """A stream of the agent, read in batches by one reader in another thread.

    A task in the agent's thread reads up to `READ_AHEAD` items ahead, until the stream ends or is closed. The
    reader also gets the items that were read before the end of the agent.
    """

    def __init__(self, thread: AgentThread, source: Source[T]) -> None:
        self.opened: Future[None] = Future()
        """Resolves when the stream is open, or fails with the error of opening it."""
        self._thread = thread
        # Reentrant, because the garbage collector can close a stream anywhere, also inside `_hand_over`.
        self._lock = threading.RLock()
        self._items: list[T] = []
        self._reader: Future[list[T]] | None = None
        self._freed = trio.Event()
        self._ended = False
        self._reading = thread.submit(partial(self._read, source))
        self._reading.add_done_callback(self._end)

    def take(self) -> Future[list[T]]:
        """Return the next items; an empty list at the end of the stream."""
        taken: Future[list[T]] = Future()
        with self._lock:
            self._reader = taken
        self._hand_over()
        return taken

    def raise_error(self) -> None:
        """Raise the error that ended the stream, if any. Call it after `take` returned no items. The end of
        the agent is an error only if the stream was not open yet."""
        error = None if self._reading.cancelled() else self._reading.exception()
        is_end = isinstance(error, AgentError) and error.code == "shutting_down"
        if error is not None and not (is_end and self.opened.exception() is None):
            raise error

    def close(self) -> None:
        """Stop reading. Does not wait, so that the finalizer of a generator may call it."""
        self._reading.cancel()

    async def _read(self, source: Source[T], agent: Agent) -> None:
        async with source(agent) as items:
            _set(self.opened, None)
            async for item in items:
                while len(self._items) >= READ_AHEAD:
                    self._freed = trio.Event()
                    await self._freed.wait()
                with self._lock:
                    self._items.append(item)
                self._hand_over()

    def _end(self, reading: Future[None]) -> None:
        if not reading.cancelled() and (error := reading.exception()) is not None:
            _fail(self.opened, error)
        _set(self.opened, None)
        self._ended = True
        self._hand_over()

    def _hand_over(self) -> None:
        """Give the reader the items that were read. May be called in any thread."""
        reader, taken = None, []
        with self._lock:
            if self._items or self._ended:
                reader, self._reader = self._reader, None
            if reader is not None:
                taken, self._items = self._items, []
        if reader is not None:
            _set(reader, taken)
            self._thread.call_soon(self._free)

    def _free(self) -> None:
        self._freed.set()


def result_of(future: Future[T]) -> T:
    """Wait for a result. A signal ends the wait also if another thread received it, or if it came just before
    the wait began: neither wakes the main thread, in which Python handles signals."""
    while not future.done():
        with suppress(TimeoutError):
            future.exception(SIGNAL_CHECK_INTERVAL)
    return future.result()


def _set(future: Future[T], result: T) -> None:
    """Set the result, unless the future is done."""
    with suppress(InvalidStateError):
        future.set_result(result)


def _fail(future: Future[Any], error: BaseException) -> None:
    """Set the error, unless the future is done."""
    with suppress(InvalidStateError):
        future.set_exception(error)
