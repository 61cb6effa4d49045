"""Messages that are sent again because their arrival is unknown: no person is asked twice, and no task starts
twice.
"""

from __future__ import annotations

import logging
from typing import Any, cast

import attrs
import pytest

from stopgo.actors.a2a.agent_link import AgentLink, Contact, Lost, RequestNotSent
from stopgo.actors.a2a.exchange import Exchange
from stopgo.actors.a2a.wire.a2a_errors import A2AError
from stopgo.actors.a2a.wire.client_codec import Interface
from stopgo.actors.a2a.wire.task import (
    ClientRequest,
    Data,
    GetTask,
    ListTasks,
    Message,
    Send,
    State,
    Status,
    Task,
    TaskPage,
)
from stopgo.actors.tools.delegation import (
    WITHHELD,
    Delegate,
    Delegated,
    Hop,
    RemoteAnswer,
    RemoteInputRequired,
    RemoteItem,
    RemoteTask,
)
from stopgo.actors.tools.tool import ToolAuthRequired, ToolOutcomeUnknown, ToolUnavailable
from stopgo.config.sections.a2a import RemoteAgentConfig

CONFIG = RemoteAgentConfig(name="peer", url="http://peer.test")
ITEM = RemoteItem(message="m", id="i", kind="tool")
BEGIN = Delegate(agent="peer", text="wipe", key="k", hop=Hop(session_id="s"))
ANSWER = attrs.evolve(
    BEGIN,
    task=RemoteTask("t", "c"),
    items=(ITEM,),
    answers=(RemoteAnswer(ITEM, {"approved": True}),),
)
REPEAT = attrs.evolve(BEGIN, task=RemoteTask("t", "c"), anew=True)
DONE = Status("completed")


def asks(id: str) -> Status:
    message = Message(id="m", role="agent", parts=(Data({"pending": [{"id": id, "kind": "tool"}]}),))
    return Status("input-required", message=message)


@attrs.define
class Link:
    """To an agent with one task, which is done when a message has arrived."""

    status: Status | None
    """None: the agent does not know the task."""
    lost: list[Exception] = attrs.field(factory=list)
    """The fate of each of the first messages."""
    idempotent: bool = True
    sent: list[Message] = attrs.field(factory=list)

    async def contact(self, *, again: bool = False) -> Contact:
        interface = Interface("http://peer.test", "JSONRPC", "1.0")
        return Contact(interface, streaming=False, idempotent=self.idempotent)

    async def ask(self, request: ClientRequest, *_: Any) -> Task | TaskPage:
        match request:
            case Send(message=message):
                self.sent.append(message)
                if self.lost:
                    raise self.lost.pop(0)
                self.status = DONE
                return Task(id=message.task or "new", context="c", status=DONE)
            case ListTasks():
                if self.lost:
                    raise self.lost.pop(0)
                return TaskPage(tasks=(), next="", page_size=2, total=0)
            case GetTask(id):
                if self.status is None and id == "t":
                    raise A2AError("TASK_NOT_FOUND", "there is no such task")
                return Task(id=id, context="c", status=self.status or DONE)
            case _:
                raise AssertionError(request)


async def have(link: Link, request: Delegate) -> Delegated:
    log = logging.getLogger("stopgo.a2a.peer")
    return await Exchange(CONFIG, cast(AgentLink, link), request, log, 1000).run()


@pytest.mark.parametrize(
    "error", [Lost("reset"), RequestNotSent("refused", again=True)], ids=["lost", "not sent"]
)
async def test_lost_answer_is_sent_again(error: Exception, autojump_clock: object) -> None:
    link = Link(asks("i"), lost=[error])
    assert not (await have(link, ANSWER)).result.is_error
    assert len(link.sent) == 2
    assert len({message.id for message in link.sent}) == 1, "it is the same message"


@pytest.mark.parametrize("lost", [False, True])
async def test_withdrawn_question_is_not_answered(lost: bool, autojump_clock: object) -> None:
    link = Link(asks("another"))
    with pytest.raises(RemoteInputRequired) as asked:
        await have(link, attrs.evolve(ANSWER, lost=lost))
    assert [item.id for item in asked.value.items] == ["another"]
    assert link.sent == []


@pytest.mark.parametrize("idempotent", [False, True])
async def test_lost_message_that_may_not_be_sent_again(idempotent: bool, autojump_clock: object) -> None:
    """It is looked for, and not sent."""
    link = Link(None, idempotent=idempotent)
    with pytest.raises(ToolOutcomeUnknown):
        await have(link, attrs.evolve(BEGIN, lost=True, may_send=False))
    assert link.sent == []


@pytest.mark.parametrize("idempotent", [False, True])
async def test_lost_message_without_its_token(idempotent: bool, autojump_clock: object) -> None:
    """The call does not end as if nothing had happened: with a token it would be sent as another message."""
    link = Link(None, lost=[ToolAuthRequired("HTTP 401", status=401)], idempotent=idempotent)
    with pytest.raises(ToolOutcomeUnknown):
        await have(link, attrs.evolve(BEGIN, lost=True))


@pytest.mark.parametrize("state", [None, "failed", "canceled", "rejected"])
async def test_failed_task_is_started_again(state: State | None, autojump_clock: object) -> None:
    link = Link(state and Status(state))
    assert not (await have(link, REPEAT)).result.is_error
    assert [message.task for message in link.sent] == [None]


async def test_waiting_task_is_not_started_again(autojump_clock: object) -> None:
    link = Link(asks("i"))
    with pytest.raises(RemoteInputRequired):
        await have(link, REPEAT)
    assert link.sent == []


async def test_completed_task_is_not_started_again(autojump_clock: object) -> None:
    link = Link(DONE)
    assert not (await have(link, REPEAT)).result.is_error
    assert link.sent == []


NO = attrs.evolve(ANSWER, answers=(RemoteAnswer(ITEM, {"approved": False}, agrees=False),))
TOKEN = attrs.evolve(BEGIN, task=RemoteTask("t", "c"), bearer="tok")
HALTED: dict[str, tuple[Delegate, Status | None, type[Exception]]] = {
    "a message": (BEGIN, None, ToolUnavailable),
    "a lost message": (attrs.evolve(BEGIN, lost=True), None, ToolOutcomeUnknown),
    "an approval": (ANSWER, asks("i"), RemoteInputRequired),
    "a lost approval": (attrs.evolve(ANSWER, lost=True), asks("i"), RemoteInputRequired),
    "a token": (TOKEN, Status("auth-required"), ToolAuthRequired),
    "a retry": (REPEAT, Status("failed"), ToolUnavailable),
}


@pytest.mark.parametrize(("request_", "status", "error"), HALTED.values(), ids=HALTED)
async def test_nothing_that_lets_the_agent_act_is_sent_while_halted(
    request_: Delegate, status: Status | None, error: type[Exception], autojump_clock: object
) -> None:
    link = Link(status)
    with pytest.raises(error) as raised:
        await have(link, attrs.evolve(request_, may_leave=lambda: False))
    assert link.sent == []
    if isinstance(raised.value, RemoteInputRequired):
        assert raised.value.refusals == {ITEM.name: WITHHELD}  # so that the person is asked again


async def test_refusal_is_sent_while_halted(autojump_clock: object) -> None:
    link = Link(asks("i"))
    await have(link, attrs.evolve(NO, may_leave=lambda: False))
    assert len(link.sent) == 1


@pytest.mark.parametrize(("request_", "error"), [(ANSWER, RemoteInputRequired), (BEGIN, ToolOutcomeUnknown)])
async def test_message_is_not_repeated_after_a_halt(
    request_: Delegate, error: type[Exception], autojump_clock: object
) -> None:
    link = Link(asks("i"), lost=[Lost("reset")])
    with pytest.raises(error):
        await have(link, attrs.evolve(request_, may_leave=lambda: not link.sent))
    assert len(link.sent) == 1
