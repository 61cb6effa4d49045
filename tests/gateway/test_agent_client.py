"""Requests to a running agent, and what becomes of them when it does not answer."""

from __future__ import annotations

from collections.abc import Sequence

import httpx2
import pytest
import trio
from trio.testing import MockClock

from stopgo.gateway.cli.client.agent_client import (
    LONGEST_TURN,
    PATIENCE,
    READ_TIMEOUT,
    TURN_TIMEOUT,
    AgentClient,
    ServerError,
    open_client,
)
from tests.http_client import http_client

REFUSED = httpx2.ConnectError("connection refused")
LOST = httpx2.ReadError("")
LATE = httpx2.ReadTimeout("")
RESTARTS = httpx2.Response(503, json={"error": "the server is stopping", "code": "shutting_down"})
PROXY = httpx2.Response(502, text="<html>")
DONE = httpx2.Response(200, json={"result": "done"})
REFUSAL = httpx2.Response(
    409, json={"error": "too late", "code": "void", "hint": "Ask again.", "approval": {}}
)


class Agent:
    """Answers one after the other, the last one for ever."""

    def __init__(self, *answers: httpx2.Response | Exception, takes: float = 0.0) -> None:
        self.answers = list(answers)
        self.takes = takes
        self.requests: list[httpx2.Request] = []
        http = http_client(transport=httpx2.MockTransport(self.answer))
        self.client = AgentClient("http://agent", {}, http)

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        await trio.sleep(self.takes)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return httpx2.Response(answer.status_code, content=answer.content)


@pytest.mark.parametrize(
    "answers", [[DONE], [REFUSED, DONE], [LOST, RESTARTS, REFUSED, PROXY, LATE, DONE]], ids=len
)
async def test_a_change_is_repeated_with_one_key(
    autojump_clock: MockClock, answers: Sequence[httpx2.Response | Exception]
) -> None:
    agent = Agent(*answers)
    assert await agent.client.post("/do", {"a": 1}) == {"result": "done"}
    assert len(agent.requests) == len(answers)
    assert len({request.headers["Idempotency-Key"] for request in agent.requests}) == 1
    assert {request.content for request in agent.requests} == {b'{"a":1}'}
    assert trio.current_time() < 5.0 * len(answers)


async def test_two_changes_have_two_keys(autojump_clock: MockClock) -> None:
    agent = Agent(DONE)
    await agent.client.post("/do")
    await agent.client.post("/do", wait=False)
    first, second = agent.requests
    assert first.headers["Idempotency-Key"] != second.headers["Idempotency-Key"]
    assert "Prefer" not in first.headers
    assert second.headers["Prefer"] == "respond-async"


async def test_there_is_an_end_to_it(autojump_clock: MockClock) -> None:
    agent = Agent(REFUSED)
    with pytest.raises(ServerError, match="no agent answers at http://agent") as caught:
        await agent.client.post("/do")
    assert caught.value.hint == "It is unknown whether the request was executed."
    assert PATIENCE / 2 < trio.current_time() <= PATIENCE
    assert len(agent.requests) < 60


@pytest.mark.parametrize(
    ("wait", "timeout", "bound"),
    [(True, TURN_TIMEOUT, LONGEST_TURN + TURN_TIMEOUT), (False, READ_TIMEOUT, PATIENCE + READ_TIMEOUT)],
)
async def test_a_server_that_never_answers_is_given_up(
    autojump_clock: MockClock, wait: bool, timeout: float, bound: float
) -> None:
    agent = Agent(LATE, takes=timeout + 1)
    with trio.fail_after(2 * bound), pytest.raises(ServerError, match="not in time"):
        await agent.client.post("/do", wait=wait)
    assert PATIENCE / 2 < trio.current_time() < bound + 60


async def test_a_long_run_is_waited_for(autojump_clock: MockClock) -> None:
    agent = Agent(LATE, LATE, LATE, DONE, takes=TURN_TIMEOUT)
    assert await agent.client.post("/do") == {"result": "done"}


async def test_the_token_is_not_in_the_repr() -> None:
    async with open_client("http://agent", "s3cret") as client:
        assert "s3cret" not in repr(client)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("HTTP_PROXY", "carrier-pigeon://coop", "a proxy in the environment has no valid address"),
        ("SSL_CERT_FILE", "/absent", "the certificates of SSL_CERT_FILE cannot be read"),
    ],
)
async def test_a_wrong_variable_is_told(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str
) -> None:
    for each in ("http_proxy", "no_proxy", "NO_PROXY", "SSL_CERT_DIR"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(name, value)
    with pytest.raises(ServerError, match=says):
        async with open_client("http://agent.example") as client:
            await client.get("/")


async def test_a_refusal_is_told_at_once(autojump_clock: MockClock) -> None:
    agent = Agent(REFUSAL)
    with pytest.raises(ServerError, match="too late") as caught:
        await agent.client.post("/do")
    assert (caught.value.hint, caught.value.status) == ("Ask again.", 409)
    assert caught.value.details["code"] == "void"
    assert len(agent.requests) == 1


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (REFUSED, "no agent answers at http://agent: the connection broke"),
        (LATE, "no agent answers at http://agent: not in time"),
        (httpx2.Response(404, text="nothing here"), "the response has status 404 and is not its JSON"),
        (httpx2.Response(404, json={"detail": "?"}), "the response has status 404 and is not its JSON"),
        (httpx2.Response(200, text="hello"), "the response has status 200 and is not its JSON"),
        (httpx2.Response(200, json=[1]), "the response has status 200 and is not its JSON"),
        (RESTARTS, "the server is stopping"),
    ],
)
async def test_a_look_is_not_repeated(answer: httpx2.Response | Exception, says: str) -> None:
    agent = Agent(answer)
    with pytest.raises(ServerError) as caught:
        await agent.client.get("/look", limit="1")
    assert says in caught.value.message
    assert [str(request.url) for request in agent.requests] == ["http://agent/look?limit=1"]
