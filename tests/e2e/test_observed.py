"""A stop-and-go story of a real process, as its metrics and its log show it."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.chains import eventually
from tests.http_client import blocking_client

if TYPE_CHECKING:
    import httpx2

    from tests.e2e.conftest import Serve, Server

OPTIONS = ("--metrics", "127.0.0.1:0", "--log-format", "json")
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def listener(server: Server) -> httpx2.Client:
    address = re.search(r"metrics at (http://\S+)/metrics", server.log)
    assert address is not None
    return blocking_client(base_url=address[1], trust_env=False)


def scraped(server: Server) -> Samples:
    with listener(server) as client:
        answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((f"stopgo_{name}", frozenset(labels.items())), 0.0)


def stored(server: Server) -> list[dict[str, Any]]:
    """All events of the journal."""
    with closing(sqlite3.connect(f"file:{server.data_dir}/journal.db?mode=ro", uri=True)) as db:
        rows = db.execute("SELECT stream_id, type, body FROM event").fetchall()
    return [{"stream": stream, "type": type, **json.loads(body)} for stream, type, body in rows]


def assert_agrees(samples: Samples, events: list[dict[str, Any]]) -> None:
    """The counters of a process that has made all these events."""
    types = Counter(event["type"] for event in events)
    assert value(samples, "runs_started_total") == types["run.started"]
    for outcome in ("finished", "cancelled"):
        assert value(samples, "runs_ended_total", outcome=outcome, code="") == types[f"run.{outcome}"]
    assert value(samples, "approvals_asked_total", kind="tool") == types["approval.requested"]
    decided = [event for event in events if event["type"] == "approval.resolved"]
    accepted = sum(event["decision"]["approved"] for event in decided)
    assert value(samples, "approvals_ended_total", kind="tool", outcome="accepted") == accepted
    assert value(samples, "approvals_ended_total", kind="tool", outcome="rejected") == len(decided) - accepted
    assert value(samples, "approvals_ended_total", kind="tool", outcome="void") == types["approval.void"]
    assert value(samples, "decision_seconds_count", kind="tool") == len(decided)
    started = [event for event in events if event["type"] == "tool.started"]
    names = {(event["stream"], event["key"]): event["tool"] for event in started}
    for tool in set(names.values()):
        ended = [e for e in events if e["type"] == "tool.finished" and names[e["stream"], e["key"]] == tool]
        failed = sum(event["result"].get("is_error", False) for event in ended)
        labels = {"server": "resources", "tool": tool}
        assert value(samples, "tool_calls_total", **labels, outcome="error") == failed
        assert value(samples, "tool_calls_total", **labels, outcome="ok") == len(ended) - failed
        assert value(samples, "tool_seconds_count", **labels) == len(ended)
    replies = [e for e in events if e["type"] == "step.finished" and e["kind"] == "model"]
    model = "offline:rules"
    assert value(samples, "model_calls_total", model=model, outcome="ok") == len(replies)
    for direction in ("input", "output"):
        tokens = sum(reply.get("usage", {}).get(f"{direction}_tokens", 0) for reply in replies)
        assert value(samples, "model_tokens_total", model=model, direction=direction) == tokens


def assert_waits(samples: Samples, *, approvals: int, active: int, completed: int) -> None:
    assert value(samples, "approvals_pending") == approvals
    assert (value(samples, "approvals_oldest_seconds") > 0) == (approvals > 0)
    assert value(samples, "conversations", status="waiting_approval") == approvals
    assert value(samples, "conversations", status="active") == active
    assert value(samples, "conversations", status="completed") == completed
    assert value(samples, "commands_waiting") == 0
    assert value(samples, "runs_working") == 0


def test_metrics_agree_with_the_journal(serve: Serve, tmp_path: Path) -> None:
    server = serve(tmp_path / "data", options=OPTIONS)
    done = server.new()
    server.say(done, "list resources")
    server.post(f"/conversations/{done}/complete")
    yes, no, _left = (server.ask_for(f"add {name} with value 3") for name in ("lamp", "chair", "desk"))
    for uuid, approved in ((yes, True), (no, False)):
        server.post(f"/approvals/{uuid}", {"approved": approved})
    void = server.get(f"/approvals/{server.ask_for('add sofa with value 3')}")["approval"]
    server.post(f"/conversations/{void['conversation_id']}/cancel")

    samples = scraped(server)
    assert_agrees(samples, stored(server))
    assert_waits(samples, approvals=1, active=3, completed=1)
    assert value(samples, "server_up", server="resources") == 1
    assert value(samples, "server_slots_free", server="resources") == 16
    assert value(samples, "ready") == 1
    assert value(samples, "halted") == 0
    created = {"method": "POST", "route": "/conversations"}
    assert value(samples, "http_requests_total", **created, status="201") == 5
    assert value(samples, "http_request_seconds_count", **created) == 5
    commits = value(samples, "journal_commit_seconds_count")
    assert 0 < commits <= value(samples, "journal_operations_total")
    assert eventually(lambda: value(scraped(server), "loop_lag_seconds_count"))
    server.run.kill()

    server = serve(tmp_path / "data", options=OPTIONS)
    samples = scraped(server)
    assert_waits(samples, approvals=1, active=3, completed=1)
    assert value(samples, "runs_started_total") == 0, "counters begin with the process"
    server.post("/halt")
    assert value(scraped(server), "halted") == 1


def test_unknown_paths_and_tools_add_no_series(serve: Serve, tmp_path: Path) -> None:
    server = serve(tmp_path / "data", options=OPTIONS)
    for path in ("/nothing/here", "/conversations/x/y/z"):
        server.get(path, 404)
    server.client.request("BREW", "/coffee")
    samples = scraped(server)
    assert value(samples, "http_requests_total", method="other", route="other", status="404") == 3
    [routes] = [{dict(labels)["route"] for name, labels in samples if name == "stopgo_http_requests_total"}]
    assert routes == {"other"}


@pytest.mark.parametrize("path", ["/", "/conversations", "/health"])
def test_the_listener_serves_metrics_only(serve: Serve, tmp_path: Path, path: str) -> None:
    server = serve(tmp_path / "data", options=OPTIONS)
    with listener(server) as client:
        assert client.get(path).status_code == 404
        rebound = client.get("/metrics", headers={"Host": "evil.example"})
    assert rebound.status_code == 421
    server.get("/metrics", 404)


def test_each_line_of_the_log_is_an_object_with_the_trace(serve: Serve, tmp_path: Path) -> None:
    server = serve(tmp_path / "data", options=OPTIONS)
    headers = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "X-Session-ID": "mine"}
    answer = server.client.post("/conversations", json={"message": "list resources"}, headers=headers)
    conversation = answer.json()["conversation"]["id"]
    server.client.get("/health")
    server.run.interrupt()
    output = server.log.splitlines()  # with that of stderr, which has a warning about the file
    lines = [json.loads(line) for line in output if not line.startswith("no agent file")]
    assert all(line.keys() >= {"time", "level", "logger", "message"} for line in lines)
    names = {"conversation": conversation, "session": "mine", "trace": TRACE}
    [request, probe] = [line for line in lines if line["logger"] == "stopgo.access"]
    assert request.items() >= {**names, "method": "POST", "path": "/conversations", "status": 201}.items()
    assert request["duration_ms"] > 0
    assert not probe.keys() & {"conversation", "trace"}
    [calls] = [line for line in lines if line["logger"] == "stopgo.tools"]
    assert calls.items() >= names.items()
    assert calls["message"].startswith('calls of node "')
