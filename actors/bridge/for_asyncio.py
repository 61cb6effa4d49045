"""An agent for programs on asyncio: its methods are coroutines of the caller's loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from ...config.sections.agent_config import AgentConfig
from ...runtime.journal.protocol import Event
from ..agent.agent import Agent
from ..agent.lists import ListedTool
from ..agent.watch import Watched
from ..gate.halt import HaltState
from ..log.words.deltas import AnyDelta
from ..servers.health import Health
from .agent_thread import AgentThread, ThreadStream
from .blocking import BlockingAgent, all_events, halt_state, health, tools, warnings
from .caller_loop import on_loop

P = ParamSpec("P")
T = TypeVar("T")


@asynccontextmanager
async def for_asyncio(opening: AbstractAsyncContextManager[Agent]) -> AsyncIterator[AsyncioAgent]:
    """Run an agent in a thread of its own for the length of the block, for a program on asyncio.

        async with for_asyncio(open_agent(config)) as agent:
            turn = await agent.start_conversation("list all resources")

    Opening and closing the agent does not block the loop. The `servers` that the program gives to
    `open_agent` run on this loop, so their async functions use asyncio. Leaving the block stops the agent
    within `config.shutdown_grace` seconds, or immediately after a cancellation. Raises the errors of
    `open_agent`, and the error of an agent that fails while it runs.
    """
    thread = AgentThread(opening, partial(on_loop, asyncio.get_running_loop()))
    interrupted = True  # by a cancellation, for example, which the failure of the agent must not replace
    try:
        thread.start()
        yield AsyncioAgent(thread, await _shielded(thread.opened))
        interrupted = False
    except Exception:
        interrupted = False
        raise
    finally:
        await _close(thread)
        if thread.failure is not None and not interrupted:
            raise thread.failure


async def _close(thread: AgentThread) -> None:
    """Stop the agent and wait until it has ended. A cancellation of the wait stops the agent immediately, and
    is raised once it has ended."""
    thread.stop()
    if not thread.is_alive():
        return
    try:
        await _shielded(thread.ended)
    except BaseException:
        thread.stop()
        await _shielded(thread.ended)
        raise
    finally:
        if thread.ended.done():
            thread.join()


async def _shielded(future: Future[T]) -> T:
    """Wait for a future without cancelling it when the wait is cancelled."""
    return await asyncio.shield(asyncio.wrap_future(future))


def _awaited(
    method: Callable[Concatenate[Agent, P], Awaitable[T]],
) -> Callable[Concatenate[AsyncioAgent, P], Coroutine[Any, Any, T]]:
    @wraps(method)
    async def call(self: AsyncioAgent, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.wrap_future(self._thread.submit(method, *args, **kwargs))

    return call


class AsyncioAgent:
    """An agent in a thread of its own, with the methods of `Agent`, for asyncio. Several loops may use it.

    Each method returns and raises the same as the method of `Agent`. All methods except `events` and
    `all_events` are coroutines, also `tools`, `health` and `warnings`. Cancelling a call cancels only the
    wait. Once the agent has ended, every method raises `AgentError` ``shutting_down``.
    """

    def __init__(self, thread: AgentThread, agent: Agent) -> None:
        self._thread = thread
        self.config: AgentConfig = agent.config
        """The configuration of this agent."""
        self.id: str = agent.id
        """The id by which other agents recognize this agent."""
        self.started: float = agent.started
        """The time at which this process opened the agent, in UTC seconds since the epoch."""
        self.policy_revision: str = agent.policy_revision
        """The revision of the policy of new runs."""
        self.blocking: BlockingAgent = BlockingAgent(thread, agent)
        """The same agent, for functions that a framework runs in threads."""

    start_conversation = _awaited(Agent.start_conversation)
    post_conversation = _awaited(Agent.post_conversation)
    send = _awaited(Agent.send)
    post = _awaited(Agent.post)
    decide = _awaited(Agent.decide)
    post_decision = _awaited(Agent.post_decision)
    look_at = _awaited(Agent.look_at)
    cancel = _awaited(Agent.cancel)
    complete = _awaited(Agent.complete)
    resume = _awaited(Agent.resume)
    post_token = _awaited(Agent.post_token)
    accept_tool = _awaited(Agent.accept_tool)
    halt = _awaited(Agent.halt)
    unhalt = _awaited(Agent.unhalt)
    delete = _awaited(Agent.delete)
    get = _awaited(Agent.get)
    log_end = _awaited(Agent.log_end)
    inbox = _awaited(Agent.inbox)
    conversations = _awaited(Agent.conversations)
    approvals = _awaited(Agent.approvals)
    approval = _awaited(Agent.approval)
    ids_beginning = _awaited(Agent.ids_beginning)
    title = _awaited(Agent.title)
    precedents = _awaited(Agent.precedents)
    fleet = _awaited(Agent.fleet)
    policies = _awaited(Agent.policies)
    policy_uses = _awaited(Agent.policy_uses)
    policy_report = _awaited(Agent.policy_report)
    recorded_calls = _awaited(Agent.recorded_calls)
    notifications = _awaited(Agent.notifications)
    notifications_about = _awaited(Agent.notifications_about)
    retry_notification = _awaited(Agent.retry_notification)
    test_channel = _awaited(Agent.test_channel)
    readiness = _awaited(Agent.readiness)

    async def tools(self) -> tuple[ListedTool, ...]:
        """See `Agent.tools`."""
        return await asyncio.wrap_future(self._thread.submit(tools))

    async def health(self) -> Health:
        """See `Agent.health`."""
        return await asyncio.wrap_future(self._thread.submit(health))

    async def halt_state(self) -> HaltState:
        """See `Agent.halt_state`."""
        return await asyncio.wrap_future(self._thread.submit(halt_state))

    async def warnings(self) -> tuple[str, ...]:
        """See `Agent.warnings`."""
        return await asyncio.wrap_future(self._thread.submit(warnings))

    @overload
    def events(self, id: str, after: int = 0) -> AsyncGenerator[Event, None]: ...
    @overload
    def events(self, id: str, after: int = 0, *, deltas: bool) -> AsyncGenerator[Event | AnyDelta, None]: ...
    async def events(
        self, id: str, after: int = 0, *, deltas: bool = False
    ) -> AsyncGenerator[Event | AnyDelta, None]:
        """Iterate over the events of a conversation; see `Agent.events`."""
        stream = ThreadStream(self._thread, lambda agent: aclosing(agent.events(id, after, deltas=deltas)))
        try:
            async with aclosing(self._items(stream)) as items:
                async for item in items:
                    yield item
        finally:
            stream.close()

    @asynccontextmanager
    async def all_events(
        self,
        *,
        statuses: Collection[str] = (),
        types: Collection[str] = (),
        conversations: Collection[str] = (),
        deltas: bool = False,
    ) -> AsyncIterator[AsyncIterator[Watched]]:
        """Watch the events of all conversations from now on; see `Agent.all_events`."""
        stream = ThreadStream(self._thread, all_events(statuses, types, conversations, deltas))
        try:
            await asyncio.wrap_future(stream.opened)
            # Do not close the generator here, because another task may be reading it. It ends with the
            # stream.
            yield self._items(stream)
        finally:
            stream.close()

    async def _items(self, stream: ThreadStream[T]) -> AsyncGenerator[T, None]:
        while taken := await asyncio.wrap_future(stream.take()):
            for item in taken:
                yield item
        stream.raise_error()
