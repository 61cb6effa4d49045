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

A form that asks for a secret, or that cannot be shown whole, is declined without asking a person, as those of
MCP servers are (`tools/elicitation.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import attrs
import trio

from ...config.sections.a2a import RemoteAgentConfig
from ...runtime.restart import Streak
from ..servers.masking import Secrets
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
from ..tools.elicitation import asks_for_secret
from ..tools.tool import ToolAuthRequired, ToolOutcomeUnknown, ToolResult, ToolUnavailable
from .agent_link import AgentLink, Contact, Lost, RequestNotSent
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
MOST_DECLINED = 8
"""How often forms are declined in one exchange, because an agent may ask again without end."""
ASKED_AGAIN = "it asks the same again"
CHANGED = "the agent has changed its question meanwhile"
NOT_ASKED = "the agent no longer waits for the answer"


@attrs.define(eq=False)
class Exchange:
    _config: RemoteAgentConfig
    _link: AgentLink
    _request: Delegate
    _log: logging.Logger
    _most: int
    """Maximum bytes of a result."""
    _secrets: Secrets = attrs.field(factory=Secrets)
    """Masked in questions before they are compared, because they are masked where they are shown."""
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
            except RequestNotSent as error:
                raise self._unavailable(error) from error
            except Lost as error:
                raise self._unknown(str(error)) from error
        return await self._given_up()

    async def _run(self) -> Delegated:
        message = await (self._begin() if self._remote.task is None else self._continue())
        if message is not None:
            return answered(message, self._most)
        for _ in range(MOST_DECLINED):
            task = await self._remote.at_rest()
            if not await self._decline_forms(task):
                return self._outcome(task)
        return await self._end("keeps asking what no person may be asked")

    def _unavailable(self, error: RequestNotSent) -> Exception:
        text = f"sub-agent unavailable: {self._request.agent} ({error})"
        known = self._remote.task is not None or self._request.lost
        return ToolOutcomeUnknown(text) if known else ToolUnavailable(text)

    def _unknown(self, why: str) -> ToolOutcomeUnknown:
        return ToolOutcomeUnknown(f'agent "{self._request.agent}": {why}')

    def _outcome(self, task: Task) -> Delegated:
        """The result of a task at rest. Raises the prerequisite that it waits for."""
        match task.status.state:
            case "input-required":
                items = self._items(task)
                raise RemoteInputRequired(items, {**self._asked_again(items), **self._refusals})
            case "auth-required":
                raise ToolAuthRequired(f'agent "{self._request.agent}" needs a bearer token', status=401)
            case _:
                agreed = {answer.item.name for answer in self._brought if answer.agrees}
                missing = uncalled(task, [item for item in self._answered if item.name in agreed])
                return without_calls(delegated(task, self._most), missing)

    def _items(self, task: Task) -> Sequence[RemoteItem]:
        return self._secrets.masked(tuple(items_of(task)))

    async def _given_up(self) -> Delegated:
        return await self._end(f"took longer than {self._config.timeout:g} s")

    async def _end(self, why: str) -> Delegated:
        """Cancel the task, if the agent can be reached."""
        text = f'agent "{self._request.agent}" {why}'
        task: Task | None = None
        if self._remote.task is not None:
            with trio.move_on_after(CANCEL_TIME):
                task = await cancel(self._link, self._remote.task, self._request)
        if task is None:
            sent = self._has_left or self._request.lost or self._remote.task is not None
            raise (
                ToolOutcomeUnknown(text) if sent else self._unavailable(RequestNotSent("it does not answer"))
            )
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
            except RequestNotSent as error:
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
            except (RequestNotSent, Lost) as error:
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
            raise RequestNotSent(WITHHELD)
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
                await self._send_answers(known, self._still_wanted(self._items(task)))
            case "auth-required" if request.bearer is not None:
                await self._remote.bring_token(token_message(request, known))
            case "failed" | "canceled" | "rejected" if request.anew:
                return await self._begin_anew()
            case _:
                pass
        return None

    async def _send_answers(self, task: RemoteTask, answers: Sequence[RemoteAnswer]) -> None:
        """Send the answers to forms in one message, and each of the others in a message of its own."""
        if forms := [answer for answer in answers if answer.item.form]:
            await self._answer(foreign_message(self._request, task, forms), forms)
        for answer in answers:
            if not answer.item.form:
                await self._answer(answer_message(self._request, task, answer), [answer])

    def _still_wanted(self, items: Sequence[RemoteItem]) -> Sequence[RemoteAnswer]:
        """The answers to questions that are still open, and unchanged since a person saw them. If a question
        has changed, its answer is not sent, nor are the other answers of the same message."""
        still_open = {item.name: item.digest for item in items}
        latest = {item.name: item.digest for item in self._request.items}
        answers = [answer for answer in self._request.answers if answer.item.name in still_open]
        changed = [
            each
            for each in answers
            # An answer from before an upgrade does not say what was shown.
            if (each.shown or latest.get(each.item.name)) not in (None, still_open[each.item.name])
        ]
        if any(each.item.form for each in changed):
            changed = [each for each in answers if each.item.form or each in changed]
        self._refusals.update({each.item.name: CHANGED for each in changed})
        return [each for each in answers if each not in changed]

    async def _decline_forms(self, task: Task) -> bool:
        """Decline the forms that no person is asked to fill in. Returns whether there are any."""
        items = items_of(task) if task.status.state == "input-required" else ()
        request, known = attrs.evolve(self._request, items=items), RemoteTask(task.id, task.context)
        forms = [(item, why) for item in items if (why := _unaskable(item)) is not None]
        for item, why in forms:
            self._log.warning("declined a question: %s", self._secrets.mask(why))
            answer = RemoteAnswer(item, {"action": "decline", "reason": why}, agrees=False)
            if item.form:
                message = foreign_message(request, known, [answer])
            else:
                message = answer_message(request, known, answer)
            await self._remote.answer(message, [answer])
        return bool(forms)

    async def _answer(self, message: Message, answers: Sequence[RemoteAnswer]) -> None:
        self._brought += answers
        if (refusal := await self._remote.answer(message, answers)) is not None:
            self._refusals.update({answer.item.name: refusal for answer in answers})

    def _asked_again(self, items: Sequence[RemoteItem]) -> Mapping[str, str]:
        """The reasons for questions that are those just answered, under other ids. An agent of this runtime
        may ask the same for another call."""
        before = {item.digest for item in self._answered if item.form or item.id is None}
        return {item.name: ASKED_AGAIN for item in items if item.digest in before}

    @property
    def _answered(self) -> Sequence[RemoteItem]:
        """The questions to which answers were sent, as they were asked."""
        names = {answer.item.name for answer in self._brought}
        return [item for item in self._request.items if item.name in names]

    async def _begin_anew(self) -> Message | None:
        """Start again, because a person wants the call repeated and its task can no longer succeed."""
        self._remote.task = None
        return await self._begin()


def _unaskable(item: RemoteItem) -> str | None:
    """The reason to decline a form without asking a person; None if a person may be asked."""
    if not item.is_form:
        return None
    return item.unshown or (None if item.schema is None else asks_for_secret(item.schema))


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
            except (RequestNotSent, Lost, ToolAuthRequired):
                return None
            if not isinstance(found, Task) or found.id != task.id:
                return None
            if found.status.state in TERMINAL:
                return found
        await trio.sleep(retries.fail(0.0))


async def look(link: AgentLink, message: LookAt, secrets: Secrets) -> str | None:
    """The reason why a task no longer waits for the answer to a question; None: it waits, or this is
    unknown. `secrets` are masked in questions before they are compared."""
    try:
        wanted = GetTask(message.task.id)
        task = await link.ask(wanted, message.hop, message.bearer, LOOK_TIME, (LOOK,))
    except A2AError as error:
        return f"the agent no longer knows its task: {shortened(error)}"
    except (RequestNotSent, Lost, ToolAuthRequired):
        return None
    if not isinstance(task, Task) or task.id != message.task.id:
        return None
    state = task.status.state
    if state in TERMINAL:
        return f"the agent's task is {state}"
    waits = state == "input-required"
    items = {item.name: item for item in secrets.masked(tuple(items_of(task)))} if waits else {}
    found = items.get(message.item.name)
    if found is not None and message.shown not in (None, found.digest):
        return CHANGED
    match (task.metadata or {}).get(LOOK):
        case {"pending": list(pending)} if message.item.id is not None:
            return None if message.item.id in pending else NOT_ASKED
    return NOT_ASKED if waits and found is None else None
