"""One task of a remote agent: send messages to it, follow it and read it.

Reading a task determines its state. A stream serves to learn the task's id early, and when to read it. What
has arrived counts only if the task cannot be read (`arrived`).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import assert_never

import attrs
import trio

from ...config.sections.a2a import RemoteAgentConfig
from ...runtime.restart import Backoff, Streak
from ..tools.delegation import WITHHELD, Delegate, RemoteAnswer, RemoteTask
from ..tools.tool import Progress, ToolAuthRequired, ToolOutcomeUnknown
from .agent_link import SILENCE, AgentLink, Lost, RequestNotSent
from .arrived import Arrived
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
STALE_FOR = 2.0
"""Seconds in which an agent may still show a question that was just answered."""
LINGER = 0.2
"""Seconds for a stream to end after its task is at rest, so that its connection can be used again."""
MODES = ("text/plain", "application/json", "*/*")
ONE_READ = 10.0
"""Seconds to read a task whose answer has arrived."""
STILL_ASKS = "the agent still asks"


class Gone(Lost):
    """The agent does not know the task."""


@attrs.define(eq=False)
class TaskLink:
    config: RemoteAgentConfig
    link: AgentLink
    request: Delegate
    log: logging.Logger
    task: RemoteTask | None
    """The task; None: not yet known."""
    most: int
    """Maximum bytes of a result."""
    _seen: Task | None = None
    """The task as last read; None after a message."""
    _arrived: Arrived = attrs.field(init=False)
    """What has arrived since the last message."""

    def __attrs_post_init__(self) -> None:
        self._arrived = Arrived(self.most)

    # ---------------------------------------------------------------------- sending

    async def post(self, message: Message, *, wait: bool) -> Message | None:
        """Send a message once, and follow its stream if the agent has streams. Returns the agent's message if
        it answers with one instead of a task. `wait`: without streams, answer only when the task is at rest.
        """
        self._seen, self._arrived = None, Arrived(self.most)
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
        item = await self.link.ask(send, hop, bearer, self.config.timeout)
        if isinstance(item, TaskPage):
            raise Lost("it answered with a list")
        return self.take(item)

    def take(self, item: StreamItem) -> Message | None:
        """Record what the agent has sent. Returns the item if it is a message."""
        match item:
            case Task(id=id, context=context) | StatusUpdate(task=id, context=context):
                self._accept(id, context)
            case ArtifactUpdate(task=id, context=context):
                self._accept(id, context)
            case Message():
                pass
            case _:
                assert_never(item)
        if isinstance(item, StatusUpdate) and item.status.state == "working" and item.status.message:
            self._tell(item.status.message)
        self._arrived.take(item)
        return item if isinstance(item, Message) else None

    async def answer(self, message: Message, answers: Sequence[RemoteAnswer]) -> str | None:
        """Send the answers to questions. Returns the reason if they are not sent, or are refused by the
        agent; then the questions stay open."""
        names = {answer.item.name for answer in answers}

        def asks(task: Task) -> bool:
            return task.status.state == "input-required" and any(
                each.name in names for each in items_of(task)
            )

        return await self._send_on(message, asks, agrees=any(answer.agrees for answer in answers))

    async def bring_token(self, message: Message) -> None:
        """Send the request's bearer token to a task that waits for one."""
        await self._send_on(message, lambda task: task.status.state == "auth-required", agrees=True)

    async def _send_on(self, message: Message, waits: Callable[[Task], bool], *, agrees: bool) -> str | None:
        """Send a message that the task `waits` for until it arrives. Returns the reason if it is refused, or
        if it `agrees` and may not leave."""
        retries, give_up = Streak(RETRIES), trio.current_time() + self.config.reconnect_timeout
        while True:
            if agrees and not self.request.may_leave():
                return WITHHELD
            try:
                await self.post(message, wait=True)
                return None if await self._goes_on(waits) else STILL_ASKS
            except A2AError as error:
                return shortened(error)
            except (RequestNotSent, Lost) as error:
                if not waits(await self.read()):
                    return None
                lasts = isinstance(error, RequestNotSent) and not (error.again or error.stale)
                if lasts or trio.current_time() > give_up:
                    return str(error)
            await trio.sleep(retries.fail(0.0))

    async def _goes_on(self, waits: Callable[[Task], bool]) -> bool:
        """Whether the task has accepted the message and no longer waits for it."""
        polls, give_up = Streak(POLLS), trio.current_time() + STALE_FOR
        while waits(await self.read()):
            if trio.current_time() > give_up:
                return False
            await trio.sleep(polls.fail(0.0))
        return True

    # -------------------------------------------------------------------- following

    async def at_rest(self) -> Task:
        """The task, once it has ended or waits for an answer or a token."""
        polls, stale_until = Streak(POLLS), trio.current_time() + STALE_FOR
        while True:
            task = self._seen or await self.read()
            self._seen = None
            if task.status.state in TERMINAL | INTERRUPTED:
                return self._arrived.complete(task)
            ended = self._arrived.at_rest(RemoteTask(task.id, task.context))
            if ended is not None and ended.status.state in TERMINAL and trio.current_time() > stale_until:
                return ended  # what was read is a copy that does not change any more
            began = trio.current_time()
            try:
                if (await self.link.contact()).streaming:
                    await self._read_stream(Subscribe(task.id))
            except (A2AError, RequestNotSent, Lost) as error:
                self.log.debug("the stream of a task ended: %s", error)
            # Pause even after a stream that ended at once.
            await trio.sleep(polls.fail(POLLS.healthy if trio.current_time() > began + 5.0 else 0.0))

    async def read(self) -> Task:
        """Read the task. If it cannot be read, an answer that has arrived counts; without one, raises `Gone`,
        and `Lost` if the agent is unreachable for `reconnect_timeout`."""
        assert self.task is not None
        arrived = self._arrived.instead_of_read(self.task)
        if arrived is None:
            return await self._read_patiently(self.task)
        try:
            with trio.move_on_after(ONE_READ):
                return await self._read_once(self.task)
        except (A2AError, RequestNotSent, Lost, ToolAuthRequired, ToolOutcomeUnknown) as error:
            self.log.debug("the task cannot be read, and what has arrived counts: %s", error)
        self._seen = arrived
        return arrived

    async def _read_patiently(self, task: RemoteTask) -> Task:
        retries, give_up = Streak(RETRIES), trio.current_time() + self.config.reconnect_timeout
        while True:
            try:
                return await self._read_once(task)
            except A2AError as error:
                raise Gone(f"it no longer knows the task: {shortened(error)}") from error
            except (RequestNotSent, Lost) as error:
                if trio.current_time() > give_up:
                    raise Lost(f"it cannot be asked about the task: {error}") from error
                if isinstance(error, RequestNotSent) and error.stale:
                    await self._refresh()
            await trio.sleep(retries.fail(0.0))

    async def _read_once(self, task: RemoteTask) -> Task:
        found = await self.link.ask(GetTask(task.id), self.request.hop, self.request.bearer)
        if not isinstance(found, Task) or found.id != task.id:
            raise ToolOutcomeUnknown(f'agent "{self.request.agent}" answered with another task')
        self._seen = found
        return found

    async def _refresh(self) -> None:
        try:
            await self.link.contact(again=True)
        except RequestNotSent as error:
            self.log.debug("no card: %s", error)

    async def _read_stream(self, request: Send | Subscribe) -> Message | None:
        """Read a stream until the task is at rest, because some agents keep it open."""
        continues = isinstance(request, Send) and request.message.task is not None
        at_rest = trio.CancelScope()
        # Without a known task, there is nothing else to read than the stream.
        silence = self.config.timeout if self.task is None else SILENCE
        items: AsyncGenerator[StreamItem, None] = self.link.stream(
            request, self.request.hop, self.request.bearer, silence
        )
        async with aclosing(items):
            with at_rest:
                async for item in items:
                    if continues and isinstance(item, Task) and item.status.state in INTERRUPTED:
                        continue  # it may be the state of the task before the message
                    message = self.take(item)
                    if message is not None and self.task is None:
                        return message
                    if _rests(item):
                        at_rest.deadline = trio.current_time() + LINGER
        if self.task is None:
            raise Lost("its stream ended without an item")
        return None

    def _accept(self, id: str, context: str) -> None:
        """Record the task. Raises `Lost` if it is another one than before."""
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


def shortened(error: A2AError) -> str:
    return str(error)[:LONGEST_NAME]


def _rests(item: StreamItem) -> bool:
    return isinstance(item, Task | StatusUpdate) and item.status.state in TERMINAL | INTERRUPTED
