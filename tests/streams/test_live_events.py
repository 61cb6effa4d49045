"""The live stream of all conversations: filters, their mistakes, deletion."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from tests.e2e.conftest import Server, Servers
from tests.waiting import until

from .raw_websocket import UPGRADE
from .watched_server import ASKING, WatchedServer, watched_server
from .watchers import TRANSPORTS, Connection, Transport, open_stream

Json = dict[str, Any]
Keeps = Callable[[Json], bool]


def types(*names: str) -> Keeps:
    return lambda frame: frame["type"] in names


FILTERS: dict[str, Keeps] = {
    "": lambda frame: True,
    "deltas=false": lambda frame: True,
    "status=active": lambda frame: frame["status"] == "active",
    "status=waiting_approval": lambda frame: frame["status"] == "waiting_approval",
    "status=waiting_approval,completed": lambda frame: frame["status"] != "active",
    "status=active,waiting_approval,completed": lambda frame: True,
    "type=run.finished": types("run.finished"),
    "type=run.finished,message.added": types("run.finished", "message.added"),
    "type=approval.*": types("approval.requested", "approval.resolved", "approval.void", "approval.expired"),
    "type=approval.*,conversation.deleted": lambda frame: (
        frame["type"].startswith("approval.") or frame["type"] == "conversation.deleted"
    ),
    "type=run.*": lambda frame: frame["type"].startswith("run."),
    "conversation={0}": lambda frame: frame["conversation_id"] == "{0}",
    "conversation={0},{1}": lambda frame: frame["conversation_id"] in ("{0}", "{1}"),
    "conversation={0}&type=approval.requested&status=waiting_approval": lambda frame: (
        frame["conversation_id"] == "{0}" and frame["type"] == "approval.requested"
    ),
    "type=approval.requested&status=completed": lambda frame: False,
}


async def collect(
    server: WatchedServer,
    transport: Transport,
    path: str,
    query: Mapping[str, str],
    frames: list[Json],
    task_status: trio.TaskStatus[Connection],
) -> None:
    """Put all frames of a stream into `frames`; it has started when the stream is open."""
    async with open_stream(server, transport, path, **query) as connection:
        task_status.started(connection)
        async for frame in connection.frames:
            frames.append(frame)


async def story(server: WatchedServer, first: str) -> list[str]:
    """Use three conversations as one person; returns their ids."""
    ids = [first, await server.new("two"), await server.new("three")]
    await server.say(first, "one")
    for id, approved in zip(ids, (True, False, True), strict=True):
        (pending,) = (await server.get(f"/conversations/{id}"))["conversation"]["pending_approvals"]
        await server.post(f"/approvals/{pending['uuid']}", {"approved": approved})
    await server.post(f"/conversations/{ids[1]}/messages", {"message": "never mind"})
    await server.post(f"/conversations/{ids[1]}/cancel")
    await server.complete(ids[0])
    await server.delete(ids[2])
    return ids


def expected(
    found: Mapping[tuple[str, Transport], list[Json]], query: str, transport: Transport, ids: list[str]
) -> list[Json]:
    """Of the events that came without a filter, those that this filter keeps."""
    return [each for each in found["", transport] if FILTERS[query](placeheld(each, ids))]


async def test_filters(servers: Servers, tmp_path: Path) -> None:
    async with watched_server(servers, tmp_path, ASKING) as server:
        ids = [await server.new(), await server.new("another")]
        found: dict[tuple[str, Transport], list[Json]] = {}
        async with trio.open_nursery() as nursery:
            for query in FILTERS:
                for transport in TRANSPORTS:
                    filled = dict(pair.split("=") for pair in query.format(*ids).split("&") if pair)
                    frames = found[query, transport] = []
                    await nursery.start(collect, server, transport, "/events", filled, frames)
            story_ids = await story(server, ids[0])
            await server.delete(ids[1])
            last = "conversation.deleted", ids[1]
            await until(
                lambda: all(
                    last in [(each["type"], each["conversation_id"]) for each in found["", transport]]
                    for transport in TRANSPORTS
                )
            )
            await until(lambda: all(len(found[each]) >= len(expected(found, *each, ids)) for each in found))
            nursery.cancel_scope.cancel()
        whole = found["", "ws"]
        assert whole == found["", "sse"]
        for (query, transport), frames in found.items():
            assert frames == expected(found, query, transport, ids), query
            assert frames or "status=completed" in query, query
        statuses = {each["type"]: each["status"] for each in whole if each["conversation_id"] == story_ids[0]}
        assert statuses["approval.requested"] == "waiting_approval"
        assert statuses["run.finished"] == "active"
        assert statuses["conversation.completed"] == "completed"
        without_status = [without(each, "status") for each in whole]
        for id in story_ids[:2]:
            journal = await server.journal(id)
            seen = [each for each in without_status if each["conversation_id"] == id]
            assert seen == journal[len(journal) - len(seen) :]


def without(frame: Json, *names: str) -> Json:
    return {name: value for name, value in frame.items() if name not in names}


def placeheld(frame: Json, ids: list[str]) -> Json:
    """The frame with the placeholders of `FILTERS` in place of the ids."""
    id = frame["conversation_id"]
    return {**frame, "conversation_id": f"{{{ids.index(id)}}}" if id in ids else id}


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_deltas_are_sent_on_request(servers: Servers, tmp_path: Path, transport: Transport) -> None:
    """A filter of the types holds for them, too."""
    async with watched_server(servers, tmp_path) as server:
        queries: tuple[dict[str, str], ...] = (
            {},
            {"deltas": "true"},
            {"deltas": "true", "type": "model.delta"},
        )
        found: list[list[Json]] = [[] for _ in queries]
        async with trio.open_nursery() as nursery:
            for query, frames in zip(queries, found, strict=True):
                await nursery.start(collect, server, transport, "/events", query, frames)
            await server.say(await server.new(), "hello")
            await until(lambda: all(each and each[-1]["type"] == "run.finished" for each in found[:2]))
            nursery.cancel_scope.cancel()
        kinds = [{each["type"] for each in frames} for frames in found]
        assert "model.delta" not in kinds[0]
        assert kinds[1] == kinds[0] | {"model.delta"}
        assert kinds[2] == {"model.delta"}
        assert "".join(each["text"] for each in found[2]) == "done"


MISTAKES = {
    "status=sleeping": "status",
    "status=active,sleeping": "status",
    "status=": "status",
    "status=active&status=completed": "status",
    "type=run.exploded": "type",
    "type=*": "type",
    "type=nothing.*": "type",
    "type=approval.*.*": "type",
    "type=run": "type",
    "type=": "type",
    "conversation=": "conversation",
    "deltas=yes": "deltas",
    "after=1": "after",
    "kind=tool": "kind",
}


@pytest.mark.parametrize("path", ["/events", "/events/ws"])
@pytest.mark.parametrize(("query", "field"), MISTAKES.items(), ids=MISTAKES.keys())
async def test_a_wrong_filter_is_refused(shared_server: Server, path: str, query: str, field: str) -> None:
    headers = UPGRADE if path.endswith("/ws") else {}
    with shared_server.client.stream("GET", f"{path}?{query}", headers=headers) as answer:
        assert answer.status_code == 400
        answer.read()
    error = answer.json()
    assert (error["code"], error["field"]) == ("invalid_request", field)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_deletion_is_the_last_frame(servers: Servers, tmp_path: Path, transport: Transport) -> None:
    async with watched_server(servers, tmp_path) as server:
        ids = [await server.new("hello"), await server.new()]
        journal = await server.journal(ids[0])
        path = f"/conversations/{ids[0]}/events"
        logs: list[list[Json]] = [[], [], []]
        live: list[Json] = []
        async with trio.open_nursery() as following:
            await following.start(collect, server, transport, "/events", {}, live)
            async with trio.open_nursery() as nursery:  # it ends because the streams end
                watching = [
                    await nursery.start(collect, server, transport, path, {"after": after}, log)
                    for after, log in zip(("0", f"{len(journal)}", "0"), logs, strict=True)
                ]
                await until(lambda: len(logs[0]) == len(journal))
                await server.delete(ids[0])
            await server.complete(ids[1])
            await until(lambda: len(live) >= 2)
            following.cancel_scope.cancel()
        last = without(logs[0][-1], "at")
        assert (last["type"], last["seq"]) == ("conversation.deleted", len(journal) + 1)
        for log, replayed in zip(logs, (journal, [], journal), strict=True):
            assert (log[:-1], without(log[-1], "at")) == (replayed, last)
        assert without(live[0], "at", "status") == last
        assert live[1]["type"] == "conversation.completed"
        if transport == "ws":
            assert [each.closed for each in watching] == [(1000, "conversation deleted")] * 3
        assert (await server.client.get(path)).status_code == 404
