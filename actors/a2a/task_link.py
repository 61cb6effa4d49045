"""One task of a remote agent, from the message that begins it: sending to it, following it, reading it.

The state of the task is what it says when it is read, never what a stream said: a stream reports the id
early, and when it is time to read.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import assert_never

import attrs
import trio

from ...config.a2a import RemoteAgentConfig
from ...runtime.restart import Backoff, Streak
from ..tools.delegation import Delegate, RemoteItem, RemoteTask
from ..tools.tool import Progress, ToolOutcomeUnknown
from .agent_link import SILENCE, AgentLink, Lost, NotSent
from .remote_state import LONGEST_NAME, items_of
from .wire.a2a_errors import A2AError
from .wire.task import (
    INTERRUPTED,
    TERMINAL,
    ArtifactUpdate,
    GetTask,
    Message,
    Send,
    StatusUpdate,
    StreamItem,
    Subscribe,
    Task,
    TaskPage,
    Text,
)

RETRIES = Backoff(first=0.2, limit=5.0, jitter=0.5)
POLLS = Backoff(first=0.1, limit=2.0, jitter=0.2)
SETTLING = 2.0
"""Seconds in which an agent may still ask a question that it has just been sent the answer to."""
LINGER = 0.2
"""Seconds that a stream gets to end when the task is at rest, so that its connection can be used again."""
MODES = ("text/plain", "application/json", "*/*")
STILL_ASKS = "the agent still asks"


class Gone(Lost):
    """The agent does not know the task (any more)."""


@attrs.define(eq=False)
class TaskLink:
    config: RemoteAgentConfig
    link: AgentLink
    request: Delegate
    log: logging.Logger
    task: RemoteTask | None
    """Once it is known."""
    _seen: Task | None = None
    """The task as it was last read, if nothing has been sent since."""

    # ---------------------------------------------------------------------- sending

    async def post(self, message: Message, *, wait: bool) -> Message | None:
        """Send a message once, and follow the stream of it, if the agent has streams. The message with which
        the agent answers, if there is no task. `wait`: without streams, it answers when the task is at rest.
        """
        self._seen = None
        if not (await self.link.contact()).streaming:
            return await self._post_whole(message, wait)
        try:
            return await self._read_stream(Send(message=message, modes=MODES, stream=True))
        except A2AError as error:
            if error.reason != "UNSUPPORTED_OPERATION":
                raise
        answer = await self._post_whole(message, wait)  # it may refuse the message, or streams
        self.link.without_streams()
        return answer

    async def _post_whole(self, message: Message, wait: bool) -> Message | None:
        send = Send(message=message, modes=MODES, wait=wait)
        hop, bearer = self.request.hop, self.request.bearer
        return self._take(await self.link.ask(send, hop, bearer, self.config.timeout))

    async def answer(self, message: Message, item: RemoteItem) -> str | None:
        """Send the answer to a question. The reason if the agent does not take it: it stays open."""

        def asks(task: Task) -> bool:
            return task.status.state == "input-required" and any(
                item.name == each.name for each in items_of(task)
            )

        return await self._send_on(message, asks)

    async def bring_token(self, message: Message) -> None:
        """Send the bearer of the request to a task that waits for one."""
        await self._send_on(message, lambda task: task.status.state == "auth-required")

    async def _send_on(self, message: Message, waits: Callable[[Task], bool]) -> str | None:
        """Send a message that the task `waits` for, until it has arrived. The reason if it is refused."""
        retries, give_up = Streak(RETRIES), trio.current_time() + self.config.reconnect_timeout
        while True:
            try:
                await self.post(message, wait=True)
                return None if await self._goes_on(waits) else STILL_ASKS
            except A2AError as error:
                return said(error)
            except (NotSent, Lost) as error:
                if not waits(await self.read()):
                    return None
                lasts = isinstance(error, NotSent) and not (error.again or error.stale)
                if lasts or trio.current_time() > give_up:
                    return str(error)
            await trio.sleep(retries.fail(0.0))

    async def _goes_on(self, waits: Callable[[Task], bool]) -> bool:
        """Whether the task has taken the message and waits for it no longer."""
        polls, give_up = Streak(POLLS), trio.current_time() + SETTLING
        while waits(await self.read()):
            if trio.current_time() > give_up:
                return False
            await trio.sleep(polls.fail(0.0))
        return True

    # -------------------------------------------------------------------- following

    async def at_rest(self) -> Task:
        """The task, once it has ended or waits for somebody."""
        polls = Streak(POLLS)
        while True:
            task = self._seen or await self.read()
            self._seen = None
            if task.status.state in TERMINAL | INTERRUPTED:
                return task
            began = trio.current_time()
            try:
                if (await self.link.contact()).streaming:
                    await self._read_stream(Subscribe(task.id))
            except (A2AError, NotSent, Lost) as error:
                self.log.debug("the stream of a task ended: %s", error)
            # A stream that ends at once is no reason to ask without a pause.
            await trio.sleep(polls.fail(POLLS.healthy if trio.current_time() > began + 5.0 else 0.0))

    async def read(self) -> Task:
        """The task as the agent has it now.

        Raises `Gone`, and `Lost` when the agent cannot be asked for `reconnect_timeout`.
        """
        assert self.task is not None
        retries, give_up = Streak(RETRIES), trio.current_time() + self.config.reconnect_timeout
        while True:
            try:
                found = await self.link.ask(GetTask(self.task.id), self.request.hop, self.request.bearer)
                if not isinstance(found, Task) or found.id != self.task.id:
                    raise ToolOutcomeUnknown(f'agent "{self.request.agent}" answered with another task')
                self._seen = found
                return found
            except A2AError as error:
                raise Gone(f"it does not tell of the task any more: {said(error)}") from error
            except (NotSent, Lost) as error:
                if trio.current_time() > give_up:
                    raise Lost(f"it cannot be asked about the task: {error}") from error
                if isinstance(error, NotSent) and error.stale:
                    await self._refresh()
            await trio.sleep(retries.fail(0.0))

    async def _refresh(self) -> None:
        try:
            await self.link.contact(again=True)
        except NotSent as error:
            self.log.debug("no card: %s", error)

    async def _read_stream(self, request: Send | Subscribe) -> Message | None:
        """Read a stream until the task is at rest: some agents keep it open then."""
        continues = isinstance(request, Send) and request.message.task is not None
        at_rest = trio.CancelScope()
        # As long as there is no task to be read, the stream is all that there is.
        silence = self.config.timeout if self.task is None else SILENCE
        items: AsyncGenerator[StreamItem, None] = self.link.stream(
            request, self.request.hop, self.request.bearer, silence
        )
        async with aclosing(items):
            with at_rest:
                async for item in items:
                    message = self._take(item)
                    if message is not None and self.task is None:
                        return message
                    # The first item of a stream to a task may be the task as it was before.
                    if not (continues and isinstance(item, Task)) and _rests(item):
                        at_rest.deadline = trio.current_time() + LINGER
        if self.task is None:
            raise Lost("its stream ended before it said anything")
        return None

    def _take(self, item: StreamItem | TaskPage) -> Message | None:
        match item:
            case Task(id=id, context=context):
                self.accept(id, context)
            case Message():
                return item
            case StatusUpdate(task=id, context=context, status=status):
                self.accept(id, context)
                if status.state == "working" and status.message is not None:
                    self._tell(status.message)
            case TaskPage():
                raise Lost("it answered with a list")
            case ArtifactUpdate(task=id, context=context):
                self.accept(id, context)
            case _:
                assert_never(item)
        return None

    def accept(self, id: str, context: str) -> None:
        """Take note of the task. Raises `Lost` for another one than before."""
        if self.task is None:
            if not 0 < len(id) <= LONGEST_NAME or len(context) > LONGEST_NAME:
                raise Lost("the id of its task is not usable")
            self.task = RemoteTask(id, context)
            if self.request.on_accepted is not None:
                self.request.on_accepted(self.task)
        elif id != self.task.id:
            raise Lost("it answered with another task")

    def _tell(self, message: Message) -> None:
        text = next((part.text for part in message.parts if isinstance(part, Text)), None)
        if text is not None and self.request.on_progress is not None:
            self.request.on_progress(Progress(0.0, message=text[:LONGEST_NAME]))


def said(error: A2AError) -> str:
    return str(error)[:LONGEST_NAME]


def _rests(item: StreamItem) -> bool:
    return isinstance(item, Task | StatusUpdate) and item.status.state in TERMINAL | INTERRUPTED
