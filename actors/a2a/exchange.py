"""One exchange with a remote agent: from a message or an answer until its task has ended or waits for an
answer or a token.

    ===============  ==================================================================================
    begins with      what happens
    ===============  ==================================================================================
    a message        It is sent. The agent's task is reported as soon as it is known, and followed.
    a lost message   If the agent recognizes a repeated message, it is sent again with the same id. Otherwise
                     its task is searched for by its context. If there is none, the outcome is unknown.
    a task           It is read first. Then the request's answers to questions that are still open are sent,
                     or its bearer token if the task waits for one. Then the task is followed.
    ===============  ==================================================================================

A task is followed by its stream if the agent has streams, otherwise by polling.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import attrs
import trio

from ...config.a2a import RemoteAgentConfig
from ...runtime.restart import Streak
from ..tools.delegation import (
    WITHHELD,
    CancelRemote,
    Delegate,
    Delegated,
    LookAt,
    RemoteAnswer,
    RemoteInputRequired,
    RemoteItem,
    RemoteTask,
)
from ..tools.tool import ToolAuthRequired, ToolOutcomeUnknown, ToolResult, ToolUnavailable
from .agent_link import AgentLink, Contact, Lost, NotSent
from .foreign_questions import uncalled
from .outgoing import answer_message, context_of, first_message, foreign_message, token_message
from .remote_state import answered, delegated, items_of, without_calls
from .task_link import RETRIES, Gone, TaskLink, shortened
from .wire.a2a_errors import A2AError
from .wire.a2a_headers import LOOK
from .wire.client_codec import lists
from .wire.task import TERMINAL, CancelTask, GetTask, ListTasks, Message, Task, TaskPage

ATTEMPTS = 3
"""Attempts to send a message that the agent has not accepted."""
CANCEL_TIME = 8.0
"""Seconds to cancel a task: more than this runtime gives a cancelled task's own calls."""
LOOK_TIME = 5.0
"""Seconds for a look at a question."""
ASKED_AGAIN = "it asks the same again"
NOT_ASKED = "the agent no longer waits for the answer"


@attrs.define(eq=False)
class Exchange:
    _config: RemoteAgentConfig
    _link: AgentLink
    _request: Delegate
    _log: logging.Logger
    _most: int
    """Maximum bytes of a result."""
    _remote: TaskLink = attrs.field(init=False)
    _refusals: dict[str, str] = attrs.field(factory=dict)
    _brought: list[RemoteAnswer] = attrs.field(factory=list)
    """The answers that were sent."""
    _has_left: bool = False

    def __attrs_post_init__(self) -> None:
        request = self._request
        self._remote = TaskLink(self._config, self._link, request, self._log, request.task, self._most)

    async def run(self) -> Delegated:
        """Run the exchange. Raises the errors of `Delegate`."""
        with trio.move_on_after(self._config.timeout):
            try:
                return await self._run()
            except NotSent as error:
                raise self._unavailable(error) from error
            except Lost as error:
                raise self._unknown(str(error)) from error
        return await self._given_up()

    async def _run(self) -> Delegated:
        message = await (self._begin() if self._remote.task is None else self._continue())
        if message is not None:
            return answered(message, self._most)
        return self._outcome(await self._remote.at_rest())

    def _unavailable(self, error: NotSent) -> Exception:
        text = f"sub-agent unavailable: {self._request.agent} ({error})"
        known = self._remote.task is not None or self._request.lost
        return ToolOutcomeUnknown(text) if known else ToolUnavailable(text)

    def _unknown(self, why: str) -> ToolOutcomeUnknown:
        return ToolOutcomeUnknown(f'agent "{self._request.agent}": {why}')

    def _outcome(self, task: Task) -> Delegated:
        """The result of a task at rest. Raises the prerequisite that it waits for."""
        match task.status.state:
            case "input-required":
                items = items_of(task)
                raise RemoteInputRequired(items, {**self._asked_again(items), **self._refusals})
            case "auth-required":
                raise ToolAuthRequired(f'agent "{self._request.agent}" needs a bearer token', status=401)
            case _:
                agreed = {answer.item.name for answer in self._brought if answer.agrees}
                missing = uncalled(task, [item for item in self._answered if item.name in agreed])
                return without_calls(delegated(task, self._most), missing)

    async def _given_up(self) -> Delegated:
        """Cancel the task after the timeout, if the agent can be reached."""
        text = f'agent "{self._request.agent}" took longer than {self._config.timeout:g} s'
        task: Task | None = None
        if self._remote.task is not None:
            with trio.move_on_after(CANCEL_TIME):
                task = await cancel(self._link, self._remote.task, self._request)
        if task is None:
            sent = self._has_left or self._request.lost or self._remote.task is not None
            raise ToolOutcomeUnknown(text) if sent else self._unavailable(NotSent("it does not answer"))
        if task.status.state != "canceled":
            return delegated(task, self._most)
        return Delegated(ToolResult(f"{text}; its task was cancelled", is_error=True))

    # -------------------------------------------------------------------- beginning

    async def _begin(self) -> Message | None:
        """Send the message. Returns the agent's message if it answers with one instead of a task."""
        if self._request.lost:
            return await self._recover("this process stopped before the agent had answered")
        retries = Streak(RETRIES)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._send_first()
            except NotSent as error:
                if attempt == ATTEMPTS or not (error.again or error.stale):
                    raise
                if error.stale:
                    await self._link.contact(again=True)
                await trio.sleep(retries.fail(0.0))
            except Lost as error:
                if self._remote.task is not None:
                    return None  # the task is known and can be followed
                return await self._recover(str(error))
            except A2AError as error:
                text = f'agent "{self._request.agent}" refused the message: {shortened(error)}'
                raise ToolUnavailable(text) from error
        raise AssertionError

    async def _recover(self, why: str) -> Message | None:
        """Find the task of a message that may have arrived."""
        retries, give_up = Streak(RETRIES), trio.current_time() + self._config.reconnect_timeout
        while True:
            try:
                contact = await self._link.contact()
                if contact.idempotent and self._request.may_send and self._request.may_leave():
                    return await self._send_first()
                await self._find(contact, why)
                return None
            except (NotSent, Lost) as error:
                if self._remote.task is not None:
                    return None
                if trio.current_time() > give_up:
                    raise Lost(f"{why}; since then: {error}") from error
            except A2AError as error:
                raise Lost(f"{why}; since then it answers: {shortened(error)}") from error
            except ToolAuthRequired as error:
                if self._remote.task is not None:
                    raise  # the next exchange continues the task
                # Another exchange cannot send this message again, because its messages have other ids.
                raise Lost(f"{why}; since then: {error}") from error
            await trio.sleep(retries.fail(0.0))

    async def _find(self, contact: Contact, why: str) -> None:
        if contact.idempotent or not lists(contact.interface):
            raise self._unknown(why)
        context = context_of(self._request)
        wanted = ListTasks(context=context, page_size=2, artifacts=True)
        page = await self._link.ask(wanted, self._request.hop, self._request.bearer)
        if not isinstance(page, TaskPage) or len(page.tasks) != 1 or page.tasks[0].context != context:
            raise self._unknown(f"{why}, and it has no task for this message")
        self._remote.take(page.tasks[0])

    async def _send_first(self) -> Message | None:
        contact = await self._link.contact()
        await trio.lowlevel.checkpoint_if_cancelled()  # a cancelled exchange sends nothing
        if not self._request.may_leave():
            raise NotSent(WITHHELD)
        self._has_left = True
        if self._request.on_sent is not None:
            self._request.on_sent()
        # With our extension the agent derives the context from the message.
        context = None if contact.idempotent else context_of(self._request)
        message = first_message(self._request, context)
        return await self._remote.post(message, wait=contact.interface.version == "older")

    # ------------------------------------------------------------------- continuing

    async def _continue(self) -> Message | None:
        """Send the answers or the token that the task waits for, if the request has them."""
        request = self._request
        try:
            task = await self._remote.read()
        except Gone:
            if request.anew:
                return await self._begin_anew()
            raise
        except Lost as error:
            if request.answers and not request.lost:  # the agent has not received them
                refusals = {answer.item.name: str(error) for answer in request.answers}
                raise RemoteInputRequired(request.items, refusals) from error
            raise
        if request.on_sent is not None:
            request.on_sent()
        known = RemoteTask(task.id, task.context)
        match task.status.state:
            case "input-required":
                still_open = {item.name for item in items_of(task)}
                answers = [answer for answer in request.answers if answer.item.name in still_open]
                if foreign := [answer for answer in answers if answer.item.form]:
                    await self._answer(foreign_message(request, known, foreign), foreign)
                for answer in answers:
                    if not answer.item.form:
                        await self._answer(answer_message(request, known, answer), [answer])
            case "auth-required" if request.bearer is not None:
                await self._remote.bring_token(token_message(request, known))
            case "failed" | "canceled" | "rejected" if request.anew:
                return await self._begin_anew()
            case _:
                pass
        return None

    async def _answer(self, message: Message, answers: Sequence[RemoteAnswer]) -> None:
        self._brought += answers
        if (refusal := await self._remote.answer(message, answers)) is not None:
            self._refusals.update({answer.item.name: refusal for answer in answers})

    def _asked_again(self, items: Sequence[RemoteItem]) -> Mapping[str, str]:
        """The reasons for questions that are those just answered, under other ids. An agent of this runtime
        may ask the same for another call."""
        before = [_question(item) for item in self._answered if item.form or item.id is None]
        return {item.name: ASKED_AGAIN for item in items if _question(item) in before}

    @property
    def _answered(self) -> Sequence[RemoteItem]:
        """The questions to which answers were sent, as they were asked."""
        names = {answer.item.name for answer in self._brought}
        return [item for item in self._request.items if item.name in names]

    async def _begin_anew(self) -> Message | None:
        """Start again, because a person wants the call repeated and its task can no longer succeed."""
        self._remote.task = None
        return await self._begin()


def _question(item: RemoteItem) -> tuple[object, ...]:
    """What a question asks, without its ids."""
    return (item.kind, item.tool, item.arguments, item.description, item.form)


async def cancel(link: AgentLink, task: RemoteTask, request: Delegate | CancelRemote) -> Task | None:
    """Cancel a task. Returns the ended task, or None if the agent cannot be reached. Retries until the caller
    gives up, because some agents refuse at first, for instance while a message to the task is in progress."""
    retries = Streak(RETRIES)
    while True:
        for wanted in (CancelTask(task.id), GetTask(task.id)):  # one that has ended cannot be cancelled
            try:
                found = await link.ask(wanted, request.hop, request.bearer)
            except A2AError:
                if isinstance(wanted, GetTask):
                    return None
                continue
            except (NotSent, Lost, ToolAuthRequired):
                return None
            if not isinstance(found, Task) or found.id != task.id:
                return None
            if found.status.state in TERMINAL:
                return found
        await trio.sleep(retries.fail(0.0))


async def look(link: AgentLink, message: LookAt) -> str | None:
    """The reason why a task no longer waits for the answer to a question; None: it waits, or this is
    unknown."""
    try:
        wanted = GetTask(message.task.id)
        task = await link.ask(wanted, message.hop, message.bearer, LOOK_TIME, (LOOK,))
    except A2AError as error:
        return f"the agent no longer knows its task: {shortened(error)}"
    except (NotSent, Lost, ToolAuthRequired):
        return None
    if not isinstance(task, Task) or task.id != message.task.id:
        return None
    state = task.status.state
    if state in TERMINAL:
        return f"the agent's task is {state}"
    match (task.metadata or {}).get(LOOK):
        case {"pending": list(pending)} if message.item.id is not None:
            return None if message.item.id in pending else NOT_ASKED
    if state == "input-required" and message.item.name not in {item.name for item in items_of(task)}:
        return NOT_ASKED
    return None
