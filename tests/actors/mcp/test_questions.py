"""Servers that ask people, over every transport and in both eras: each question reaches its call."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from typing import Any, TypeAlias

import attrs
import psutil
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stopgo.actors.servers.server_status import ServerStatus
from stopgo.actors.tools.tool import (
    CallTool,
    Elicitation,
    ElicitationAnswer,
    ServerMessage,
    ToolInputRequired,
    ToolOutcomeUnknown,
)
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.runtime.ref import ActorRef
from tests.actors.mcp.conftest import SERVERS

Open = Callable[[McpServerConfig], AbstractAsyncContextManager[ActorRef[ServerMessage]]]
OnElicitation: TypeAlias = Callable[[Elicitation], Awaitable[ElicitationAnswer]]

ADA = ElicitationAnswer("accept", {"name": "Ada", "colour": "red"})
SCRIPT = str(SERVERS / "asking_server.py")


@contextmanager
def asking_server(kind: str, env: Mapping[str, str] | None = None, port: int = 0) -> Iterator[str]:
    argv = [sys.executable, "-W", "ignore", SCRIPT, kind, str(port)]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    with asking_server("http") as http, asking_server("sse") as sse:
        yield {"http": http, "sse": sse}


@pytest.fixture(autouse=True)
def no_process_left() -> None:
    """Not here, because the servers of this module are children of this process."""


@pytest.fixture
def config(urls: dict[str, str]) -> Callable[..., McpServerConfig]:
    def made(kind: str, **changes: Any) -> McpServerConfig:
        settings = {"name": "asker", "timeout": 600.0, "connect_timeout": 600.0, **changes}
        if kind == "stdio":
            return McpServerConfig(command=sys.executable, args=("-W", "ignore", SCRIPT), **settings)
        return McpServerConfig(url=urls[kind], **settings)

    return made


Config = Callable[..., McpServerConfig]


def saying(answer: ElicitationAnswer, asked: list[Elicitation] | None = None) -> OnElicitation:
    async def say(elicitation: Elicitation) -> ElicitationAnswer:
        if asked is not None:
            asked.append(elicitation)
        return answer

    return say


@pytest.mark.parametrize("kind", ["stdio", "http", "sse"])
async def test_questions_during_calls_are_answered(serving: Open, config: Config, kind: str) -> None:
    asked: list[Elicitation] = []

    async with serving(config(kind, mode="legacy")) as server:

        async def call(tool: str, text: str, say: OnElicitation | None = None) -> str:
            return (await server.ask(CallTool(tool, {"text": text}, on_elicitation=say))).content

        assert await call("ask", "she", saying(ADA, asked)) == "Ada likes red"
        for action in ("decline", "cancel"):
            assert await call("ask", "x", saying(ElicitationAnswer(action))) == action
        assert await call("ask", "nobody is there") == "decline"
        assert await call("visit", "me", saying(ElicitationAnswer("accept"), asked)) == "accept"
        await must_visit_first(server, kind)
        sampled, listed = await call("sample", "hi"), await server.ask(CallTool("roots", {}))
    question, visit = asked
    assert (question.message, question.url) == ("Who is she?", None)
    assert question.schema is not None
    assert question.schema["properties"]["colour"]["default"] == "blue"
    assert visit == Elicitation("Sign in as me", url="https://sign.in.test/me")
    # Other requests are refused with a reason.
    assert "refused: " in sampled
    assert "ampling" in sampled
    assert "refused: " in listed.content
    assert "oots" in listed.content


async def must_visit_first(server: ActorRef[ServerMessage], name: str) -> None:
    call = CallTool("locked", {"text": name})
    with pytest.raises(ToolInputRequired) as caught:
        await server.ask(call)
    assert dict(caught.value.requests) == {"0": Elicitation("Sign in", url=f"https://sign.in.test/{name}")}
    assert not caught.value.answers
    assert (await server.ask(call)).content == f"{name} is open"


@pytest.mark.parametrize(("kind", "mode"), [("stdio", "auto"), ("http", "modern")])
async def test_prerequisite_is_answered_in_a_second_call(
    serving: Open, config: Config, kind: str, mode: str
) -> None:
    async with serving(config(kind, mode=mode)) as server:
        call = CallTool("resolve", {"text": "she"})
        for answer, told in ((ADA, "Ada likes red"), (ElicitationAnswer("decline"), "decline")):
            with pytest.raises(ToolInputRequired) as caught:
                await server.ask(call)
            wanted = caught.value
            [(name, question)] = wanted.requests.items()
            assert (question.message, wanted.answers) == ("Who is she?", True)
            again = attrs.evolve(call, answers={name: answer}, state=wanted.state)
            assert (await server.ask(again)).content == told
        await must_visit_first(server, f"{kind}-{mode}")


async def test_older_client_is_asked_during_the_call(serving: Open, config: Config) -> None:
    async with serving(config("http", mode="legacy")) as server:
        call = CallTool("resolve", {"text": "she"}, on_elicitation=saying(ADA))
        assert (await server.ask(call)).content == "Ada likes red"


async def test_timeout_is_suspended_while_a_human_answers(
    serving: Open, config: Config, clock: MockClock
) -> None:
    async def think(_: Elicitation) -> ElicitationAnswer:
        clock.jump(1000.0)
        await wait_all_tasks_blocked()
        return ADA

    async with serving(config("stdio", mode="legacy")) as server:
        call = CallTool("ask", {"text": "she"}, on_elicitation=think)
        assert (await server.ask(call)).content == "Ada likes red"


async def test_questions_over_http_reach_their_own_calls(serving: Open, config: Config) -> None:
    """Even if all calls use one connection at the same time."""
    told: dict[str, str] = {}
    everybody, anonymous = trio.Event(), trio.Event()
    asked: list[str] = []

    async with serving(config("http", mode="legacy", max_concurrency=20)) as server:

        async def one(name: str) -> None:
            async def say(elicitation: Elicitation) -> ElicitationAnswer:
                assert elicitation.message == f"Who is {name}?"
                asked.append(name)
                if len(asked) == 20:
                    everybody.set()
                await everybody.wait()
                return ElicitationAnswer("accept", {"name": name})

            call = CallTool("ask", {"text": name}, on_elicitation=say, on_anonymous_question=anonymous.set)
            told[name] = (await server.ask(call)).content

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(one, f"nr{number}")
    assert told == {f"nr{number}": f"nr{number} likes blue" for number in range(20)}
    assert not anonymous.is_set()


@pytest.mark.parametrize("kind", ["stdio", "sse"])
async def test_ambiguous_question_is_declined(
    serving: Open, config: Config, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = trio.Event(), trio.Event()
    results: dict[str, str] = {}
    anonymous: list[str] = []

    async def hold(_: Elicitation) -> ElicitationAnswer:
        first.set()
        await second.wait()
        return ADA

    async def never(_: Elicitation) -> ElicitationAnswer:
        raise AssertionError("this may be somebody else's question")

    async with serving(config(kind, mode="legacy", max_concurrency=2)) as server:

        async def one(name: str, say: OnElicitation) -> None:
            told = partial(anonymous.append, name)
            call = CallTool("ask", {"text": name}, on_elicitation=say, on_anonymous_question=told)
            results[name] = (await server.ask(call)).content

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, "first", hold)
            await first.wait()
            assert anonymous == ["first"]
            await one("second", never)
            assert anonymous == ["first", "first", "second"]
            second.set()
    assert results == {"first": "Ada likes red", "second": "decline"}
    assert "declined a question of the server: 2 calls are in flight" in caplog.text


async def test_abandoned_call_makes_questions_ambiguous(serving: Open, config: Config) -> None:
    """Its question must not be taken for one of the next call."""
    reached = trio.Event()

    async def forever(_: Elicitation) -> ElicitationAnswer:
        reached.set()
        await trio.sleep_forever()

    async def late(_: Elicitation) -> ElicitationAnswer:
        raise AssertionError("this may be the other one's question")

    async with serving(config("stdio", mode="legacy")) as server:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.ask, CallTool("ask", {"text": "given up"}, on_elicitation=forever))
            await reached.wait()
            nursery.cancel_scope.cancel()
        result = await server.ask(CallTool("ask", {"text": "next"}, on_elicitation=late))
        assert result.content == "decline"


async def test_question_ends_with_its_server(
    serving: Open, config: Config, statuses: list[ServerStatus]
) -> None:
    async def kill(_: Elicitation) -> ElicitationAnswer:
        [child] = [each for each in psutil.Process().children() if each.cmdline()[-1] == SCRIPT]
        child.kill()
        await trio.sleep_forever()

    async with serving(config("stdio", mode="legacy")) as server:
        with pytest.raises(ToolOutcomeUnknown, match="connection lost"):
            await server.ask(CallTool("ask", {"text": "x"}, on_elicitation=kill))
