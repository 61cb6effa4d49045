"""An agent for programs without an event loop: every call blocks until it returns."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Generator,
    Iterator,
)
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar, overload

from ...config.sections.agent_config import AgentConfig
from ...runtime.journal.protocol import Event
from ..agent.agent import Agent
from ..agent.lists import ListedTool
from ..agent.watch import Watched
from ..gate.halt import HaltState
from ..log.words.deltas import AnyDelta
from ..servers.health import Health
from .agent_thread import AgentThread, ThreadStream, result_of

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def blocking(opening: AbstractAsyncContextManager[Agent]) -> Iterator[BlockingAgent]:
    """Run an agent in a thread of its own for the length of the block, for a program that may block.

        with blocking(open_agent(config)) as agent:
            turn = agent.start_conversation("list all resources")

    Leaving the block stops the agent within `config.shutdown_grace` seconds, or immediately after Ctrl-C.
    Raises the errors of `open_agent`, and the error of an agent that fails while it runs.
    """
    thread = AgentThread(opening)
    ended = False
    try:
        thread.start()
        yield BlockingAgent(thread, result_of(thread.opened))
        ended = True
    except Exception:
        ended = True
        raise
    finally:
        _close(thread)
        if ended and thread.failure is not None:
            raise thread.failure


def _close(thread: AgentThread) -> None:
    """Stop the agent and wait for its end. An interruption stops it immediately, and is raised after the
    end."""
    try:
        thread.stop()
        thread.join()
    except BaseException:
        thread.stop()
        thread.join()
        raise


def _blocking(
    method: Callable[Concatenate[Agent, P], Awaitable[T]],
) -> Callable[Concatenate[BlockingAgent, P], T]:
    @wraps(method)
    def call(self: BlockingAgent, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._wait(self._thread.submit(method, *args, **kwargs))

    return call


class BlockingAgent:
    """An agent in a thread of its own, with the methods of `Agent`. Any other thread may use it.

    Each method returns and raises the same as the method of `Agent`. Ctrl-C ends only the wait. After the end
    of the agent, every method raises `AgentError` ``shutting_down``.
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

    start_conversation = _blocking(Agent.start_conversation)
    post_conversation = _blocking(Agent.post_conversation)
    send = _blocking(Agent.send)
    post = _blocking(Agent.post)
    decide = _blocking(Agent.decide)
    post_decision = _blocking(Agent.post_decision)
    look_at = _blocking(Agent.look_at)
    cancel = _blocking(Agent.cancel)
    complete = _blocking(Agent.complete)
    resume = _blocking(Agent.resume)
    post_token = _blocking(Agent.post_token)
    accept_tool = _blocking(Agent.accept_tool)
    halt = _blocking(Agent.halt)
    unhalt = _blocking(Agent.unhalt)
    delete = _blocking(Agent.delete)
    get = _blocking(Agent.get)
    log_end = _blocking(Agent.log_end)
    inbox = _blocking(Agent.inbox)
    conversations = _blocking(Agent.conversations)
    approvals = _blocking(Agent.approvals)
    approval = _blocking(Agent.approval)
    ids_beginning = _blocking(Agent.ids_beginning)
    title = _blocking(Agent.title)
    precedents = _blocking(Agent.precedents)
    fleet = _blocking(Agent.fleet)
    policies = _blocking(Agent.policies)
    policy_uses = _blocking(Agent.policy_uses)
    policy_report = _blocking(Agent.policy_report)
    recorded_calls = _blocking(Agent.recorded_calls)
    notifications = _blocking(Agent.notifications)
    notifications_about = _blocking(Agent.notifications_about)
    retry_notification = _blocking(Agent.retry_notification)
    test_channel = _blocking(Agent.test_channel)
    readiness = _blocking(Agent.readiness)

    def tools(self) -> tuple[ListedTool, ...]:
        """See `Agent.tools`."""
        return self._wait(self._thread.submit(tools))

    def health(self) -> Health:
        """See `Agent.health`."""
        return self._wait(self._thread.submit(health))

    def halt_state(self) -> HaltState:
        """See `Agent.halt_state`."""
        return self._wait(self._thread.submit(halt_state))

    @property
    def warnings(self) -> tuple[str, ...]:
        """See `Agent.warnings`."""
        return self._wait(self._thread.submit(warnings))

    @overload
    def events(self, id: str, after: int = 0) -> Generator[Event, None, None]: ...
    @overload
    def events(self, id: str, after: int = 0, *, deltas: bool) -> Generator[Event | AnyDelta, None, None]: ...
    def events(
        self, id: str, after: int = 0, *, deltas: bool = False
    ) -> Generator[Event | AnyDelta, None, None]:
        """Iterate over the events of a conversation; see `Agent.events`."""
        stream = ThreadStream(self._thread, lambda agent: aclosing(agent.events(id, after, deltas=deltas)))
        try:
            yield from self._items(stream)
        finally:
            stream.close()

    @contextmanager
    def all_events(
        self,
        *,
        statuses: Collection[str] = (),
        types: Collection[str] = (),
        conversations: Collection[str] = (),
        deltas: bool = False,
    ) -> Iterator[Iterator[Watched]]:
        """Watch the events of all conversations from now on; see `Agent.all_events`."""
        stream = ThreadStream(self._thread, all_events(statuses, types, conversations, deltas))
        try:
            self._wait(stream.opened)
            yield self._items(stream)
        finally:
            stream.close()

    def _items(self, stream: ThreadStream[T]) -> Iterator[T]:
        while taken := self._wait(stream.take()):
            yield from taken
        stream.raise_error()

    def _wait(self, future: Future[T]) -> T:
        try:
            if self._thread.is_current():
                raise RuntimeError("cannot wait for the agent in its own thread: call it from another thread")
            return result_of(future)
        except BaseException:
            future.cancel()
            raise


# ------------------------------------------------------ methods of `Agent` as async functions


async def tools(agent: Agent) -> tuple[ListedTool, ...]:
    """See `Agent.tools`."""
    return agent.tools()


async def health(agent: Agent) -> Health:
    """See `Agent.health`."""
    return agent.health()


async def halt_state(agent: Agent) -> HaltState:
    """See `Agent.halt_state`."""
    return agent.halt_state()


async def warnings(agent: Agent) -> tuple[str, ...]:
    """See `Agent.warnings`."""
    return agent.warnings


def all_events(
    statuses: Collection[str], types: Collection[str], conversations: Collection[str], deltas: bool
) -> Callable[[Agent], AbstractAsyncContextManager[AsyncIterator[Watched]]]:
    """See `Agent.all_events`."""

    @asynccontextmanager
    async def watching(agent: Agent) -> AsyncGenerator[AsyncIterator[Watched], None]:
        with agent.all_events(
            statuses=statuses, types=types, conversations=conversations, deltas=deltas
        ) as live:
            yield live

    return watching
