"""Deltas from member to member over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import attrs
import pytest
import trio

from stopgo.actors.agent.agent import Agent
from stopgo.actors.common.fleet import this_process, written
from stopgo.actors.log.words.deltas import AnyDelta, ModelDelta, ToolProgress
from stopgo.actors.models.messages.messages import ArgumentsDelta, TextDelta
from stopgo.actors.tools.tool import Progress
from stopgo.actors.workers.delta_exchange import WantedDeltas
from stopgo.gateway.app import make_app
from stopgo.gateway.fleet import delta_peers
from stopgo.gateway.fleet.delta_frames import MOST_LISTED, PATH, as_body, decode, encode
from stopgo.gateway.fleet.delta_peers import exchange_deltas
from stopgo.gateway.fleet.delta_source import DeltaSource
from stopgo.gateway.fleet.fleet_key import rotate
from stopgo.gateway.http.http_server import HttpServer, bind, open_server
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.ownership import Fleet
from stopgo.runtime.json_text import dump
from tests.actors.several_members import LEASE, Members
from tests.actors.world import Streamed, say, wall
from tests.http_client import http_client
from tests.waiting import until

TEXT = "abcdef"


class Advertised(MemoryJournal):
    """Its member `a` advertises a URL."""

    url: ClassVar[str | None] = None

    async def fleet(self) -> Fleet:
        found = await super().fleet()
        about = {"a": written(this_process(0.0, self.url))}
        return attrs.evolve(
            found, members=[attrs.evolve(each, about=about.get(each.name, "")) for each in found.members]
        )


@pytest.fixture
def members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Members:
    """On the real clock, because their connections are real."""
    monkeypatch.setattr(delta_peers, "POLL_EVERY", 0.1)
    monkeypatch.setattr(Advertised, "url", None)
    members = Members(tmp_path, Advertised(wall, lease=LEASE, member="a"))
    members.world("a").plan("agent", Streamed(tuple(map(TextDelta, TEXT)), say(TEXT), pause=0.01))
    return members


@asynccontextmanager
async def serving(
    agent: Agent, advertised: str | None = None
) -> AsyncIterator[tuple[HttpServer, DeltaSource]]:
    """`advertised`: default: the address of the server."""
    sockets = bind("127.0.0.1", 0)
    own = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    async with exchange_deltas(agent, advertised or own) as deltas:
        assert deltas is not None
        async with open_server(make_app(agent, deltas=deltas), sockets) as server:
            yield server, deltas


async def text_of_a_turn(a: Agent, b: Agent, id: str, asked: Callable[[], bool]) -> str:
    """What a watcher at `b` sees of the reply to a message, sent once `b` has asked for it."""
    found = ""
    end = (await b.log_end(id)).last_seq

    async def send() -> None:
        await until(asked)
        await a.send(id, "go")

    async with trio.open_nursery() as nursery, aclosing(b.events(id, end, deltas=True)) as items:
        nursery.start_soon(send)
        async for item in items:
            if isinstance(item, ModelDelta) and isinstance(item.delta, TextDelta):
                found += item.delta.text
            elif not isinstance(item, ModelDelta | ToolProgress) and item.type == "run.finished":
                break
    return found


async def test_watcher_gets_the_deltas_of_the_other_member(members: Members) -> None:
    """Also after its server was away."""
    async with members.agents("a", "b") as (a, b), serving(b):
        id = (await a.start_conversation()).conversation.id
        for _ in range(2):
            async with serving(a) as (server, source):
                Advertised.url = server.url

                def asked(source: DeltaSource = source) -> bool:
                    return any(each.wanted.covers(id) for each in source._peers.values())

                assert await text_of_a_turn(a, b, id, asked) == TEXT
        assert await text_of_a_turn(a, b, id, lambda: True) == ""


async def test_member_out_of_reach_is_reported_once(
    members: Members, caplog: pytest.LogCaptureFixture
) -> None:
    Advertised.url = "http://127.0.0.1:1"
    caplog.set_level("DEBUG", "stopgo.gateway.fleet")
    async with members.agents("a", "b") as (_, b), serving(b):
        await until(lambda: len(caplog.records) > 2)
    assert {each.levelname for each in caplog.records[1:]} == {"DEBUG"}
    text = (
        "there are no deltas of the node at http://127.0.0.1:1: all attempts to connect to 127.0.0.1:1 failed"
    )
    assert (caplog.records[0].levelname, caplog.records[0].message) == ("WARNING", text)


async def test_others_may_use_the_advertised_name(members: Members) -> None:
    async with members.agents("a") as (a,), serving(a, "http://Agent-1:8080") as (server, _):
        async with http_client(base_url=server.url) as client:
            for host, status in (("agent-1:8080", 401), ("agent-2:8080", 421)):
                async with client.stream("GET", PATH, headers={"Host": host}) as answer:
                    assert answer.status_code == status


async def test_only_members_get_deltas(members: Members) -> None:
    async with members.agents("a", "b") as (a, _), serving(a) as (server, source):
        key = source._key
        where = f"{PATH}?node=b"

        def signed(method: str, body: object = None) -> dict[str, Any]:
            content = b"" if body is None else dump(body).encode()
            headers, _ = key.sign(method, server.url + where, content)
            return {"headers": headers, "content": content}

        body = as_body(WantedDeltas())
        async with http_client(base_url=server.url) as client:
            with_key = f"Bearer {key._key.decode()}".encode()  # as older versions sent it
            for value in (b"", b"Bearer x", "Bearer é".encode(), "Stopgo-Fleet é 1 2".encode(), with_key):
                headers = [(b"Authorization", value)]
                async with client.stream("GET", PATH, headers=headers) as refused:
                    assert refused.status_code == 401
                    await refused.aread()
                assert (await client.put(PATH, headers=headers, json=body)).status_code == 401
            assert (await client.put(where, **signed("PUT", body))).status_code == 404
            async with client.stream("GET", where, **signed("GET")) as stream:
                assert stream.status_code == 200
                for wrong in ({}, {"conversations": [1], "all": False}, {"conversations": "c", "all": True}):
                    answer = await client.put(where, **signed("PUT", wrong))
                    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request_body")
                assert (await client.put(where, **signed("PUT", body))).status_code == 204
        await until(lambda: not source._peers)
        async with http_client(base_url=server.url) as client:
            assert (await client.put(where, **signed("PUT", body))).status_code == 404


async def test_stream_ends_when_the_key_of_the_fleet_changes(members: Members) -> None:
    """The members connect again with the new one."""
    async with members.agents("a", "b") as (a, b), serving(b), serving(a) as (server, source):
        Advertised.url = server.url
        await until(lambda: bool(source._peers))
        [before] = source._peers.values()
        headers, _ = source._key.sign("GET", f"{server.url}{PATH}?node=c")
        async with http_client(base_url=server.url) as client:
            async with client.stream("GET", f"{PATH}?node=c", headers=headers) as stream:
                await rotate(a.notes)
                async for _ in stream.aiter_raw():  # until the server ends it
                    pass
        await until(lambda: any(each is not before for each in source._peers.values()))


async def test_key_does_not_leave_a_member(
    members: Members, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the key nor what is watched is told to a machine that got the address of a member."""
    got: list[bytes] = []

    async def impostor(stream: trio.SocketStream) -> None:
        async with stream:
            got.append(await stream.receive_some(65536))
            await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")

    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, impostor, [listener])
    Advertised.url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
    async with members.agents("a", "b") as (_, b), serving(b) as (_, source):
        await until(lambda: len(got) > 1)
        key = source._key._key
    assert "it does not prove that it has the key of the fleet" in caplog.records[0].message
    assert {each.split()[0] for each in got} == {b"GET"}
    assert not [each for each in got if key in each]


@pytest.mark.parametrize(
    "delta",
    [
        *(
            ModelDelta("c", 3, "k", "n", "m", 2, each)
            for each in (TextDelta("é\0"), ArgumentsDelta(1, "t", "{"))
        ),
        ToolProgress("c", 3, "k", 1, "n", "t", "s", Progress(0.5)),
        ToolProgress("c", 3, "k", 1, "n", "t", "s", Progress(1, 2.0, "half")),
    ],
)
def test_deltas_arrive_as_they_were(delta: AnyDelta) -> None:
    assert decode(encode(delta).decode().removeprefix("data: ").strip()) == delta


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"conversation": "c"}', '{"a": 1, "delta": {}}'])
def test_other_messages_are_no_deltas(text: str) -> None:
    assert decode(text) is None


def test_list_of_conversations_is_bounded() -> None:
    most = frozenset(map(str, range(MOST_LISTED)))
    assert len(as_body(WantedDeltas(most))["conversations"]) == MOST_LISTED  # type: ignore[arg-type]
    assert as_body(WantedDeltas(most | {"one more"})) == {"conversations": [], "all": True}
