"""`--mcp` with real processes: servers from the command line, each as one tool, behind the same gate."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

STOPGO = Path(sys.executable).with_name("stopgo")

AGENT = """
llm: {model: script:script.yaml}
prompt: You help.
"""
SCRIPT = """
replies:
  - when: {user: list, call: 1}
    tool_calls: &list
      - {name: mcp, arguments: {tool: resources_list}}
      - {name: mcp_fs, arguments: {tool: resources_list, arguments: {pattern: "^a"}}}
      - {name: mcp3, arguments: {tool: resources_lst}}
  - when: {user: list}
    text: listed
  - tool_calls:
      - {name: mcp_fs, arguments: {tool: resources_add, arguments: {name: a, value: 1}}}
"""
THREE = (
    *("--mcp", "stopgo mcp-resources --db one.db"),
    *("--mcp", "fs:stopgo mcp-resources --db 'two files.db'"),
    *("--mcp", "stopgo mcp-resources --db three.db"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agent.yaml").write_text(AGENT)
    (tmp_path / "script.yaml").write_text(SCRIPT)
    return tmp_path


def stopgo(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(STOPGO), *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return stopgo(folder, "run", "--config", "agent.yaml", *words)


def test_several_servers_each_with_a_name_of_its_own(folder: Path) -> None:
    done = run(folder, *THREE, "list")
    assert (done.returncode, done.stdout) == (0, "listed\n"), done.stderr
    assert "agent: resources_list()" in done.stderr
    assert 'agent: resources_list(pattern="^a")' in done.stderr
    assert "not called: tool not found: resources_lst of mcp3 (nearest: resources_list" in done.stderr
    assert (folder / "two files.db").is_file()


def test_a_call_through_the_one_tool_passes_the_gate(folder: Path) -> None:
    done = run(folder, *THREE, "add")
    assert done.returncode == 3, done.stderr
    assert 'resources_add(name="a", value=1)' in done.stderr
    # What serves it further needs the same servers.
    assert "--mcp 'fs:stopgo mcp-resources --db '\"'\"'two files.db'\"'\"''" in done.stderr


def test_one_server_alone(folder: Path) -> None:
    done = run(folder, "--mcp", "stopgo mcp-resources --db one.db", "list")
    assert (done.returncode, done.stdout) == (0, "listed\n"), done.stderr
    assert "agent: resources_list()" in done.stderr


def test_a_name_used_twice_is_refused(folder: Path) -> None:
    done = run(folder, "--mcp", "fs:a", "--mcp", "fs:b", "list")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "--mcp: fs: there is already a server of this name\n"


def test_the_help_tells_the_format(folder: Path) -> None:
    for command in ("serve", "run"):
        said = " ".join(stopgo(folder, command, "--help").stdout.split())
        assert "--mcp [LABEL:]COMMAND-OR-URL a further tool server" in said
