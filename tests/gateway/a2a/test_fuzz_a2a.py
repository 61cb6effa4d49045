"""Whatever is sent to A2A is answered, or refused in its own words: never with 5xx or a traceback."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from stopgo.actors.a2a.wire import v03_codec, v1_codec
from stopgo.gateway.testing.virtual_time import without_threads
from stopgo.runtime.journal.sqlite.sqlite_journal import open_sqlite
from tests.actors.a2a.wire.valid_requests import VALID, changed
from tests.actors.world import World, wall

from .talk import Talk, furnish, talking
from .tongues import HITL, IDEMPOTENCY, OLDER, TONGUES, V1, Json

ODD = ("", "~", "c~", "\x00", "\ud800", "é", "..", "a/b", "x" * 5000, "0", "none", "💥", "%00")
NASTY = st.sampled_from([*ODD, "TASK_STATE_WORKING"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | NASTY
    | st.text(st.characters(codec=None), max_size=4)
)
ANY = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NASTY, inner, max_size=2),
    max_leaves=4,
)
METHODS = st.sampled_from([*v1_codec.METHODS, *v03_codec.METHODS, "", "tasks/guess"])
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "A2A-Version": st.sampled_from(["", "1.0", "0.3", "1.0.1", "9", "x" * 300]),
        "A2A-Extensions": st.sampled_from(["", ",", HITL, IDEMPOTENCY, f"{HITL},{IDEMPOTENCY}", "x"]),
        "Idempotency-Key": st.sampled_from(["k", "", "x" * 300]),
        "Authorization": st.sampled_from(["Bearer good", "Bearer", "Basic x", "Bearer a b"]),
        "Content-Type": st.sampled_from(["application/json", "application/a2a+json", "text/plain", ""]),
        "X-Session-ID": st.sampled_from(["s", "a b", "x" * 100]),
        "Accept": st.sampled_from(["text/event-stream", "application/a2a+json", "*/*"]),
    },
)
PATHS = [
    "message:send",
    "message:stream",
    "tasks",
    "tasks/{}",
    "tasks/{}:cancel",
    "tasks/{}:subscribe",
    "tasks/{}/pushNotificationConfigs",
    "tasks/{}/pushNotificationConfigs/{}",
    "extendedAgentCard",
    "card",
    "{}",
]


def fields(value: Any, path: str = "") -> Iterator[str]:
    """Where something can be put in, as `changed` takes it."""
    items: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        named = [(name, inner) for name, inner in value.items() if name.isidentifier()]
        items = [(f"{path}.{name}" if path else name, inner) for name, inner in named]
    elif isinstance(value, list):
        items = [(f"{path}[{number}]", inner) for number, inner in enumerate(value)]
    for place, inner in items:
        yield place
        yield from fields(inner, place)


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, Any]:
    """A method and its parameters, most of them valid but for a field or two."""
    _, method, valid = draw(st.sampled_from(VALID))
    found: Any = changed_ids(valid)
    for _ in range(draw(st.integers(0, 2))):
        if places := [*fields(found)]:
            found = changed(found, draw(st.sampled_from(places)), draw(ANY))
    rarely = draw(st.integers(0, 9))
    return draw(METHODS) if rarely == 0 else method, draw(ANY) if rarely == 1 else found


def changed_ids(params: Any) -> Any:
    """The request with the id of an existing task."""
    return json.loads(json.dumps(params).replace('"t1"', '"KNOWN"').replace('"c1"', '"KNOWN"'))


@st.composite
def requests(draw: st.DrawFn) -> Json:
    """As keyword arguments of the HTTP client; KNOWN stands for the id of something that is there."""
    name, body = draw(calls())
    is_v1 = name in v1_codec.METHODS
    headers = draw(HEADERS) if draw(st.integers(0, 4)) == 0 else {"A2A-Version": "1.0" if is_v1 else "0.3"}
    headers.setdefault("Content-Type", "application/json")
    if draw(st.booleans()):
        method, path = "POST", draw(st.sampled_from(["/a2a", "/a2a/"]))
        id = draw(st.sampled_from([1, "x", None]))
        body = {"jsonrpc": "2.0", "id": id, "method": name, "params": body}
    else:
        method = draw(st.sampled_from(["GET", "POST", "POST", "DELETE", "PUT", "HEAD"]))
        names = [quote(draw(NASTY | st.just("KNOWN")), safe="", errors="replace") for _ in range(2)]
        chosen = (
            f"message:{draw(st.sampled_from(['send', 'stream']))}"
            if isinstance(body, dict) and "message" in body
            else ""
        )
        path = "/a2a/" if is_v1 else "/a2a/v1/"
        path += chosen if chosen and method == "POST" else draw(st.sampled_from(PATHS)).format(*names)
    query = draw(
        st.dictionaries(
            st.sampled_from(["pageSize", "pageToken", "status", "contextId", "historyLength", "A2A-Version"]),
            st.sampled_from(["", "1", "-1", "x", "9" * 400, "KNOWN", "TASK_STATE_COMPLETED"]),
            max_size=2,
        )
    )
    content = json.dumps(body).replace("https://c", "http://127.0.0.1:1").encode()
    cut = draw(st.sampled_from([None] * 9 + [len(content) // 2]))
    return {"method": method, "url": path, "params": query, "headers": headers, "content": content[:cut]}


def known(request: Json, id: str) -> Json:
    return {
        **request,
        "url": request["url"].replace("KNOWN", id),
        "params": {name: value.replace("KNOWN", id) for name, value in request["params"].items()},
        "content": request["content"].replace(b"KNOWN", id.encode()),
    }


async def answer_to(client: httpx2.AsyncClient, request: Json) -> httpx2.Response:
    with trio.move_on_after(120):  # virtual: a stream of a task that waits does not end by itself
        return await client.request(**request)
    return httpx2.Response(200, content=b"{}")


def hold(request: Json, response: httpx2.Response) -> None:
    shown = f"{request} -> {response.status_code} {response.content!r}"
    assert response.status_code < 500, shown
    content_type = response.headers.get("Content-Type", "")
    # HTML: a path such as `/a2a/..` leads the client to the page.
    if not response.content or content_type.startswith(("text/event-stream", "text/html")):
        return
    body = response.json()
    if request["url"] in ("/a2a", "/a2a/") and response.status_code == 200 and "jsonrpc" in body:
        assert ("result" in body) != ("error" in body), shown
        assert body.get("error", {}).get("code") != -32603, shown
    elif response.status_code >= 400:
        assert "error" in body or "code" in body, shown


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., None]:
    """Ask an agent that keeps its conversations in a file."""

    def run(*asked: Json) -> None:
        async def main() -> None:
            world = furnish(World(tmp_path))
            async with open_sqlite(tmp_path, wall=wall, inline=True) as journal:
                world.journal = journal
                async with talking(world) as talk:
                    await _ask(talk, asked)

        with without_threads():
            trio.run(main, clock=MockClock(autojump_threshold=0))

    return run


async def _ask(talk: Talk, asked: tuple[Json, ...]) -> None:
    ids = [
        (await talk.told(V1.send("hi"))).id,
        (await talk.told(V1.send("use wipe:a"))).id,
        (await talk.told(V1.send("use locked"))).id,
    ]
    for request in asked:
        for id in ids:
            filled = known(request, id)
            hold(filled, await answer_to(talk.client, filled))
            if filled == request:
                break
    assert (await talk.told(OLDER.send("hi"))).state == "completed"


# Long lists, because each example starts an agent, which takes longer than its requests.
@settings(max_examples=16, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=st.lists(requests(), min_size=12, max_size=24))
def test_any_request_is_answered_without_error(
    run: Callable[..., None], caplog: pytest.LogCaptureFixture, asked: list[Json]
) -> None:
    caplog.clear()
    with caplog.at_level(logging.ERROR):
        run(*asked)
    assert [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR] == []


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    asked=st.lists(
        st.tuples(
            st.sampled_from(TONGUES),
            st.lists(st.builds(lambda data: {"data": data}, ANY) | NASTY, min_size=1, max_size=2),
        ),
        min_size=5,
        max_size=10,
    )
)
def test_any_answer_to_a_task_is_handled_without_error(
    run: Callable[..., None], caplog: pytest.LogCaptureFixture, asked: list[Any]
) -> None:
    """Parts of any shape, sent to tasks that have ended, or wait."""
    caplog.clear()
    requests = []
    for tongue, parts in asked:
        wanted = tongue.send(*parts, task="KNOWN").of_client()
        content = json.dumps(wanted.pop("json")).encode()
        headers = {**wanted["headers"], "Content-Type": "application/json"}
        requests.append({**wanted, "headers": headers, "content": content})
    with caplog.at_level(logging.ERROR):
        run(*requests)
    assert caplog.records == []
