"""Questions of agents that are not what a person has seen, and forms that no person is asked to fill in."""

from __future__ import annotations

from typing import Any, cast

import attrs
import pytest

from stopgo.actors.a2a.agent_link import AgentLink
from stopgo.actors.a2a.exchange import CHANGED, MOST_DECLINED, NOT_ASKED, look
from stopgo.actors.a2a.remote_state import items_of
from stopgo.actors.a2a.wire.a2a_headers import HITL, LOOK
from stopgo.actors.a2a.wire.task import (
    CancelTask,
    ClientRequest,
    Data,
    Message,
    Send,
    Status,
    Task,
    TaskPage,
    Text,
)
from stopgo.actors.servers.masking import Secrets
from stopgo.actors.tools.delegation import (
    Delegate,
    Hop,
    LookAt,
    RemoteAnswer,
    RemoteInputRequired,
    RemoteItem,
    RemoteTask,
)
from stopgo.config.sections.a2a import RemoteAgentConfig

from .test_lost_answers import BEGIN, DONE, REPEAT, Link, have

ASKED: dict[str, Any] = {
    "id": "i",
    "kind": "tool",
    "tool": "rm",
    "arguments": {"path": "/tmp"},
    "description": "Sure?",
    "input_schema": {"type": "object"},
}
CHANGES: list[dict[str, Any]] = [
    {"arguments": {"path": "/"}},
    {"arguments": {"path": "/tmp", "force": True}},
    {"tool": "rmdir"},
    {"kind": "outcome_unknown"},
    {"description": "Quite sure?"},
    {"input_schema": {"type": "object", "required": ["path"]}},
]


def asking(*items: dict[str, Any]) -> Status:
    parts = (Data({"pending": list(items)}),)
    return Status("input-required", message=Message(id="m", role="agent", parts=parts))


def in_words(text: str) -> Status:
    return Status("input-required", message=Message(id="m", role="agent", parts=(Text(text),)))


def answers_to(status: Status, *shown: RemoteItem) -> Delegate:
    """An exchange that brings a yes to each question. `shown`: the questions as persons saw them."""
    latest = items_of(Task(id="t", context="c", status=status))
    given = [
        RemoteAnswer(RemoteItem(message=each.message, id=each.id), {"approved": True}, shown=each.digest)
        for each in shown
    ]
    return attrs.evolve(BEGIN, task=RemoteTask("t", "c"), items=latest, answers=given)


def only(status: Status) -> RemoteItem:
    [item] = items_of(Task(id="t", context="c", status=status))
    return item


@pytest.mark.parametrize(
    ("before", "now"),
    [*((asking(ASKED), asking({**ASKED, **each})) for each in CHANGES), (in_words("A?"), in_words("B?"))],
)
async def test_answer_is_not_sent_to_a_changed_question(
    before: Status, now: Status, autojump_clock: object
) -> None:
    link = Link(now)
    with pytest.raises(RemoteInputRequired) as asked:
        await have(link, answers_to(now, only(before)))
    assert link.sent == []
    assert asked.value.refusals == {only(now).name: CHANGED}
    assert list(asked.value.items) == [only(now)]


async def test_answer_from_before_an_upgrade_is_compared_with_the_latest_question(
    autojump_clock: object,
) -> None:
    request = answers_to(asking(ASKED), only(asking(ASKED)))
    old = [attrs.evolve(each, shown=None) for each in request.answers]
    link = Link(asking({**ASKED, "arguments": {"path": "/"}}))
    with pytest.raises(RemoteInputRequired) as asked:
        await have(link, attrs.evolve(request, answers=old))
    assert (link.sent, asked.value.refusals) == ([], {"item i": CHANGED})


async def test_answer_to_an_unchanged_question_is_sent(autojump_clock: object) -> None:
    status = asking(ASKED)
    link = Link(asking({**ASKED, "path": ["other"], "server": "s"}))  # not what is asked
    await have(link, answers_to(status, only(status)))
    assert [part.data for part in link.sent[0].parts if isinstance(part, Data)] == [
        {"id": "i", "approved": True}
    ]


async def test_answers_that_go_together_wait_for_the_changed_one(autojump_clock: object) -> None:
    """kagent refuses a response that omits one of its tools."""

    def both(path: str) -> Status:
        tools = [{"id": id, "name": "rm", "args": {"path": each}} for id, each in (("a", "/a"), ("b", path))]
        request = {HITL: {"type": "tool_approval_request", "tools": tools}}
        message = Message(id="m", role="agent", parts=(Text("?"),), metadata=request)
        return Status("input-required", message=message)

    shown = items_of(Task(id="t", context="c", status=both("/b")))
    request = answers_to(both("/"), *shown)
    forms = [attrs.evolve(each, item=attrs.evolve(each.item, form="hitl")) for each in request.answers]
    link = Link(both("/"))
    with pytest.raises(RemoteInputRequired) as asked:
        await have(link, attrs.evolve(request, answers=forms))
    assert link.sent == []
    assert asked.value.refusals == {"item a": CHANGED, "item b": CHANGED}


@attrs.frozen
class Reader:
    """A link to an agent whose task can be read."""

    task: Task

    async def ask(self, *_: Any) -> Task:
        return self.task


@pytest.mark.parametrize("metadata", [None, {LOOK: {"pending": ["i"]}}])
@pytest.mark.parametrize(
    ("now", "shown", "found"),
    [
        (asking(ASKED), asking(ASKED), None),
        (asking({**ASKED, "tool": "rmdir"}), asking(ASKED), CHANGED),
        (asking({**ASKED, "tool": "rmdir"}), None, None),  # a question from before an upgrade
        (Status("working"), asking(ASKED), None),
    ],
)
async def test_changed_question_is_noticed(
    now: Status, shown: Status | None, found: str | None, metadata: Any
) -> None:
    link = Reader(Task(id="t", context="c", status=now, metadata=metadata))
    at = LookAt(
        task=RemoteTask("t", "c"),
        item=RemoteItem(message="m", id="i"),
        hop=Hop(session_id="s"),
        shown=None if shown is None else only(shown).digest,
    )
    assert await look(cast(AgentLink, link), at, Secrets()) == found


async def test_secrets_are_masked_before_questions_are_compared() -> None:
    config = RemoteAgentConfig(name="peer", url="http://p.test", headers={"X-Api-Key": "key-0123456789ab"})
    secrets, status = Secrets.of(config), asking({**ASKED, "description": "With key-0123456789ab?"})
    at = LookAt(
        task=RemoteTask("t", "c"),
        item=RemoteItem(message="m", id="i"),
        hop=Hop(session_id="s"),
        shown=secrets.masked(only(status)).digest,
    )
    link = cast(AgentLink, Reader(Task(id="t", context="c", status=status)))
    assert await look(link, at, secrets) is None
    assert await look(link, attrs.evolve(at, item=RemoteItem(message="m", id="j")), secrets) == NOT_ASKED


# --------------------------------------------------------------------------------- forms


def form(**field: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"value": {"type": "string", **field}}}
    return {"id": "f", "kind": "elicitation", "description": "?", "input_schema": schema}


SECRETS = [
    form(title="API key"),
    form(format="password"),
    {**form(), "input_schema": {"properties": {"db_password": {"type": "string"}}}},
    form(description="x" * 70_000),  # it cannot be shown whole
]


@pytest.mark.parametrize("item", SECRETS)
async def test_form_that_asks_for_a_secret_is_declined(
    item: dict[str, Any], autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    """As those of MCP servers (2025-11-25, "Elicitation", "Security Considerations")."""
    link = Link(asking(item))
    await have(link, REPEAT)
    [message] = link.sent
    [answer] = [part.data for part in message.parts if isinstance(part, Data)]
    assert (answer["id"], answer["action"]) == ("f", "decline")
    assert "declined a question" in caplog.text


async def test_form_of_kagent_that_asks_for_a_secret_is_declined(autojump_clock: object) -> None:
    request = {HITL: {"type": "ask_user_request", "id": "q", "questions": [{"question": "Your API key?"}]}}
    message = Message(id="m", role="agent", parts=(Text("?"),), metadata=request)
    link = Link(Status("input-required", message=message))
    await have(link, REPEAT)
    assert (link.sent[0].metadata or {})[HITL] == {
        "type": "ask_user_response",
        "id": "q",
        "answers": [{"answer": []}],
    }


async def test_other_questions_are_asked_beside_a_declined_form(autojump_clock: object) -> None:
    @attrs.define
    class Declined(Link):
        async def ask(self, request: ClientRequest, *rest: Any) -> Task | TaskPage:
            answer = await super().ask(request, *rest)
            if isinstance(request, Send):
                self.status = asking(ASKED)
            return answer

    link = Declined(asking(ASKED, SECRETS[0]))
    with pytest.raises(RemoteInputRequired) as asked:
        await have(link, REPEAT)
    assert [item.id for item in asked.value.items] == ["i"]
    assert len(link.sent) == 1


@pytest.mark.parametrize("item", [form(), form(enum=["token"], title="Token"), {**ASKED, "tool": "password"}])
async def test_other_questions_are_asked(item: dict[str, Any], autojump_clock: object) -> None:
    link = Link(asking(item))
    with pytest.raises(RemoteInputRequired):
        await have(link, REPEAT)
    assert link.sent == []


@attrs.define
class Insisting(Link):
    """It asks for the secret again, under another id."""

    asked: int = 0

    async def ask(self, request: ClientRequest, *rest: Any) -> Task | TaskPage:
        if isinstance(request, CancelTask):
            self.status = Status("canceled")
            return Task(id="t", context="c", status=self.status)
        answer = await super().ask(request, *rest)
        if isinstance(request, Send):
            self.asked += 1
            self.status = asking({**SECRETS[0], "id": f"f{self.asked}"})
        return answer


async def test_agent_that_asks_for_a_secret_again_and_again_is_cancelled(autojump_clock: object) -> None:
    link = Insisting(asking(SECRETS[0]))
    end = await have(link, REPEAT)
    assert end.result.is_error
    assert "keeps asking" in end.result.content
    assert (len(link.sent), link.status) == (MOST_DECLINED, Status("canceled"))
    assert link.status != DONE
