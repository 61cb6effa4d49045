"""Elicitations: during a call, and before the call acts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.actors.calls.lifecycle import ASKED_ON, MAX_ATTEMPTS
from stopgo.actors.common.errors import AgentError
from stopgo.actors.conversation.result import Turn
from stopgo.actors.tools.tool import (
    CallTool,
    Elicitation,
    ElicitationAnswer,
    Hints,
    ToolAuthRequired,
    ToolInputRequired,
    ToolResult,
)
from stopgo.runtime.journal.question import Question
from tests.actors.world import (
    HARMLESS,
    READ_ONLY,
    World,
    answer,
    call,
    code_of,
    events,
    llm,
    parallel,
    say,
    types,
    use,
)
from tests.runtime.journal.kept import intents_of

SECRET = {"properties": {"db_password": {"type": "string", "default": "hunter2"}}}
FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2},
        "born": {"type": "string", "format": "date"},
        "colour": {"type": "string", "enum": ["red", "blue"], "default": "blue"},
        "mail": {"type": "string", "format": "email"},
        "home": {"type": "string", "format": "uri"},
        "seen": {"type": "string", "format": "date-time"},
    },
    "required": ["name", "colour"],
}
NAME_FORM = Elicitation("Who are you?", FORM)
VISIT = Elicitation("Please sign in", url="https://sign.in.test/start?n=1")

Server: TypeAlias = Callable[[CallTool], Awaitable[str | ToolResult]]


class Asking(World):
    """A world whose tools get the whole call, so they can elicit."""

    servers: dict[str, Server]

    def offer(self, name: str, server: Server, hints: Hints = HARMLESS) -> None:
        self.tool(name, hints)
        self.servers = {**getattr(self, "servers", {}), name: server}

    async def _call(self, message: CallTool) -> ToolResult:
        if message.tool not in getattr(self, "servers", {}):
            return await super()._call(message)
        self.ledger.append((message.tool, message.arguments))
        self.bearers.append(message.bearer)
        result = await self.servers[message.tool](message)
        return result if isinstance(result, ToolResult) else ToolResult(result)


@pytest.fixture
def asking(tmp_path: Path) -> Asking:
    world = Asking(tmp_path)
    world.offer("ask", ask_name)
    world.plan("agent", use(call("ask", name="x")), say("done"))
    return world


async def ask_name(message: CallTool) -> str:
    assert message.on_elicitation is not None
    reply = await message.on_elicitation(NAME_FORM)
    return f"{reply.action} {dict(reply.content or {})}"


def two_legs(
    requests: Mapping[str, Elicitation],
    seen: list[CallTool],
    *,
    answers: bool = True,
    state: str | None = "s1",
) -> Server:
    """A tool that demands answers first, then returns them."""

    async def server(message: CallTool) -> str:
        seen.append(message)
        if len(seen) == 1:
            raise ToolInputRequired(requests, state=state, answers=answers)
        reply = {name: each.action for name, each in (message.answers or {}).items()}
        return f"{reply} {message.state}"

    return server


async def only(agent: Agent, id: str) -> Question:
    [pending] = (await agent.get(id)).head.pending
    return await agent.approval(pending)


def result_of(conversation: Any, tool: str = "ask") -> str | None:
    [found] = [m.call for m in conversation.messages if m.call and m.call.name == tool]
    return found.result  # type: ignore[no-any-return]


# ------------------------------------------------------------ in the middle of a call


async def test_a_question_is_an_approval_and_its_answer_reaches_the_server(
    asking: Asking, autojump_clock: MockClock
) -> None:
    async with asking.agent() as agent:
        turn = await agent.start_conversation("go")
        result = answer(turn)
        assert (result.state, result.waiting_approval) == ("waiting", True)
        assert "Who are you?" in result.response
        assert "Please answer" in result.response
        id = turn.conversation.id
        question = await only(agent, id)
        assert (question.kind, question.state) == ("elicitation", "pending")
        assert question.body["tool_name"] == "ask"
        assert question.body["input_schema"] == FORM
        assert "expires" not in question.body
        page = await agent.approvals(kind="elicitation")
        assert [each.id for each in page.approvals] == [question.id]
        turn = await agent.decide(question.id, {"action": "accept", "content": {"name": "Ada"}})
        assert answer(turn).response == "done"
        assert result_of(turn.conversation) == "accept {'name': 'Ada', 'colour': 'blue'}"
    started = [e for e in await events(asking.journal, id) if e.type == "tool.started"]
    assert [e.body["attempt"] for e in started] == [1]


@pytest.mark.parametrize(
    "words",
    [
        {"action": "accept"},
        {"action": "accept", "content": {"name": "A"}},
        {"action": "accept", "content": {"name": "Ada", "colour": "green"}},
        {"action": "accept", "content": {"name": "Ada", "born": "yesterday"}},
        {"action": "accept", "content": {"name": "Ada", "born": "2024-01-31", "mail": "ada"}},
        {"action": "accept", "content": {"name": "Ada", "mail": "a@b", "home": "here"}},
        {"action": "accept", "content": {"name": "Ada", "home": "urn:x", "seen": "now"}},
        {"action": "accept", "content": ["Ada"]},
        {"approved": True},
        {"action": "approve"},
        {"answer": "yes"},
        {},
    ],
)
async def test_invalid_answer_leaves_the_approval_pending(
    asking: Asking, autojump_clock: MockClock, words: Mapping[str, Any]
) -> None:
    async with asking.agent() as agent:
        turn = await agent.start_conversation("go")
        question = await only(agent, turn.conversation.id)
        with pytest.raises(AgentError) as caught:
            await agent.decide(question.id, words)
        no_word = words.get("action") != "accept"
        assert caught.value.code == ("decision_required" if no_word else "invalid_arguments")
        assert "accept" in (caught.value.hint or "")
        assert (await agent.approval(question.id)).state == "pending"


@pytest.mark.parametrize("asked", [NAME_FORM, VISIT])
async def test_an_answer_may_be_repeated(
    asking: Asking, autojump_clock: MockClock, asked: Elicitation
) -> None:
    """Also one that was completed, or kept without its content: by its key it is still the same."""
    asking.offer("ask", two_legs({"q": asked}, []))
    words = {"action": "accept", "content": {"name": "Ada"}}
    async with asking.agent() as agent:
        turn = await agent.start_conversation("go")
        question = await only(agent, turn.conversation.id)
        first = answer(await agent.decide(question.id, words, key="k"))
        assert first.response == "done"
        assert answer(await agent.decide(question.id, words, key="k")) == first
        assert (
            await code_of(agent.decide(question.id, {"action": "accept", "content": {}}, key="another"))
            == "already_decided"
        )


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_declined_question_is_answered(asking: Asking, autojump_clock: MockClock, action: str) -> None:
    async with asking.agent() as agent:
        turn = await agent.start_conversation("go")
        question = await only(agent, turn.conversation.id)
        turn = await agent.decide(question.id, {"action": action, "content": {"name": "ignored"}})
        assert result_of(turn.conversation) == f"{action} {{}}"
        assert answer(turn).response == "done"  # it is no rejection of the call


async def test_expired_question_is_cancelled(asking: Asking, autojump_clock: MockClock) -> None:
    asking.settings["approval"] = {"expires_after": 30, "on_expiry": "fail"}
    async with asking.agent() as agent:
        turn = await agent.start_conversation("go")
        question = await only(agent, turn.conversation.id)
        await trio.sleep(40)
        assert (await agent.approval(question.id)).state == "expired"
        assert result_of(await agent.get(turn.conversation.id)) == "cancel {}"


async def test_waiting_for_an_answer_uses_no_time_limit_and_no_slot(
    asking: Asking, autojump_clock: MockClock
) -> None:
    """No time limit passes, the conversation stays in memory, and other calls may use the slots."""
    asking.settings |= {
        "limits": {"timeout": 20},
        "tools": {"max_parallel": 1},
        "mcp_servers": [{"name": "tools", "command": "none", "max_concurrency": 1}],
        "agent": llm("agent", timeout=10),
    }
    asking.plan("agent", use(call("ask"), call("ask")), say("done"), turn=1)
    async with asking.agent() as agent:
        turn = await agent.start_conversation("go")
        assert asking.called("ask") == 2
        await trio.sleep(500)
        assert agent._cast.conversations.active
        for question in turn.conversation.head.pending:
            turn = await agent.decide(question, {"action": "accept", "content": {"name": "Ada"}})
        assert answer(turn).response == "done"
        await trio.sleep(5)
        assert not agent._cast.conversations.active


async def test_questions_of_a_call_are_put_one_at_a_time(asking: Asking, autojump_clock: MockClock) -> None:
    async def twice(message: CallTool) -> str:
        reply: dict[str, ElicitationAnswer] = {}

        async def one(text: str) -> None:
            assert message.on_elicitation is not None
            reply[text] = await message.on_elicitation(Elicitation(text))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, "first?")
            nursery.start_soon(one, "second?")
        return ", ".join(sorted(f"{text} {each.action}" for text, each in reply.items()))

    asking.offer("ask", twice)
    async with asking.agent() as agent:
        turn = await agent.start_conversation("go")
        for action in ("accept", "decline"):
            question = await only(agent, turn.conversation.id)
            turn = await agent.decide(question.id, {"action": action})
        assert answer(turn).response == "done"
        assert result_of(turn.conversation) in (
            "first? accept, second? decline",
            "first? decline, second? accept",
        )


async def test_answers_reach_the_calls_of_their_branches(asking: Asking, autojump_clock: MockClock) -> None:
    asking.settings |= {
        "agent": parallel("fan", llm("a"), llm("b")),
        "mcp_servers": [{"name": "tools", "command": "none", "max_concurrency": 2}],
    }
    for name in "ab":
        asking.plan(name, use(call("ask", name=name)), say(name))
    async with asking.agent() as agent:
        turn = await agent.start_conversation("go")
        by_node = {}
        for id in turn.conversation.head.pending:
            question = await agent.approval(id)
            by_node[question.body["node"]] = id
        await agent.decide(by_node["b"], {"action": "decline"})
        turn = await agent.decide(by_node["a"], {"action": "accept", "content": {"name": "Ada"}})
        assert answer(turn).state == "finished"
        results = {m.node: m.call.result for m in turn.conversation.messages if m.call}
        assert results == {"a": "accept {'name': 'Ada', 'colour': 'blue'}", "b": "decline {}"}


async def test_question_without_call_id_serializes_later_calls(
    asking: Asking, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "stopgo.mcp.tools")
    under_way, most = 0, 0

    async def work(message: CallTool) -> str:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await trio.sleep(1)
        if under_way == 4:
            assert message.on_anonymous_question is not None
            message.on_anonymous_question()
        under_way -= 1
        return "done"

    asking.offer("work", work)
    four = use(*[call("work")] * 4)
    asking.plan("agent", four, say("1"))
    asking.plan("agent", four, say("2"), turn=2)
    async with asking.agent() as agent:
        turn = await agent.start_conversation("go")
        assert (under_way, most) == (0, 4)
        most = 0
        await agent.send(turn.conversation.id, "again")
        assert (under_way, most, asking.called("work")) == (0, 1, 8)
    assert caplog.text.count("one at a time") == 1


async def test_cancelling_the_run_cancels_open_questions(asking: Asking, autojump_clock: MockClock) -> None:
    async def insist(message: CallTool) -> str:
        reply = await ask_name(message)
        assert await ask_name(message) == reply  # without asking a person again
        return reply

    asking.offer("ask", insist)
    async with asking.agent() as agent:
        turn: Turn = await agent.start_conversation("go")
        question = await only(agent, turn.conversation.id)
        turn = await agent.cancel(turn.conversation.id)
        assert answer(turn).state == "cancelled"
        assert (await agent.approval(question.id)).state == "void"
        # The server got the cancellation, so the call ended and its outcome is known.
        assert result_of(turn.conversation) == "cancel {}"
        assert (
            await code_of(agent.decide(question.id, {"action": "accept", "content": {"name": "Ada"}}))
            == "void"
        )


async def test_call_that_ends_unanswered_voids_its_question(
    asking: Asking, autojump_clock: MockClock
) -> None:
    async def impatient(message: CallTool) -> str:
        with trio.move_on_after(60):
            await ask_name(message)
        return "too late"

    asking.offer("ask", impatient)
    async with asking.agent() as agent:
        turn = await agent.start_conversation("go")
        question = await only(agent, turn.conversation.id)
        await trio.sleep(70)
        conversation = await agent.get(turn.conversation.id)
        assert conversation.head.run is not None
        assert conversation.head.run.state == "finished"
        assert result_of(conversation) == "too late"
        assert (await agent.approval(question.id)).state == "void"
        assert await code_of(agent.decide(question.id, {"action": "decline"})) == "void"
    log = await types(asking.journal, turn.conversation.id)
    waiting = log.index("run.waiting")
    assert log[waiting + 1 : waiting + 4] == ["tool.finished", "approval.void", "run.resumed"]


@pytest.mark.parametrize(
    "elicitation",
    [
        Elicitation("x" * 70_000),
        Elicitation("Look here", url="javascript:alert(1)"),
        Elicitation("Look here", url="file:///etc/passwd"),
        Elicitation("Look here", url="https://[broken"),
        Elicitation("Log in", SECRET),
    ],
)
async def test_unaskable_question_is_declined(
    asking: Asking, autojump_clock: MockClock, elicitation: Elicitation, caplog: pytest.LogCaptureFixture
) -> None:
    async def server(message: CallTool) -> str:
        assert message.on_elicitation is not None
        return (await message.on_elicitation(elicitation)).action

    asking.offer("ask", server)
    async with asking.agent() as agent:
        turn = await agent.start_conversation("go")
        assert result_of(turn.conversation) == "decline"
    assert 'declined a question in a call of the tool "ask": ' in caplog.text


async def test_form_asking_for_a_secret_is_declined_and_not_stored(
    asking: Asking, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[CallTool] = []
    asking.offer("ask", two_legs({"in": Elicitation("Log in", SECRET), "who": NAME_FORM}, seen))
    async with asking.agent() as agent:
        turn = await agent.start_conversation("go")
        question = await only(agent, turn.conversation.id)
        assert question.body["input_schema"] == FORM
        turn = await agent.decide(question.id, {"action": "decline"})
    assert result_of(turn.conversation) == "{'in': 'decline', 'who': 'decline'} s1"
    assert "hunter2" not in str(await events(asking.journal, turn.conversation.id))
    assert "its form asks for a secret ('db_password')" in caplog.text


async def test_shutdown_cancels_open_questions(asking: Asking, autojump_clock: MockClock) -> None:
    """So the call can end, and its outcome is known."""

    async def clean_up(message: CallTool) -> str:
        reply = await ask_name(message)
        assert await ask_name(message) == reply  # without asking a person again
        await trio.sleep(8)
        return reply

    asking.offer("ask", clean_up)
    async with asking.agent() as agent:
        turn = await agent.start_conversation("go")
        question = await only(agent, turn.conversation.id)
        began = trio.current_time()
        await agent.drain(10)
        assert trio.current_time() == began + 8
    async with asking.agent() as agent:
        await trio.sleep(5)
        conversation = await agent.get(turn.conversation.id)
        assert result_of(conversation) == "cancel {}"
        assert conversation.messages[-1].content == "done"
        assert (await agent.approval(question.id)).state == "void"


@pytest.mark.parametrize("hints", [HARMLESS, READ_ONLY])
async def test_question_in_flight_is_voided_after_restart(
    asking: Asking, autojump_clock: MockClock, hints: Hints
) -> None:
    async def deaf(message: CallTool) -> str:
        await ask_name(message)
        return await trio.sleep_forever()

    asking.offer("ask", deaf, hints)
    async with asking.agent() as agent:
        turn = await agent.start_conversation("go")
        id = turn.conversation.id
        question = await only(agent, id)
        assert await asking.journal.open_work() == (id,)
    asking.offer("ask", ask_name, hints)
    async with asking.agent() as agent:
        await trio.sleep(5)
        assert (await agent.approval(question.id)).state == "void"
        conversation = await agent.get(id)
        if hints is READ_ONLY:  # may be repeated: it was, and asks again
            assert asking.called("ask") == 2
            again = await only(agent, id)
            turn = await agent.decide(again.id, {"action": "decline"})
            assert result_of(turn.conversation) == "decline {}"
        else:
            assert asking.called("ask") == 1
            assert "unknown" in str(result_of(conversation))
            assert conversation.messages[-1].content == "done"


# -------------------------------------------------- before anything is done for a call


@pytest.mark.parametrize("restart", [False, True])
async def test_next_attempt_brings_the_answers(
    asking: Asking, autojump_clock: MockClock, restart: bool
) -> None:
    seen: list[CallTool] = []
    asking.offer("ask", two_legs({"who": NAME_FORM, "where": VISIT}, seen))
    async with asking.agent() as agent:
        turn = await agent.start_conversation("go")
        id = turn.conversation.id
        [paused] = [m.call for m in turn.conversation.messages if m.call]
        assert paused.state == "waiting"
        put = [await agent.approval(each) for each in turn.conversation.head.pending]
        first, second = (each.id for each in sorted(put, key=lambda each: "url" in each.body))
        assert (await agent.approval(second)).body["url"] == VISIT.url
        await agent.decide(second, {"action": "accept", "content": {"not": "asked for"}})
        await trio.sleep(60)
        assert not agent._cast.conversations.active  # nothing of it is in memory
        if not restart:
            turn = await agent.decide(first, {"action": "accept", "content": {"name": "Ada"}})
    if restart:
        async with asking.agent() as agent:
            await trio.sleep(5)
            assert len(seen) == 1
            turn = await agent.decide(first, {"action": "accept", "content": {"name": "Ada"}})
    assert answer(turn).response == "done"
    assert seen[0].answers is None
    assert seen[1].answers == {
        "who": ElicitationAnswer("accept", {"name": "Ada", "colour": "blue"}),
        "where": ElicitationAnswer("accept"),
    }
    assert seen[1].state == "s1"
    assert seen[1].arguments == {"name": "x"}
    intents = [(i.attempt, i.state) for i in await intents_of(asking.journal, id)]
    assert intents == [(1, "finished"), (2, "finished")]


async def test_declined_prerequisite_is_sent_with_the_next_attempt(
    asking: Asking, autojump_clock: MockClock
) -> None:
    seen: list[CallTool] = []
    asking.settings["approval"] = {"expires_after": 30}
    asking.offer(
        "ask", two_legs({"a": NAME_FORM, "b": NAME_FORM, "c": Elicitation("!", url="ftp://x")}, seen)
    )
    async with asking.agent() as agent:
        turn = await agent.start_conversation("go")
        put = [await agent.approval(each) for each in turn.conversation.head.pending]
        [first] = [each.id for each in put if each.body["question"].endswith("^1.0")]
        await agent.decide(first, {"action": "decline"})
        await trio.sleep(40)
        assert result_of(await agent.get(turn.conversation.id)) == (
            "{'a': 'decline', 'b': 'cancel', 'c': 'decline'} s1"
        )


async def test_server_that_keeps_asking_is_given_up(asking: Asking, autojump_clock: MockClock) -> None:
    async def server(message: CallTool) -> str:
        assert asking.called("ask") < 1000
        raise ToolInputRequired({"c": Elicitation("!", url="ftp://x")})

    asking.offer("ask", server)
    async with asking.agent() as agent:
        turn = await agent.start_conversation("go")
        assert answer(turn).response == "done"
        assert result_of(turn.conversation) == ASKED_ON
    assert asking.called("ask") == MAX_ATTEMPTS


@pytest.mark.parametrize("action", ["accept", "decline"])
async def test_url_elicitation_before_the_call(
    asking: Asking, autojump_clock: MockClock, action: str
) -> None:
    seen: list[CallTool] = []
    asking.offer("ask", two_legs({"1": VISIT}, seen, answers=False, state=None))
    async with asking.agent() as agent:
        turn = await agent.start_conversation("go")
        assert str(VISIT.url) in answer(turn).response
        turn = await agent.decide(turn.conversation.head.pending[0], {"action": action})
        assert answer(turn).response == "done"
    if action == "accept":
        assert [each.answers for each in seen] == [None, None]
        assert result_of(turn.conversation) == "{} None"
    else:
        assert len(seen) == 1
        assert "declined" in str(result_of(turn.conversation))


async def test_answers_survive_a_later_token_prerequisite(asking: Asking, autojump_clock: MockClock) -> None:
    asking.settings["mcp_servers"] = [{"name": "tools", "url": "http://127.0.0.1:1/mcp"}]
    seen: list[CallTool] = []
    inner = two_legs({"who": NAME_FORM}, seen)

    async def server(message: CallTool) -> str | ToolResult:
        if message.answers is not None and message.bearer != "good":
            raise ToolAuthRequired("HTTP 401", status=401)
        return await inner(message)

    asking.offer("ask", server)
    async with asking.agent() as agent:
        turn = await agent.start_conversation("go", token="stale")
        turn = await agent.decide(turn.conversation.head.pending[0], {"action": "decline"})
        assert answer(turn).state == "auth_required"
    async with asking.agent() as agent:
        turn = await agent.resume(turn.conversation.id, token="good")
    assert result_of(turn.conversation) == "{'who': 'decline'} s1"
    assert [i.attempt for i in await intents_of(asking.journal, turn.conversation.id)] == [1, 2, 3]


async def test_lists_say_what_the_conversation_says(asking: Asking, autojump_clock: MockClock) -> None:
    async with asking.agent() as agent:
        turn = await agent.start_conversation("go")
        [item] = (await agent.conversations()).conversations
        assert item.head == turn.conversation.head
        assert item.head.in_flight == item.head.pending
