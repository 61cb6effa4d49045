"""The log lines of requests, and the data that is never logged."""

import logging
import os
import re
import sys
from typing import Any

import httpx2
import pytest
import trio

from stopgo.actors.common.errors import AgentError
from stopgo.gateway.contract import examples as ex
from stopgo.gateway.log_lines import JsonLogLines, LogLines, Unblocked, configure
from stopgo.runtime import json_text
from tests.canary import TOKEN as SECRET


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.INFO, logger="stopgo")

    async def lines() -> list[str]:
        # A request is logged when its answer has left, so its client may be first.
        await trio.testing.wait_all_tasks_blocked(0.02)
        return [LogLines().format(record) for record in caplog.records if record.name == "stopgo.access"]

    return lines


async def test_a_line_for_each_request(client: httpx2.AsyncClient, lines: Any) -> None:
    await client.get("/health", headers={"X-Session-ID": "mine"})
    await client.get("/nope?a=b")
    await client.get(f"/conversations/{ex.CONVERSATION_ID}")
    await client.delete(f"/conversations/{ex.CONVERSATION_ID}")
    health, nope, conversation, deletion = await lines()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO stopgo\.access: "
        r"GET /health 200 \d+\.\dms conversation=- sid=mine",
        health,
    )
    assert re.search(r" GET /nope 404 \S+ms conversation=- sid=[0-9a-f]{8}$", nope)
    assert re.search(rf" 200 \S+ms conversation={ex.CONVERSATION_ID} sid=1f0c9a7e$", conversation)
    assert re.search(rf" DELETE \S+ 204 \S+ms conversation={ex.CONVERSATION_ID} sid=", deletion)


BUSY = AgentError("run_in_progress", "a run is going")


@pytest.mark.parametrize(
    ("method", "path", "body", "raises"),
    [
        ("POST", f"/conversations/{ex.CONVERSATION_ID}/messages", "{}", {}),
        ("POST", f"/conversations/{ex.CONVERSATION_ID}/messages", "no JSON", {}),
        ("POST", f"/conversations/{ex.CONVERSATION_ID}/resume", "", {}),
        ("POST", f"/conversations/{ex.CONVERSATION_ID}/complete", "", {"complete": BUSY}),
        ("GET", f"/conversations/{ex.CONVERSATION_ID}", "", {"get": RuntimeError("boom")}),
        ("GET", f"/conversations/{ex.CONVERSATION_ID}/events?after=x", "", {}),
        ("POST", f"/approvals/{ex.APPROVAL_ID}", "{}", {"decide": AgentError("decision_required", "?")}),
        ("POST", f"/approvals/{ex.APPROVAL_ID}", "{}", {"decide": AgentError("expired", "late")}),
    ],
)
async def test_a_refusal_names_the_conversation_and_its_session(
    agent: Any,
    client: httpx2.AsyncClient,
    lines: Any,
    method: str,
    path: str,
    body: str,
    raises: dict[str, Exception],
) -> None:
    agent.raises |= raises
    answer = await client.request(method, path, content=body)
    assert answer.status_code >= 400
    assert answer.headers["X-Session-ID"] == "1f0c9a7e"
    [line] = await lines()
    assert line.endswith(f" conversation={ex.CONVERSATION_ID} sid=1f0c9a7e")


async def test_refusal_is_unchanged_if_naming_the_conversation_fails(
    agent: Any, client: httpx2.AsyncClient, lines: Any
) -> None:
    agent.raises = {"complete": BUSY, "log_end": AgentError("conversation_broken", "damaged")}
    answer = await client.post(f"/conversations/{ex.CONVERSATION_ID}/complete")
    assert answer.json()["code"] == "run_in_progress"
    assert " conversation=- sid=" in (await lines())[0]


async def test_a_fault_is_an_error_line(agent: Any, client: httpx2.AsyncClient, lines: Any) -> None:
    agent.raises["get"] = RuntimeError("boom")
    await client.get(f"/conversations/{ex.CONVERSATION_ID}")
    assert " ERROR stopgo.access: GET " in (await lines())[0]


async def test_what_is_refused_for_now_is_no_error(
    agent: Any, client: httpx2.AsyncClient, lines: Any
) -> None:
    agent.ready = False
    await client.get("/health/ready")
    assert " WARNING stopgo.access: GET /health/ready 503 " in (await lines())[0]


async def test_client_disconnect_is_logged_as_499(agent: Any, client: httpx2.AsyncClient, lines: Any) -> None:
    agent.gate = trio.Event()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.post, "/conversations")
            while not agent.calls:
                await trio.lowlevel.checkpoint()
            scope.cancel()
    assert re.search(r" INFO \S+ POST /conversations 499 ", (await lines())[0])


@pytest.mark.repeat(10)
async def test_disconnect_with_the_last_byte_counts_as_answered(raw: Any, lines: Any) -> None:
    for _ in range(5):
        stream = await raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        while not answer.endswith(b'"}\n'):
            answer += await stream.receive_some()
        await stream.aclose()
    said = await lines()
    assert len(said) == 5
    assert all(" GET /health 200 " in line for line in said)


async def test_tokens_and_queries_are_never_logged(
    agent: Any, client: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="stopgo")
    headers = {"Authorization": f"Bearer {SECRET}", "Idempotency-Key": SECRET}
    await client.post("/conversations", headers=headers, json={"message": SECRET})
    await client.post(f"/conversations?token={SECRET}", headers={"Authorization": f"Bearer {SECRET} x"})
    agent.raises["start_conversation"] = RuntimeError("boom")
    await client.post("/conversations", headers=headers, json={"message": SECRET})
    said = [LogLines().format(record) for record in caplog.records if record.name.startswith("stopgo")]
    assert said
    assert SECRET not in "\n".join(said)


async def test_a_path_cannot_forge_a_line(client: httpx2.AsyncClient, lines: Any) -> None:
    await client.get("/a%0A2026-11-21T10:00:00.000Z%20INFO%20forged")
    await client.get("/" + "x" * 2000)
    forged, long = await lines()
    assert "\n" not in forged
    assert len(long) < 500


def test_a_record_is_one_line() -> None:
    record = logging.LogRecord("stopgo.x", logging.INFO, "", 0, "%s", ("a\nb\rc",), None)
    assert LogLines().format(record).endswith(r"INFO stopgo.x: a\nb\rc")


def test_everything_goes_to_stdout(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    root = logging.getLogger()
    before = root.handlers[:], root.level, logging.raiseExceptions
    try:
        root.handlers = []
        configure()
        logging.getLogger("stopgo.x").info("hello")
        logging.getLogger("httpx2").info("chatter")
        assert root.handlers[0].stream is sys.stdout  # type: ignore[attr-defined]
    finally:
        root.handlers, root.level, logging.raiseExceptions = before
    said = capsys.readouterr()
    assert said.out.endswith("INFO stopgo.x: hello\n")
    assert "chatter" not in said.out
    assert said.err == ""


@pytest.mark.parametrize("length", [999, 3500], ids=["lines", "lines that are cut"])
def test_stalled_reader_blocks_nothing_and_gets_a_count(monkeypatch: Any, length: int) -> None:
    monkeypatch.setattr("stopgo.gateway.log_lines.STALL", 0.01)
    read, write = os.pipe()
    with open(read, "rb", buffering=0) as reader, open(write, "w") as out:
        handler = Unblocked(out)
        handler.setFormatter(logging.Formatter("%(message)s"))

        def say(text: str) -> None:
            handler.handle(logging.LogRecord("stopgo.x", logging.INFO, "", 0, text, (), None))

        os.set_blocking(read, False)
        for _ in range(300):  # more than any pipe holds
            say("x" * length)
        before = b"".join(iter(lambda: reader.read(2**20), None)).splitlines()
        say("there you are")
        *rest, notice, last = reader.read(2**20).decode().splitlines()
    assert rest == ([""] if len(before[-1]) < length else []), "the line that was cut is ended"
    whole = before.count(b"x" * length)
    assert len(before) - whole == len(rest)
    assert notice == f"{300 - whole} log lines were dropped because stdout was not being read"
    assert last == "there you are"


def test_what_others_wrote_can_neither_end_a_line_nor_draw(caplog: pytest.LogCaptureFixture) -> None:
    odd = "a\r\n\x1b[2J\x07\x85\x9b\u2028\u2029\u202e\u200b\ufeff\ttab \ud800 é 漢 😀"
    shown = r"a\r\n\x1b[2J\x07\x85\x9b\u2028\u2029\u202e\u200b\ufeff\ttab \ud800 é 漢 😀"
    try:
        raise ValueError(f"{odd}\n2026-11-21T10:00:00.123Z INFO forged")
    except ValueError:
        logging.getLogger("stopgo.test").exception("%s", odd)
    [record] = caplog.records
    first, *others = LogLines().format(record).splitlines()
    assert first.endswith(f"ERROR stopgo.test: {shown}")
    assert others[0] == "    Traceback (most recent call last):"
    assert all(line.startswith("    ") for line in others)
    assert any(line.endswith(shown.partition(r"\r")[2].removeprefix(r"\n")) for line in others)


def test_a_traceback_is_a_field_without_characters_that_draw() -> None:
    try:
        raise ValueError("a\u202eb\n2026 ERROR forged\x1b[2J")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "failed\n", (), sys.exc_info())
    line = JsonLogLines().format(record)
    assert "\n" not in line
    fields = json_text.load(line)
    assert fields["message"] == "failed\\n"
    assert fields["exception"].endswith("ValueError: a\\u202eb\n2026 ERROR forged\\x1b[2J")
