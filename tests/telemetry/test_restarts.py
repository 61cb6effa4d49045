"""One trace over two agents that restart while a person decides."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.chains import (
    SCRIPTED,
    TELL,
    calling,
    echo_server,
    entries,
    eventually,
    held_port,
    passing_on,
    pending,
    written,
)
from tests.e2e.conftest import Serve, Server
from tests.telemetry.exported import Link, Span, tree, unresolved
from tests.telemetry.receiver import QUICK, Receiver

TRACE, CLIENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
DECIDING, DECIDER = "1" * 32, "2" * 16

ASKED = """\
POST /conversations
  invoke_agent ay
    a2a onward
      execute_tool a2a_bee
        POST /a2a
          invoke_agent bee
            llm bee
              chat replies.yaml
              ask wipe
"""
DECIDED = """\
              decide wipe
              execute_tool wipe
              chat replies.yaml
      ask wipe
      decide wipe
      execute_tool a2a_bee
"""


def start(serve: Serve, receiver: Receiver, folder: Path, port: int) -> tuple[Server, Server]:
    """Two agents, of which the first delegates to the second at that port."""
    env = {**QUICK, "LEDGER": str(folder / "ledger"), "NEXT": f"http://127.0.0.1:{port}"}
    options = ["--traces", receiver.url]
    bee = {"name": "bee", "llm": SCRIPTED, "mcp_servers": [echo_server("tools")]}
    below = written(folder / "bee", bee, [calling("wipe"), TELL])
    above = written(folder / "ay", {**passing_on("bee"), "name": "ay"})
    second = serve(folder / "data-bee", config=below, env=env, port=port, options=options)
    return serve(folder / "data-ay", config=above, env=env, options=options), second


def without_looks(spans: Sequence[Span]) -> list[Span]:
    """The spans without requests that began nothing, whose number depends on the moment."""
    parents = {span.parent for span in spans}
    return [span for span in spans if span.name != "POST /a2a" or span.id in parents]


@pytest.mark.parametrize("end", ["interrupt", pytest.param("kill", marks=pytest.mark.agents)])
def test_two_restarts_leave_one_trace(serve: Serve, receiver: Receiver, tmp_path: Path, end: str) -> None:
    trace = TRACE if end == "interrupt" else TRACE[::-1]
    deciding = DECIDING if end == "interrupt" else DECIDING.replace("1", "3")
    with held_port() as port:
        ay, bee = start(serve, receiver, tmp_path, port)
        headers = {"traceparent": f"00-{trace}-{CLIENT}-01"}
        turn = ay.client.post("/conversations", json={"message": "wipe lamp"}, headers=headers).json()
        [asked] = turn["result"]["approvals"]
        # The spans that have ended are exported before the kill; those of runs and nodes have not ended.
        ended = Counter(line.strip() for line in ASKED.splitlines())
        ended -= Counter(each for each in ended if each.startswith(("invoke_agent", "a2a", "llm")))
        ended["ask wipe"] = 2
        eventually(lambda: ended <= Counter(span.name for span in receiver.trace(trace)))
        before = time.time_ns()
        for server in (ay, bee):
            getattr(server.run, end)()
        ay, bee = start(serve, receiver, tmp_path, port)
        [asked] = pending(ay)
        after = time.time_ns()
        headers = {"traceparent": f"00-{deciding}-{DECIDER}-01"}
        path, body = f"/approvals/{asked['uuid']}", {"approved": True}
        turn = ay.client.post(path, json=body, headers=headers).json()
        assert turn["result"]["response"] == "told: lamp"
        for server in (ay, bee):
            server.run.interrupt()

    assert receiver.violations == []
    spans, [request] = receiver.trace(trace), receiver.trace(deciding)
    assert unresolved([*spans, request], known=[CLIENT, DECIDER]) == []
    assert tree(without_looks(spans), CLIENT) == ASKED + DECIDED
    assert {span.service for span in spans} == {"ay", "bee"}
    assert tree([request], DECIDER) == "POST /approvals/{uuid}\n"

    # Nothing lasts from the question to the decision but the runs and their nodes.
    named = partial(spans_named, spans)
    for name in ("ask wipe", "decide wipe", "chat replies.yaml", "POST /conversations"):
        assert all(span.end <= before or span.start >= after for span in named(name)), name
    assert all(span.end <= before for span in named("ask wipe"))
    assert all(span.start >= after for span in named("decide wipe"))
    assert all(span.start <= before and span.end >= after for span in named("invoke_agent"))

    # Each decision is linked to its question and to the request that brought it.
    questions = {span.service: span for span in named("ask wipe")}
    decisions = {span.service: span for span in named("decide wipe")}
    assert decisions["ay"].links == [Link(trace, questions["ay"].id), Link(deciding, request.id)]
    [to_question, to_request] = decisions["bee"].links
    assert to_question == Link(trace, questions["bee"].id)
    [brought] = [span for span in spans if span.id == to_request.span]
    second = max(named("execute_tool a2a_bee"), key=lambda span: span.start)
    assert (to_request.trace, brought.name, brought.parent) == (trace, "POST /a2a", second.id)
    assert decisions["ay"]["stopgo.approval"] == questions["ay"]["stopgo.approval"] == asked["uuid"]

    # The tool server was told the span of its call.
    [call] = named("execute_tool wipe")
    assert [entry["traceparent"] for entry in entries(tmp_path / "ledger")] == [call.traceparent]


def spans_named(spans: Sequence[Span], name: str) -> list[Span]:
    return [span for span in spans if span.name == name or span.name.startswith(f"{name} ")]


ENDS = {
    "rejected": ("/approvals/{approval}", {"approved": False}, ""),
    "cancelled": ("/conversations/{conversation}/cancel", {}, "  !cancelled"),
}


@pytest.mark.parametrize("last", ENDS)
def test_a_run_that_ends_after_a_restart_has_all_its_nodes(
    serve: Serve, receiver: Receiver, tmp_path: Path, last: str
) -> None:
    """A cancelled run does not reach its nodes again."""
    config = {"name": "solo", "llm": SCRIPTED, "mcp_servers": [echo_server("tools")]}
    file = written(tmp_path, config, [calling("wipe"), {"text": "done"}])
    env = {**QUICK, "LEDGER": str(tmp_path / "ledger")}

    def started() -> Server:
        server = serve(tmp_path / "data", config=file, env=env, options=["--traces", receiver.url])
        server.client.headers["traceparent"] = f"00-{trace}-{CLIENT}-01"
        return server

    trace = "ab"[last == "cancelled"] * 32
    server = started()
    turn = server.post("/conversations", {"message": "wipe lamp"}, status=201)
    server.run.interrupt()
    server = started()
    path, body, error = ENDS[last]
    ids = {"approval": turn["result"]["approvals"][0]["uuid"], "conversation": turn["conversation"]["id"]}
    server.post(path.format(**ids), body)
    server.run.interrupt()

    assert receiver.violations == []
    spans = receiver.trace(trace)
    assert unresolved(spans, known=[CLIENT]) == []
    told = tree(spans, CLIENT)
    assert told.startswith(
        f"""\
POST /conversations
  invoke_agent solo{error}
    llm solo{error}
      chat replies.yaml
      ask wipe
      decide wipe
"""
    )
