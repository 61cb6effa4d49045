"""Questions of agents of other makes, and the answers that these understand.

The right values are those of the sources named in `foreign_questions`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, cast

import attrs
import pytest

from stopgo.actors.a2a.agent_link import AgentLink, Contact, FoundCard
from stopgo.actors.a2a.exchange import ASKED_AGAIN, Exchange
from stopgo.actors.a2a.outgoing import foreign_message
from stopgo.actors.a2a.remote_state import items_of
from stopgo.actors.a2a.wire.a2a_headers import HITL, IDEMPOTENCY
from stopgo.actors.a2a.wire.card_reader import Card, read_card
from stopgo.actors.a2a.wire.client_codec import Interface
from stopgo.actors.a2a.wire.task import (
    Artifact,
    ClientRequest,
    Data,
    GetTask,
    Message,
    Part,
    Send,
    Status,
    Task,
    Text,
)
from stopgo.actors.tools.delegation import (
    Delegate,
    Delegated,
    Hop,
    RemoteAnswer,
    RemoteInputRequired,
    RemoteItem,
    RemoteTask,
)
from stopgo.config.sections.a2a import RemoteAgentConfig

YES, NO = {"approved": True}, {"approved": False, "reason": "mine"}


def asking(*parts: Part, metadata: Mapping[str, Any] | None = None, **more: Any) -> Task:
    message = Message(id="m", role="agent", parts=parts, metadata=metadata)
    return Task(id="t", context="c", status=Status("input-required", message=message), **more)


def hitl(**request: Any) -> Task:
    return asking(Text("Allow these calls?"), metadata={HITL: request})


def confirmation(id: str, tool: str = "rm") -> Data:
    call = {"id": f"of {id}", "name": tool, "args": {"path": "/x"}}
    asked = {"originalFunctionCall": call, "toolConfirmation": {"hint": "Sure?", "confirmed": False}}
    said = {"id": id, "name": "adk_request_confirmation", "args": asked}
    return Data(said, metadata={"adk_type": "function_call", "adk_is_long_running": True})


TOOLS = hitl(
    type="tool_approval_request",
    hint="Allow these calls?",
    tools=[
        {"id": "a", "call_id": "1", "name": "deploy", "args": {"to": "prod"}},
        {"id": "b", "call_id": "2", "name": "rm", "args": {}},
    ],
)
ASKS = hitl(
    type="ask_user_request",
    id="q",
    questions=[
        {"question": "Where?", "choices": ["here", "there"], "multiple": False},
        {"question": "What?", "choices": ["x", "y"], "multiple": True},
        {"question": "Why?"},
    ],
)
ADK = asking(confirmation("c1"), confirmation("c2", "mv"))
STRANDS = asking(
    Text("Agent requires input:\n- approve: delete"),
    Data({"interrupts": [{"interruptId": "i1", "name": "approve", "reason": {"path": "/x"}}]}),
)


def test_questions_of_kagent() -> None:
    first, second = items_of(TOOLS)
    assert (first.id, first.tool, first.arguments, first.form) == ("a", "deploy", {"to": "prod"}, "hitl")
    assert first.description == 'Allow these calls?\ndeploy({"to": "prod"})'
    assert (second.id, second.description) == ("b", "Allow these calls?\nrm()")
    [asked] = items_of(ASKS)
    assert (asked.id, asked.kind, asked.form) == ("q", "elicitation", "hitl")
    assert asked.schema == {
        "type": "object",
        "properties": {
            "answer_1": {"type": "string", "enum": ["here", "there"], "title": "Where?"},
            "answer_2": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}, "title": "What?"},
            "answer_3": {"type": "string", "title": "Why?"},
        },
        "required": ["answer_1", "answer_2", "answer_3"],
    }
    nested = {
        "subagent_name": "child",
        "task_id": "t",
        "context_id": "c",
        "tools": [{"id": "n", "name": "rm"}],
    }
    [item] = items_of(hitl(type="tool_approval_request", hint="?", nested=nested))
    assert (item.id, item.tool, item.agents) == ("n", "rm", ("child",))


def test_questions_of_adk_and_strands() -> None:
    first, second = items_of(ADK)
    assert (first.id, first.tool, first.arguments, first.form) == ("c1", "rm", {"path": "/x"}, "adk")
    assert first.description == 'Sure?\nrm({"path": "/x"})'
    assert second.id == "c2"
    [item] = items_of(STRANDS)
    assert (item.id, item.tool, item.form) == ("i1", "approve", "strands")
    assert item.description == '{"path": "/x"}\napprove()'


def test_all_that_a_question_says_is_shown() -> None:
    """ADK's confirmation has a payload beside its hint; arguments and hints may be of any type."""
    call = {"name": "rm", "args": ["/x", "/y"]}
    confirms = {"originalFunctionCall": call, "toolConfirmation": {"hint": "Sure?", "payload": {"days": 3}}}
    [item] = items_of(asking(Data({"id": "c", "name": "adk_request_confirmation", "args": confirms})))
    assert item.description == 'Sure?\n{"days": 3}\nrm(["/x", "/y"])'
    tools = [{"id": "a", "args": "rm -rf /"}]
    [item] = items_of(hitl(type="tool_approval_request", hint={"why": "x"}, tools=tools))
    assert item.description == '{"why": "x"}\n(rm -rf /)'


@pytest.mark.parametrize(
    "task",
    [
        hitl(type="tool_approval_request", tools=[7, {"id": 7}, {"id": ""}]),
        hitl(type="tool_approval_request", tools="all"),
        hitl(type="other"),
        asking(Data({"name": "adk_request_confirmation", "args": {}})),
        asking(Data({"interrupts": [{"interruptId": None}, 7]})),
        asking(Data({"interrupts": {}})),
    ],
)
def test_question_of_another_shape_is_asked_in_words(task: Task) -> None:
    [item] = items_of(task)
    assert (item.id, item.form) == (None, "")


REQUEST = Delegate(agent="peer", text="wipe", key="k", hop=Hop(session_id="s"), task=RemoteTask("t", "c"))


def answers(task: Task, *words: Mapping[str, Any]) -> Delegate:
    """An exchange that brings these answers to the questions of the task, as the runtime restores them."""
    items = items_of(task)
    restored = [RemoteItem(message=i.message, id=i.id, kind=i.kind, form=i.form) for i in items]
    agree = [each.get("approved") is True or each.get("action") == "accept" for each in words]
    given = [RemoteAnswer(*each) for each in zip(restored, words, agree, strict=True)]
    return attrs.evolve(REQUEST, items=items, answers=given)


def sent(task: Task, *words: Mapping[str, Any]) -> Message:
    request = answers(task, *words)
    return foreign_message(request, RemoteTask("t", "c"), request.answers)


def test_answers_to_kagent_are_one_response() -> None:
    message = sent(TOOLS, YES, NO)
    assert message.extensions == (HITL,)
    assert (message.metadata or {})[HITL] == {
        "type": "tool_approval_response",
        "approvals": [
            {"id": "a", "approved": True},
            {"id": "b", "approved": False, "rejection_reason": "mine"},
        ],
    }
    assert (message.task, message.context, message.parts) == ("t", "c", (Text("rejected"),))


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (
            {"action": "accept", "content": {"answer_1": "here", "answer_2": ["x", "y"], "answer_3": "so"}},
            [["here"], ["x", "y"], ["so"]],
        ),
        ({"action": "decline"}, [[], [], []]),
        ({"action": "cancel"}, [[], [], []]),
    ],
)
def test_form_of_kagent_is_answered(words: Mapping[str, Any], given: Sequence[Any]) -> None:
    message = sent(ASKS, words)
    assert (message.metadata or {})[HITL] == {
        "type": "ask_user_response",
        "id": "q",
        "answers": [{"answer": each} for each in given],
    }


def test_answers_to_adk_are_function_responses() -> None:
    assert sent(ADK, YES, NO).parts == [
        Data(
            {"id": id, "name": "adk_request_confirmation", "response": {"confirmed": confirmed}},
            metadata={"adk_type": "function_response", "kagent_type": "function_response"},
        )
        for id, confirmed in (("c1", True), ("c2", False))
    ]


@pytest.mark.parametrize(
    ("words", "response"),
    # A handler that takes any true value for consent must not get a word for "no".
    [(YES, "y"), (NO, ""), ({"approved": 1}, ""), ({}, ""), ({"action": "cancel"}, "")],
)
def test_answer_to_strands_is_the_response_of_the_interrupt(words: Mapping[str, Any], response: str) -> None:
    expected = {"interruptResponse": {"interruptId": "i1", "response": response}}
    assert sent(STRANDS, words).parts == [Data(expected)]


@pytest.mark.parametrize(
    ("extensions", "active"),
    # An agent of this runtime asks in its own form, which says more.
    [((), ()), ((HITL,), (HITL,)), ((HITL, IDEMPOTENCY), (IDEMPOTENCY,)), (("urn:x",), ())],
)
async def test_extension_of_kagent_is_activated_if_the_card_names_it(
    extensions: Sequence[str], active: Sequence[str]
) -> None:
    class Found(AgentLink):
        async def _find_card(self) -> Card:
            url = "http://peer.test"
            interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            named = {"extensions": [{"uri": uri} for uri in extensions]}
            body = {"name": "peer", "supportedInterfaces": [interface], "capabilities": named}
            self.found = FoundCard(url, body)
            return read_card(body)

    config = RemoteAgentConfig(name="peer", url="http://peer.test")
    link = Found(config, lambda status: None, logging.getLogger("stopgo.a2a.peer"))
    assert link._extensions(await link.contact()) == active


# -------------------------------------------------------------------------- exchanges


@attrs.define
class Link:
    """To an agent that asks `asked`, and has `after` when it has got an answer."""

    asked: Task
    after: Task
    sent: list[Message] = attrs.field(factory=list)

    async def contact(self, *, again: bool = False) -> Contact:
        return Contact(Interface("http://peer.test", "JSONRPC", "1.0"), streaming=False, idempotent=False)

    async def ask(self, request: ClientRequest, *_: Any) -> Task:
        match request:
            case Send(message=message):
                self.sent.append(message)
                return self.after
            case GetTask():
                return self.after if self.sent else self.asked
            case _:
                raise AssertionError(request)


async def outcome(link: Link, request: Delegate) -> Delegated:
    config = RemoteAgentConfig(name="peer", url="http://peer.test")
    log = logging.getLogger("stopgo.a2a.peer")
    return await Exchange(config, cast(AgentLink, link), request, log, 1000).run()


def done(*parts: Part, shown: Sequence[Part] = ()) -> Task:
    history = [Message(id="h", role="agent", parts=list(shown))]
    made = (Artifact(id="a", parts=list(parts)),)
    return Task(id="t", context="c", status=Status("completed"), artifacts=made, history=history)


@pytest.mark.parametrize("task", [TOOLS, ADK], ids=["kagent", "adk"])
async def test_all_answers_are_one_message(task: Task, autojump_clock: object) -> None:
    link = Link(task, done(Text("deployed")))
    assert (await outcome(link, answers(task, YES, YES))).result.content == "deployed"
    assert len(link.sent) == 1


WORDS = asking(Text("May I?"))


@pytest.mark.parametrize(
    ("task", "again"),
    [
        (asking(confirmation("c1")), asking(confirmation("c9"))),
        (
            STRANDS,
            asking(
                Text("Agent requires input:\n- approve: delete"),
                Data({"interrupts": [{"interruptId": "i2", "name": "approve", "reason": {"path": "/x"}}]}),
            ),
        ),
        (
            WORDS,
            attrs.evolve(
                WORDS,
                status=Status(
                    "input-required", message=Message(id="n", role="agent", parts=(Text("May I?"),))
                ),
            ),
        ),
    ],
    ids=["adk", "strands", "words"],
)
async def test_same_question_after_the_answer_is_told(
    task: Task, again: Task, autojump_clock: object
) -> None:
    with pytest.raises(RemoteInputRequired) as asked:
        await outcome(Link(task, again), answers(task, YES))
    [item] = items_of(again)
    assert asked.value.refusals == {item.name: ASKED_AGAIN}


async def test_other_question_after_the_answer_is_new(autojump_clock: object) -> None:
    with pytest.raises(RemoteInputRequired) as asked:
        await outcome(Link(WORDS, asking(confirmation("c1"))), answers(WORDS, YES))
    assert asked.value.refusals == {}


CALL = Data({"id": "of c1", "name": "rm", "args": {"path": "/x"}}, metadata={"adk_type": "function_call"})
NOT_YET = Data({"id": "of c1", "name": "rm", "response": {"error": "This tool call requires confirmation."}})
RAN = Data({"id": "of c1", "name": "rm", "response": {"result": "gone"}})


@pytest.mark.parametrize(
    ("shown", "words", "is_error"),
    [
        ((CALL, NOT_YET), YES, True),
        ((CALL,), YES, True),
        ((CALL, NOT_YET, RAN), YES, False),
        ((), YES, False),  # an agent that shows no calls is believed
        ((CALL, NOT_YET), NO, False),
    ],
)
async def test_end_without_the_approved_call_is_an_error(
    shown: Sequence[Part], words: Mapping[str, Any], is_error: bool, autojump_clock: object
) -> None:
    asked = asking(confirmation("c1"))
    result = (await outcome(Link(asked, done(Text("All done."), shown=shown)), answers(asked, words))).result
    assert result.is_error is is_error
    assert result.content.endswith("All done.")
    assert ("ended without the approved call: rm" in result.content) is is_error


@pytest.mark.parametrize("questions", [[{"choices": 5}], [{"choices": True}], [{"choices": "ab"}], [7, None]])
def test_form_of_any_shape_is_read(questions: list[object]) -> None:
    task = hitl(type="ask_user_request", id="q", questions=questions)
    [item] = items_of(task)
    assert item.schema is not None
    assert all(field["type"] == "string" for field in item.schema["properties"].values())
    assert "enum" not in str(item.schema)
