"""The fixtures of the pytest plugin, which this run of pytest loads as every other does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import trio

from stopgo import Agent, AgentConfig, ToolStub, load_config

SCRIPT = """\
replies:
  - when: {call: 1}
    tool_calls: [{name: wipe, arguments: {}}]
  - text: done
"""
OPTIONS = ("-p", "no:cacheprovider", "-W", "error")
DAY = 86_400.0
PASSES = "def test_it() -> None: pass\n"


@pytest.fixture
def wipe() -> ToolStub:
    return ToolStub("wipe", destructive=True)


@pytest.fixture
def agent_tools(wipe: ToolStub) -> dict[str, list[ToolStub]]:
    return {"disk": [wipe]}


@pytest.fixture
def agent_script() -> str:
    return SCRIPT


@pytest.fixture
def agent_config(tmp_path: Path) -> AgentConfig:
    path = tmp_path / "agent.yaml"
    path.write_text(
        "llm: {model: anthropic:some-model}\n"
        "approval: {expires_after: 86400}\n"
        "mcp_servers: {disk: {command: none}}\n",
        encoding="utf-8",
    )
    return load_config(path)


@pytest.fixture
async def waiting(agent: Agent) -> str:
    """The id of a conversation that waits."""
    return (await agent.start_conversation("go")).conversation.id


async def test_stub_waits_for_approval_and_records_its_calls(agent: Agent, wipe: ToolStub) -> None:
    turn = await agent.start_conversation("go")
    assert (turn.result.state, wipe.calls) == ("waiting", [])
    turn = await agent.decide(turn.result.approvals[0], {"approved": True})
    assert (turn.result.response, wipe.calls) == ("done", [{}])


async def test_virtual_day_takes_no_time(agent: Agent, waiting: str, wipe: ToolStub) -> None:
    await trio.sleep(DAY + 1)
    conversation = await agent.get(waiting)
    assert [each.state for each in conversation.approvals.values()] == ["expired"]
    assert wipe.calls == []


def run_pytest(folder: Path, *options: str) -> str:
    command = [sys.executable, "-m", "pytest", *OPTIONS, *options]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return f"{run.returncode} {run.stdout}{run.stderr}"


def write_agent(folder: Path) -> None:
    (folder / "agent.yaml").write_text("llm: {model: openai:some-model}\n", encoding="utf-8")
    (folder / "replies.yaml").write_text("replies: [{text: hello}]\n", encoding="utf-8")


MADE_OF_IT = (
    "import pytest\n"
    "@pytest.fixture\n"
    "async def agent(agent):\n"
    "    await agent.start_conversation('hi')\n"
    "    return agent\n"
    "async def test_it(agent):\n"
    "    assert len((await agent.conversations()).conversations) == 1\n"
)


@pytest.mark.parametrize("mode", ["", "trio_mode = true\n"])
def test_agent_runs_by_trio_with_the_files_beside_the_test(tmp_path: Path, mode: str) -> None:
    """Also an agent of the user's own that is made of this one."""
    (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = --strict-markers\n{mode}", encoding="utf-8")
    write_agent(tmp_path)
    (tmp_path / "test_it.py").write_text(
        "async def test_it(agent):\n"
        "    turn = await agent.start_conversation('hi')\n"
        "    assert turn.result.response == 'hello'\n",
        encoding="utf-8",
    )
    (tmp_path / "test_made_of_it.py").write_text(MADE_OF_IT, encoding="utf-8")
    assert "2 passed" in run_pytest(tmp_path)


def test_agent_fixture_of_the_user_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.fixture\n"
        "def agent(): return 7\n"
        "def test_it(agent): assert agent == 7\n"
        "async def test_other(agent): pass\n",
        encoding="utf-8",
    )
    assert "async def functions are not natively supported" in run_pytest(tmp_path)


def test_plugin_loads_without_pytest_trio(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(PASSES, encoding="utf-8")
    assert run_pytest(tmp_path, "-p", "no:trio").startswith("0 ")


def test_pytest_starts_without_loading_the_agent(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    loaded = {name for name in sys.modules if name.startswith('stopgo')}\n"
        "    assert loaded == {'stopgo', 'stopgo.gateway', 'stopgo.gateway.testing',\n"
        "                      'stopgo.gateway.testing.pytest_plugin'}\n",
        encoding="utf-8",
    )
    assert run_pytest(tmp_path).startswith("0 ")
