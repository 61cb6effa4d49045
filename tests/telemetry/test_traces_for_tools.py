"""The trace that tool servers get with a call, and no spans of the MCP SDK."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.actors.mcp.test_questions import SCRIPT, asking_server
from tests.e2e.chains import SCRIPTED, TELL, Json, written
from tests.e2e.conftest import Serve
from tests.telemetry.receiver import QUICK, Receiver

REPLIES: list[Json] = [{"when": {"call": 1}, "tool_calls": [{"name": "trace"}]}, TELL]
STDIO: Json = {"command": sys.executable, "args": ["-W", "ignore", SCRIPT, "stdio"]}


def agent(folder: Path, server: Json) -> Path:
    return written(
        folder, {"name": "solo", "llm": SCRIPTED, "mcp_servers": [{"name": "s", **server}]}, REPLIES
    )


@pytest.mark.parametrize(
    ("transport", "mode"),
    [
        ("http", "modern"),
        *(
            pytest.param(*each, marks=pytest.mark.agents)
            for each in (("http", "legacy"), ("stdio", "modern"), ("stdio", "legacy"), ("sse", "auto"))
        ),
    ],
)
def test_a_tool_server_is_told_the_span_of_its_call(
    serve: Serve, receiver: Receiver, tmp_path: Path, transport: str, mode: str
) -> None:
    with asking_server(transport if transport != "stdio" else "http") as url:
        server = STDIO if transport == "stdio" else {"url": url}
        config = agent(tmp_path, {**server, "mode": mode})
        traced = serve(tmp_path / "data", config=config, env=QUICK, options=["--traces", receiver.url])
        turn = traced.post("/conversations", {"message": "go"}, status=201)
        traced.run.interrupt()
    assert receiver.violations == []
    id = turn["conversation"]["id"]
    [call] = [
        span
        for span in receiver.spans
        if span["gen_ai.tool.name"] == "trace" and span["gen_ai.conversation.id"] == id
    ]
    assert turn["result"]["response"] == f"told: {call.traceparent}"
    names = [span.name for span in receiver.trace(call.trace)]
    assert sorted(names) == sorted(
        ["POST /conversations", "invoke_agent solo", "llm solo", *["chat replies.yaml"] * 2, call.name]
    )


PROGRAM = """
import sys

import trio
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

from stopgo import load_config, open_agent


async def main():
    with trace.get_tracer("program").start_as_current_span("program"):
        async with open_agent(load_config(sys.argv[1], data_dir=sys.argv[2])) as agent:
            turn = await agent.start_conversation("go")
    print(turn.result.response)


trio.run(main)
print([span.name for span in exporter.get_finished_spans()])
"""


def test_a_program_with_a_tracer_gets_no_span_of_a_call_from_the_sdk(tmp_path: Path) -> None:
    """The SDK makes spans of its other requests, such as `tools/list`, because the program wants spans."""
    argv = [sys.executable, "-c", PROGRAM, str(agent(tmp_path, STDIO)), str(tmp_path / "data")]
    told = subprocess.run(argv, capture_output=True, text=True, check=True)
    answer, spans = told.stdout.splitlines()
    assert answer == "told: None"
    assert "'program'" in spans
    assert "tools/call" not in spans
