"""The stock client of AG-UI, and the two of the guide, drive a `stopgo serve` process.

STOPGO_NPM_DIR is where `make npm-servers` installs `@ag-ui/client`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from tests.e2e.conftest import Server, Servers
from tests.test_docs import blocks

pytestmark = pytest.mark.npm

Json = dict[str, Any]

HERE = Path(__file__).parent
GUIDE = HERE.parents[1] / "docs" / "guides" / "write-a-client.md"
ADD = {"name": "resources_add", "arguments": {"name": "${name}", "value": 1}}
ADD_OTHER = {"name": "resources_add", "arguments": {"name": "${other}", "value": 1}}
REPLIES: list[Json] = [
    {
        "when": {"user": "^hello$"},
        "text": "Hello yourself.",
        "usage": {"input_tokens": 3, "output_tokens": 2},
    },
    {"when": {"user": "^fail$"}, "error": {"status": 400, "message": "no"}},
    {"when": {"user": r"^add (?P<name>\S+)$", "call": 1}, "text": "I add it.", "tool_calls": [ADD]},
    {"when": {"user": r"^add (?P<name>\S+) (?P<other>\S+)$", "call": 1}, "tool_calls": [ADD, ADD_OTHER]},
    {"when": {"tool_result": '"id"'}, "text": "Added."},
    {"when": {"last_tool": "resources_add"}, "text": "Then not."},
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("agui")
    (folder / "replies.yaml").write_text(yaml.safe_dump({"replies": REPLIES}))
    resources = {"command": "stopgo", "args": ["mcp-resources", "--db", "${data_dir}/resources.db"]}
    agent: Json = {
        "name": "keeper",
        "llm": {"model": "script:replies.yaml"},
        "mcp_servers": [{"name": "resources", **resources}],
    }
    (folder / "agent.yaml").write_text(yaml.safe_dump(agent))
    servers = Servers()
    try:
        yield servers(folder / "data", config=folder / "agent.yaml")
    finally:
        servers.stop_all()


@attrs.define(eq=False)
class StockClient:
    _process: subprocess.Popen[str]

    def do(self, **order: Any) -> Json:
        """What the client holds after the run. It had nothing to object to."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)
        told: Json = json.loads(self._process.stdout.readline())
        assert told["warnings"] == []
        return told


@pytest.fixture
def client(server: Server) -> Iterator[StockClient]:
    argv = ["node", str(HERE / "stock_client.mjs"), server.run.url, uuid.uuid4().hex]
    with subprocess.Popen(
        argv, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield StockClient(process)
        finally:
            process.kill()


def environment() -> dict[str, str]:
    package = Path(os.environ.get("STOPGO_NPM_DIR", "")) / "node_modules" / "@ag-ui" / "client"
    assert package.exists(), "the client is not installed in STOPGO_NPM_DIR: run `make npm-servers`"
    # Proxies of this machine lead nowhere near the agent.
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


@pytest.fixture
def name() -> str:
    """Of a resource that no other test has."""
    return f"lamp-{uuid.uuid4().hex[:8]}"


def resolved(interrupt: Json, **payload: Any) -> Json:
    return {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}


def shown(messages: list[Json]) -> list[tuple[str, str]]:
    return [(message["role"], message.get("content") or "") for message in messages]


def test_a_message_is_answered_by_streamed_text(client: StockClient) -> None:
    told = client.do(say="hello")
    assert shown(told["messages"]) == [("user", "hello"), ("assistant", "Hello yourself.")]
    assert told["outcome"] == "success"
    assert {"STATE_SNAPSHOT", "STEP_STARTED", "TEXT_MESSAGE_CONTENT", "STEP_FINISHED"} <= set(told["types"])
    again = client.do()
    assert shown(again["messages"]) == shown(told["messages"])
    assert "MESSAGES_SNAPSHOT" in again["types"]


def test_a_call_is_resumed_with_edited_arguments(client: StockClient, server: Server, name: str) -> None:
    told = client.do(say=f"add {name}")
    assert told["outcome"] == "interrupt"
    [interrupt] = told["interrupts"]
    [call] = told["messages"][-1]["toolCalls"]
    assert (call["id"], json.loads(call["function"]["arguments"])) == (
        interrupt["toolCallId"],
        {"name": name, "value": 1},
    )
    [again] = client.do(resume=[resolved(interrupt, approved=True, editedArgs={"value": 2})])["interrupts"]
    assert again["metadata"]["error"]["code"] == "invalid_arguments"
    told = client.do(resume=[resolved(again, approved=True, editedArgs={"name": name, "value": 2})])
    assert (told["outcome"], told["interrupts"]) == ("success", [])
    assert [role for role, _ in shown(told["messages"])] == ["user", "assistant", "tool", "assistant"]
    assert shown(told["messages"])[-1] == ("assistant", "Added.")
    assert server.resources()[name, "2"] == 1


def test_two_interrupts_at_once_and_a_resume_that_is_repeated(
    client: StockClient, server: Server, name: str
) -> None:
    other = f"{name}-other"
    first, second = client.do(say=f"add {name} {other}")["interrupts"]
    resume = [resolved(first, approved=True), resolved(second, approved=False, reason="one will do")]
    told = client.do(resume=resume)
    assert told["outcome"] == "success"
    results = [text for role, text in shown(told["messages"]) if role == "tool"]
    assert len(results) == 2
    assert any("one will do" in result for result in results)
    again = client.do(resume=resume)
    assert again["outcome"] == "success"
    assert shown(again["messages"]) == shown(told["messages"])
    assert server.resources()[name, "1"] == 1
    assert server.resources()[other, "1"] == 0


def test_an_open_interrupt_comes_back(client: StockClient, name: str) -> None:
    [interrupt] = client.do(say=f"add {name}")["interrupts"]
    told = client.do(say="hello", forget=True)
    assert [each["id"] for each in told["interrupts"]] == [interrupt["id"]]
    told = client.do(resume=[{"interruptId": interrupt["id"], "status": "cancelled"}])
    assert told["outcome"] == "success"
    assert told["messages"][-1]["content"] == "Then not."


def test_a_failure_is_an_error_with_its_code(client: StockClient) -> None:
    assert client.do(say="fail")["error"] == "model_error"
    assert client.do(say="hello")["outcome"] == "success"


@pytest.mark.parametrize(
    ("runs", "program"), [(sys.executable, "agui_client.py"), ("node", "agui_client.mjs")]
)
def test_the_clients_of_the_guide_tell_the_whole_story(
    runs: str, program: str, server: Server, name: str, tmp_path: Path
) -> None:
    [text] = [block.text for block in blocks(GUIDE) if block.name == program]
    (tmp_path / program).write_text(text.replace("http://localhost:8080", server.run.url))
    (tmp_path / "node_modules").symlink_to(Path(os.environ["STOPGO_NPM_DIR"], "node_modules"))
    edited = json.dumps({"name": name, "value": 7})
    ran = subprocess.run(
        [runs, str(tmp_path / program), uuid.uuid4().hex, f"add {name}"],
        input=f"{edited}\n",
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("I add it.\n")
    assert "(y/n/arguments) result: " in ran.stdout
    assert ran.stdout.endswith("Added.\n")
    assert server.resources()[name, "7"] == 1
