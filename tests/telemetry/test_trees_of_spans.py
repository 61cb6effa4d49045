"""The trace of each way that a run can take: every parent exists, and failures are where they happened."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from textwrap import indent
from typing import Any

import attrs
import pytest

from tests.e2e.chains import (
    Json,
    begin,
    begin_and_leave,
    decide,
    decide_and_leave,
    done,
    echo_server,
    ended,
    eventually,
    pending,
    written,
)
from tests.e2e.conftest import Server, Servers
from tests.e2e.steered import PROGRAM, asked, pass_time
from tests.telemetry.exported import Span, tree
from tests.telemetry.receiver import QUICK, Receiver

CLIENT = "b7ad6b7169203331"
YES, NO = {"approved": True}, {"approved": False}
NEVER = 80_000
"""Seconds after which nothing comes any more."""


@attrs.frozen
class Row:
    node: Json
    """Chosen by the message, which is the name of the row."""
    replies: Sequence[Json]
    below: str
    """The spans below the router at the root."""
    decisions: Sequence[Json] = ()
    error: str = ""
    """The `error.type` of the run and the router."""
    status: str = "finished"
    asked: int = 0
    """How often a model has to be asked before the time passes, or the run is cancelled."""


def said(**reply: Any) -> Json:
    return {"text": "done", **reply}


def calls(*tools: str, arguments: Json | None = None, **reply: Any) -> Json:
    """A reply to the user's message with calls of these tools."""
    made = [{"name": tool, "arguments": arguments or {}} for tool in tools]
    return {"when": {"call": 1}, "tool_calls": made, **reply}


LLM: Json = {"type": "llm"}
FAILS: Json = {"error": {"status": 400, "message": "no"}}
ROWS: dict[str, Row] = {
    "plain": Row(LLM, [said()], "llm plain\n  chat\n"),
    "tools": Row(
        LLM,
        [calls("echo", "echo"), said()],
        "llm tools\n  chat\n  batch tools\n    execute_tool echo\n    execute_tool echo\n  chat\n",
    ),
    "several": Row(
        LLM,
        [calls("echo", "wipe"), said()],
        "llm several\n  chat\n  batch several\n    ask wipe\n    execute_tool echo\n    decide wipe\n"
        "    execute_tool wipe  !rejected\n  chat\n",
        [NO],
    ),
    "cut": Row(
        LLM,
        [calls("wipe", "wipe")],
        "llm cut  !cancelled\n  chat\n  batch cut  !cancelled\n    ask wipe\n    ask wipe\n    decide wipe\n"
        "    decide wipe\n",
        error="cancelled",
        status="cancelled",
    ),
    "absent": Row(
        LLM,
        [calls("nothing"), said()],
        "llm absent\n  chat\n  execute_tool nothing  !not_found\n  chat\n",
    ),
    "invalid": Row(
        LLM, [calls("slow"), said()], "llm invalid\n  chat\n  execute_tool slow  !invalid\n  chat\n"
    ),
    "denied": Row(LLM, [calls("bump"), said()], "llm denied\n  chat\n  execute_tool bump  !denied\n  chat\n"),
    "approved": Row(
        LLM,
        [calls("slow", arguments={"seconds": 0}), said()],
        "llm approved\n  chat\n  ask slow\n  decide slow\n  execute_tool slow\n  chat\n",
        [YES],
    ),
    "rejected": Row(
        LLM,
        [calls("wipe"), said()],
        "llm rejected\n  chat\n  ask wipe\n  decide wipe\n  execute_tool wipe  !rejected\n  chat\n",
        [NO],
    ),
    "lost": Row(
        LLM,
        [calls("wipe"), said()],
        "llm lost\n  chat\n  ask wipe\n  decide wipe\n  execute_tool wipe  !unknown_outcome\n"
        "  ask wipe\n  decide wipe\n  chat\n",
        [YES, {"action": "done", "result": "wiped"}],
    ),
    "expired": Row(
        {"type": "llm", "approval": {"expires_after": 0.1, "on_expiry": "fail"}},
        [calls("wipe")],
        "llm expired  !approval_expired\n  chat\n  ask wipe\n  decide wipe\n  execute_tool wipe  !expired\n",
        error="approval_expired",
        status="failed",
    ),
    "checkpoint": Row(
        {"type": "approval", "message": "Go on?"},
        [],
        "approval checkpoint\n  ask checkpoint\n  decide checkpoint\n",
        [YES],
    ),
    "row": Row(
        {"type": "sequential", "agents": [{**LLM, "name": "first"}, {**LLM, "name": "second"}]},
        [said()],
        "sequential row\n  llm first\n    chat\n  llm second\n    chat\n",
    ),
    "wide": Row(
        {"type": "parallel", "agents": [{**LLM, "name": "left"}, {**LLM, "name": "right"}]},
        [said(when={"node": "right"}, delay=0.1), said()],
        "parallel wide\n  llm left\n    chat\n  llm right\n    chat\n",
    ),
    "round": Row(
        {"type": "loop", "agents": [{**LLM, "name": "again", "can_exit_loop": True}]},
        [calls("exit_loop", when={"node": "again", "iteration": 2}), said()],
        "loop round\n  llm again\n    chat\n  llm again\n    chat\n    execute_tool exit_loop\n",
    ),
    "retried": Row(
        {"type": "llm", "retries": 1},
        [{**FAILS, "when": {"step": "1/.STEP:1"}}, said()],
        "llm retried  !model_error\n  chat  !400\nllm retried\n  chat\n",
    ),
    "flaky": Row(
        LLM,
        [{"when": {"attempt": 1}, "error": {"status": 503, "message": "later"}}, said()],
        "llm flaky\n  chat\n",
    ),
    "replaced": Row(
        {"type": "llm", "model": "script:bad.yaml", "fallbacks": ["script:replies.yaml"]},
        [said()],
        "llm replaced\n  chat bad.yaml  !400\n  chat\n",
    ),
    "failed": Row(
        LLM, [FAILS], "llm failed  !model_error\n  chat  !400\n", error="model_error", status="failed"
    ),
    "continued": Row(
        {"type": "sequential", "agents": [{**LLM, "name": "optional", "on_error": "continue"}]},
        [FAILS],
        "sequential continued\n  llm optional  !model_error\n    chat  !400\n",
    ),
    "late": Row(
        {"type": "sequential", "timeout": 600, "agents": [{**LLM, "name": "slow"}]},
        [said(delay=NEVER)],
        "sequential late  !timed_out\n  llm slow  !cancelled\n    chat  !cancelled\n",
        error="timed_out",
        status="failed",
        asked=1,
    ),
    "stopped": Row(
        {"type": "parallel", "agents": [{**LLM, "name": "quick"}, {**LLM, "name": "steady"}]},
        [{**FAILS, "when": {"node": "quick"}, "delay": 600}, said(delay=NEVER)],
        "parallel stopped  !model_error\n  llm quick  !model_error\n    chat  !400\n"
        "  llm steady  !cancelled\n    chat  !cancelled\n",
        error="model_error",
        status="failed",
        asked=2,
    ),
    "cancelled": Row(
        LLM,
        [said(delay=NEVER)],
        "llm cancelled  !cancelled\n  chat  !cancelled\n",
        error="cancelled",
        status="cancelled",
        asked=1,
    ),
}


@pytest.fixture(scope="module")
def server(
    serve_module: Servers, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """An agent that takes the way of a row."""
    folder = tmp_path_factory.mktemp("rows")
    replies = []
    for place, (name, row) in enumerate(ROWS.items()):
        for reply in row.replies:
            when = {"user": f"^{name}$", **reply.get("when", {})}
            if "step" in when:
                when["step"] = when["step"].replace("STEP", str(place))
            replies.append({**reply, "when": when})
    router = {
        "type": "router",
        "name": "by-word",
        "routes": [{"when": {"user_message": name}, "agent": name} for name in ROWS],
        "agents": [{"name": name, **row.node} for name, row in ROWS.items()],
    }
    config = {
        "name": "rows",
        "llm": {"model": "script:replies.yaml", "timeout": 3600},
        "mcp_servers": [{**echo_server("tools", DELAY=f"{NEVER}"), "timeout": 600}],
        "approval": {"rules": [{"tool": "bump", "then": "deny"}, {"tool": "slow", "then": "ask"}]},
        "agent": router,
    }
    file = written(folder, config, replies)
    (folder / "bad.yaml").write_text('replies: [{error: {status: 400, message: "no"}}]')
    env = {**QUICK, "LEDGER": str(folder / "ledger")}
    options = ["--traces", receiver.url]
    server = serve_module(folder / "data", config=file, env=env, options=options, program=PROGRAM)
    # When time passes, the server closes connections that are kept for later requests.
    server.client.headers["Connection"] = "close"
    yield server
    server.run.interrupt()
    assert receiver.violations == []


@pytest.mark.parametrize("name", ROWS)
def test_each_way_of_a_run_has_its_tree(server: Server, receiver: Receiver, name: str) -> None:
    row, trace = ROWS[name], secrets.token_hex(16)
    server.client.headers["traceparent"] = f"00-{trace}-{CLIENT}-01"
    if row.asked:
        id = begin_and_leave(server, name)
        eventually(lambda: asked(server, name) == row.asked)
        if row.status == "cancelled":
            server.post(f"/conversations/{id}/cancel")
        else:
            pass_time(server)
    else:
        id = begin(server, name)["conversation"]["id"]
    if row.status == "cancelled" and not row.asked:
        server.post(f"/conversations/{id}/cancel")
    for decision in row.decisions:
        [approval] = ended(server, id, "waiting")["pending_approvals"]
        if name == "lost" and decision == YES:
            decide_and_leave(server, approval, **decision)
            eventually(lambda: "wipe None" in done(server.data_dir.parent / "ledger"))
            pass_time(server)
            eventually(lambda: pending(server, conversation_id=id, kind="outcome_unknown"))
        else:
            decide(server, approval, **decision)
    ended(server, id, row.status)

    def run_of(spans: Sequence[Span]) -> str | None:
        return next((span.id for span in spans if span.name == "invoke_agent rows"), None)

    spans = receiver.when(trace, run_of, known=[CLIENT])
    error = f"  !{row.error}" if row.error else ""
    [run] = [span for span in spans if span.id == run_of(spans)]
    told = tree(spans, run.parent).replace(" replies.yaml", "")
    assert told == f"invoke_agent rows{error}\n  router by-word{error}\n{indent(row.below, '    ')}"
    assert (run.failed, run["stopgo.outcome"]) == (bool(row.error), row.status)
