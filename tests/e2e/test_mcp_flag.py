"""`--mcp` with real servers: commands from the command line, each as one tool, behind the same gate."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stopgo.gateway.cli.main import main
from tests.e2e.chains import SERVERS
from tests.gateway.conftest import InProcess

ECHO = f"{sys.executable} -S {SERVERS / 'echo_server.py'}"
AGENT = """
llm: {model: script:script.yaml}
prompt: You help.
"""
SCRIPT = """
replies:
  - when: {user: list, call: 1}
    tool_calls: &list
      - {name: mcp, arguments: {tool: echo}}
      - {name: mcp_fs, arguments: {tool: echo, arguments: {text: "^a"}}}
      - {name: mcp3, arguments: {tool: ecko}}
  - when: {user: list}
    text: listed
  - tool_calls:
      - {name: mcp_fs, arguments: {tool: wipe, arguments: {text: a}}}
"""
THREE = (
    *("--mcp", ECHO),
    *("--mcp", f"fs:env 'LEDGER=two words' {ECHO}"),
    *("--mcp", ECHO),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agent.yaml").write_text(AGENT)
    (tmp_path / "script.yaml").write_text(SCRIPT)
    return tmp_path


def run(in_process: InProcess, *words: str) -> subprocess.CompletedProcess[str]:
    return in_process("run", "--config", "agent.yaml", *words)


def test_several_servers_have_names_of_their_own(folder: Path, in_process: InProcess) -> None:
    done = run(in_process, *THREE, "list")
    assert (done.returncode, done.stdout) == (0, "listed\n"), done.stderr
    assert "agent: echo()" in done.stderr
    assert 'agent: echo(text="^a")' in done.stderr
    assert "not called: tool not found: ecko of mcp3 (nearest: echo" in done.stderr
    assert (folder / "two words").is_file()


@pytest.mark.usefixtures("folder")
def test_call_through_a_server_facade_passes_the_gate(in_process: InProcess) -> None:
    done = run(in_process, *THREE, "wipe")
    assert done.returncode == 3, done.stderr
    assert 'wipe(text="a")' in done.stderr
    # The hint repeats --mcp because serving the conversation needs the same servers.
    assert "--mcp 'fs:env '\"'\"'LEDGER=two words'\"'\"' " in done.stderr


@pytest.mark.usefixtures("folder")
def test_one_server_alone(in_process: InProcess) -> None:
    done = run(in_process, "--mcp", ECHO, "list")
    assert (done.returncode, done.stdout) == (0, "listed\n"), done.stderr
    assert "agent: echo()" in done.stderr


@pytest.mark.parametrize("command", ["serve", "run"])
def test_help_shows_the_format_of_mcp(capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    help = " ".join(capsys.readouterr().out.split())
    assert "--mcp [LABEL:]COMMAND-OR-URL further tool server" in help
