"""An agent that lies ends in a clear result or in a question, within bounds, and learns no secret elsewhere.

What the words and the cards are that it lies with, says testdata/servers/lying_agent.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import psutil
import pytest
import trio

from stopgo.actors.agent.agent import Agent
from stopgo.actors.calls import remote_exchange
from stopgo.actors.common.errors import AgentError
from stopgo.actors.conversation.result import Result
from tests.a2a_servers.caller import Talk, calling, shared_peer
from tests.a2a_servers.peer_process import Json, Peer
from tests.canary import KEY, TOKEN
from tests.http_client import http_client
from tests.waiting import LIMIT, until

pytestmark = pytest.mark.agents

WAYS: Mapping[str, Sequence[str]] = {
    "streamed": (),
    "polled": ("--no-streaming",),
    "HTTP+JSON": ("--binding", "HTTP+JSON"),
}
ENDS = {
    "echo": ("finished", r"echo: \w+"),
    "done": ("finished", r"done"),
    "after all": ("finished", r"after all"),
    "asks": ("waiting", r"This action requires approval:\n\n\*\*PROXY APPROVAL — A2A Agent: peer.*"),
    "in doubt": ("waiting", r"\*\*OUTCOME UNKNOWN\*\*.*agent \"peer\" answered with another task.*"),
    "wants a token": ("auth_required", r"Agent \"peer\" needs a bearer token, and answered HTTP 401\..*"),
    "cancelled": ("cancelled", r"The run was cancelled\."),
    "unavailable": ("failed", r"sub-agent unavailable: peer \(.+\)"),
    "unknown": ("failed", r"The outcome is unknown: agent \"peer\".+ The call was not repeated\."),
    "took too long": ("failed", r"agent \"peer\" took longer than [\d.]+ s; its task was cancelled"),
    "failed": ("failed", r"what is .*\?"),
}
"""What people are told, as the tables call it."""
FOR_EVER = "asks, yes, asks, yes, asks, yes, asks, cancel, cancelled"
LIES = {
    "echo a": "echo",
    "dance": "failed",
    "ask Now?": "asks, yes, done",
    "ask forever": FOR_EVER,
    "login forever": "wants a token, t1, wants a token, t2, wants a token, cancel, cancelled",
    "unauthorized": "wants a token, t1, wants a token, t2, wants a token, cancel, cancelled",
    "restless": "asks, no use, asks, no use, asks, cancel, cancelled",
    "contradict first": FOR_EVER,
    "contradict completed": FOR_EVER,
    "contradict asking": "done",
    "contradict after": "done",
    "other answer": "asks, yes, in doubt",
    "other get": "unknown",
    "other context": "asks, yes, done",
    "id huge": "unknown",
    "id path": "asks, yes, done",
    "id empty": "unknown",
    "id control": "asks, yes, done",
    "id number": "unknown",
    "id same": "asks, yes, done",
    "cut clean": "after all",
    "cut event": "after all",
    "cut reset": "after all",
    "cut unsupported": "after all",
    "cut unheard": "after all",
    "cut invalid": "after all",
    "cut before": "unknown",
    "redirect 302": "unavailable",
    "redirect 307": "unavailable",
    "redirect 307 loop": "unavailable",
    "status 204": "unknown",
    "status 400": "unavailable",
    "status 404": "unavailable",
    "status 429": "unavailable",
    "status 500": "unknown",
    "status 503": "unknown",
    **{f"garbage {kind}": "asks" for kind in ("surrogate", "partless")},
    **{f"garbage {kind}": "done" for kind in ("both", "id")},
    **{
        f"garbage {kind}": "unknown"
        for kind in (
            *(
                "words",
                "nothing",
                "null",
                "list",
                "deep",
                "utf8",
                "halved",
                "text",
                "neither",
                "types",
                "bare",
            ),
            *("state", "number", "infinite", "parts", "resultless", "error", "code", "doubt"),
        )
    },
}
ELSE = {
    # In the events of a stream, what is no UTF-8 is replaced. The question has arrived, so no look is needed.
    "streamed": {"garbage utf8": "asks"},
    # Without a stream there is no name of the task before the answer is complete.
    "polled": dict.fromkeys([words for words in LIES if LIES[words] == "after all"], "unknown"),
    # An answer of JSON-RPC is none here.
    "HTTP+JSON": {"garbage id": "unknown", "garbage utf8": "asks"},
}
"""What is otherwise, in some of the ways."""
ENDLESS = {
    "endless updates": "took too long",
    "endless comments": "took too long",
    "endless drip": "took too long",
    "endless silence": "took too long",
    "endless head": "unknown",
    "other stream": "took too long",
}
NOT_ACCEPTED = {"redirect", "status", "unauthorized"}
"""What is tried again, since nothing has come of it."""


@pytest.fixture(scope="module", params=WAYS)
def peer(request: pytest.FixtureRequest) -> Iterator[Peer]:
    with shared_peer("lying", *WAYS[request.param]) as found:
        yield found


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEER_KEY", KEY)


@pytest.fixture
def way(request: pytest.FixtureRequest) -> str:
    found: str = request.node.callspec.params["peer"]
    return found


@asynccontextmanager
async def trusting(folder: Path, peer: Peer, **entry: Any) -> AsyncIterator[Agent]:
    """Our agent, with a secret for the peer. Whatever that did, it may still be asked for something else; and
    the other origin got nothing."""
    entry = {"timeout": LIMIT, "reconnect_timeout": 0.2, "headers": {"X-Api-Key": "${PEER_KEY}"}, **entry}
    async with calling(folder, peer.url, **entry) as agent:
        yield agent


async def still_works(agent: Agent, peer: Peer) -> None:
    assert (await Talk.begin(agent, "echo still", token=TOKEN)).told == ("finished", "echo: still")
    assert peer.requests(at="elsewhere") == []


def end(result: Result) -> str:
    for name, (state, text) in ENDS.items():
        if result.state == state and re.fullmatch(text, result.response, re.DOTALL):
            return name
    return f"{result.state}: {result.response}"


async def play(talk: Talk, acts: Sequence[str]) -> str:
    """What came of the first message, and of each act."""
    found = [end(talk.result)]
    for act in acts:
        match act:
            case "yes":
                await talk.decide()
            case "no use":
                with pytest.raises(AgentError, match="void"):
                    await talk.decide()
                talk.turn = attrs.evolve(talk.turn, result=await asked_anew(talk))
            case "cancel":
                await talk.cancel()
            case _:
                await talk.resume(act)
        found += [act, end(talk.result)]
    return ", ".join(found)


async def asked_anew(talk: Talk) -> Result:
    """The result as it is when the next question is there."""
    async for event in talk.agent.events(talk.id, talk.turn.conversation.last_seq):
        if event.type == "approval.requested":
            id, text = event.body["id"], f"This action requires approval:\n\n{event.body['description']}"
            return attrs.evolve(talk.result, approval_ids=(id,), response=text)
    raise AssertionError


async def told_all(agent: Agent, peer: Peer, lies: Mapping[str, str]) -> dict[str, str]:
    """Tell all these lies side by side; what came of each."""
    found: dict[str, str] = {}

    async def tell(words: str, expected: str) -> None:
        _, *rest = expected.split(", ")
        talk = await Talk.begin(agent, words, token=TOKEN)
        found[words] = await play(talk, rest[::2])
        if words.split()[0] not in NOT_ACCEPTED:
            assert talk.sent(peer).count(words) == 1

    async with trio.open_nursery() as nursery:
        for words, expected in lies.items():
            nursery.start_soon(tell, words, expected)
    return found


async def test_each_lie_has_an_end(peer: Peer, way: str, tmp_path: Path) -> None:
    expected = LIES | ELSE.get(way, {})
    async with trusting(tmp_path, peer) as agent:
        assert await told_all(agent, peer, expected) == expected
        await still_works(agent, peer)


async def test_what_never_ends(peer: Peer, way: str, tmp_path: Path) -> None:
    nameless = [words for words in ENDLESS if way == "polled" and words.startswith("endless")]
    expected = ENDLESS | dict.fromkeys(nameless, "unknown")
    async with trusting(tmp_path, peer, timeout=0.7) as agent:
        assert await told_all(agent, peer, expected) == expected
        await still_works(agent, peer)


async def test_it_works_on_when_it_is_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets some time to stop."""
    monkeypatch.setattr(remote_exchange, "REMOTE_GRACE", 0.1)
    with shared_peer("lying") as peer:
        async with trusting(tmp_path, peer) as agent:
            talk = await Talk.begin(agent, "stubborn", wait=False, token=TOKEN)
            task = (await talk.until("tool.accepted")).body["remote_task"]
            await talk.cancel()
            assert end(talk.result) == "cancelled"
            await peer.noted(cancelled=task)
            await still_works(agent, peer)


BIG = {
    "streamed": ("big lines", "big one", "big chunks", "big many", "big header", "big gzip"),
    "polled": ("big one", "big many 250000", "big gzip"),
    "HTTP+JSON": ("big one", "big header"),
}
MOST = 40_000_000
"""Bytes that may be taken in addition while 100 MB come."""


async def test_of_many_parts_few_are_kept(tmp_path: Path) -> None:
    with shared_peer("lying", "--no-streaming") as peer:
        file = {"tools": {"max_stored_bytes": 4096}}
        async with trusting(tmp_path, peer, file=file) as agent:
            talk = await Talk.begin(agent, "big many 5000")
            assert talk.result.state == "finished"
            [end] = await talk.events("tool.finished")
            assert len(json.dumps(end.body)) < 50_000


@attrs.define
class Watch:
    """How much memory is taken in addition."""

    process: psutil.Process = attrs.field(factory=psutil.Process)
    most: int = 0

    async def run(self) -> None:
        before = self.process.memory_info().rss

        def look() -> bool:
            self.most = max(self.most, self.process.memory_info().rss - before)
            return False

        await until(look)


async def test_what_is_too_much(peer: Peer, way: str, tmp_path: Path) -> None:
    """One after the other, since they are measured; the first one takes most, for memory is used again."""
    ends: dict[str, str] = {}
    taken: dict[str, int] = {}
    async with trusting(tmp_path, peer, timeout=6) as agent:
        for words in BIG[way]:
            async with trio.open_nursery() as nursery:
                nursery.start_soon((watch := Watch()).run)
                ends[words] = end((await Talk.begin(agent, words, token=TOKEN)).result)[:100]
                nursery.cancel_scope.cancel()
            taken[words] = watch.most
        await still_works(agent, peer)
    assert set(ends.values()) <= {"unknown", "took too long"}, ends
    assert [each for each in taken.items() if each[1] > MOST] == []


# ------------------------------------------------------------------------------- cards

CARDS = {
    "file": "it has no interface for JSON-RPC or HTTP.JSON in version 1.0 or 0.3",
    "foreign": "it has no interface .+",
    "version": "it has no interface .+",
    "redirect": "its card is answered with HTTP 302",
    "unauthorized": "its card is answered with HTTP 401",
    "garbage": "its card cannot be read: .+",
    "types": "its card cannot be read: .+",
    "empty": "its card cannot be read: .+",
    "huge": "its card cannot be read: its answer is larger than 1 MiB",
    "endless": ".+",
    "silent": ".+",
}


@pytest.mark.parametrize("lie", CARDS)
async def test_a_card_that_lies(lie: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with shared_peer("lying", "--card", lie) as peer:
        timeout = 1 if lie in ("endless", "silent") else LIMIT
        async with trusting(tmp_path, peer, timeout=timeout) as agent:
            for _ in range(2):
                state, text = (await Talk.begin(agent, "echo a", token=TOKEN)).told
                assert state == "failed"
                assert re.fullmatch(rf"sub-agent unavailable: peer \({CARDS[lie]}\)", text), text
            assert "sub-agent unavailable: peer" in caplog.text
            assert agent.health().agents[0].state != "reached"
        assert [line["method"] for line in peer.requests() if line["method"] != "GET"] == []
        assert peer.requests(at="elsewhere") == []
        assert TOKEN not in str(peer.ledger())


LATER = {
    "later path": ("unavailable", ("echo", "unavailable")),
    "later unstreamed": ("echo", ("echo",)),
    "later elsewhere": ("unavailable", ("echo",)),
    "elsewhere": ("unavailable", ("echo",)),
}
"""What comes of a message that makes us look again, and of one after that."""


@pytest.mark.parametrize("lie", LATER)
async def test_a_card_that_changes(lie: str, tmp_path: Path) -> None:
    with shared_peer("lying", "--card", lie) as peer:
        async with trusting(tmp_path, peer) as agent:
            assert end((await Talk.begin(agent, "echo a", token=TOKEN)).result) == "echo"
            async with http_client(trust_env=False) as http:
                await http.get(f"{peer.url}/.well-known/agent-card.json")
            first, later = LATER[lie]
            words = "echo b" if first == "echo" else "status 404"
            assert end((await Talk.begin(agent, words, token=TOKEN)).result) == first
            assert end((await Talk.begin(agent, "echo c", token=TOKEN)).result) in later
        assert peer.requests(at="elsewhere") == []


async def test_an_interface_elsewhere_that_is_listed(tmp_path: Path) -> None:
    with shared_peer("lying", "--card", "elsewhere") as peer:
        async with trusting(tmp_path, peer, origins=[peer.told["elsewhere"]]) as agent:
            talk = await Talk.begin(agent, "echo a", token=TOKEN)
            assert talk.told == ("finished", "stolen")
        headers = [line["headers"] for line in talk.at(peer)]
        assert {each["authorization"] for each in headers} == {f"Bearer {TOKEN}"}
        assert {line["at"] for line in talk.at(peer)} == {"elsewhere"}


# ------------------------------------------------------------------------------ elsewhere


async def test_what_was_decided_elsewhere(peer: Peer, way: str, tmp_path: Path) -> None:
    """What is done there while its question is open here: that is taken back, and the call ends."""
    async with trusting(tmp_path, peer) as agent:
        talk = await Talk.begin(agent, "ask Now?")
        asked = await talk.asked()
        message: Json = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "approved"}]}
        params = {"message": {**message, "taskId": asked.remote_task_id}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
        url = f"{peer.url}/rest/message:send" if way == "HTTP+JSON" else f"{peer.url}/a2a"
        async with http_client(trust_env=False) as http:
            await http.post(url, json=params if way == "HTTP+JSON" else body)
        with pytest.raises(AgentError, match="void") as refused:
            await talk.decide(approved=False)
        assert refused.value.code == "void"
        assert await talk.ended() == ("finished", "done")
        [void] = await talk.approvals()
        assert void.state == "void"
        assert talk.sent(peer) == ["ask Now?"]
