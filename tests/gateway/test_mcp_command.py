"""`stopgo mcp`: servers are real processes, the gate is the agent's."""

from __future__ import annotations

import json
import logging
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio
import yaml

from stopgo.gateway.cli import main
from stopgo.gateway.cli.client import mcp_session
from stopgo.gateway.cli.terminal.terminal import Terminal
from tests.gateway.guarded_server import guarded_server
from tests.waiting import until

ECHO = Path(__file__).parents[2] / "testdata" / "servers" / "echo_server.py"

Stopgo = Callable[..., int]


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """The command sets it up for a process of its own."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers, root.level = before


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def file(tmp_path: Path, ledger: Path) -> Path:
    """An agent with one server that runs, one that is switched off and one that does not exist."""
    path = tmp_path / "agent.yaml"
    config: dict[str, Any] = {
        "llm": {"model": "offline:rules"},
        "mcp_servers": {
            "echo": {
                "command": sys.executable,
                "args": ["-S", str(ECHO)],
                "env": {"LEDGER": str(ledger), "KEY": "s3cret"},
                "tools": {"exclude": ["slow*"]},
            },
            "off": {"url": "http://127.0.0.1:1/${NO:-mcp}", "enabled": False, "headers": {"X-Key": "s3cret"}},
            "gone": {"command": "no-such-command", "required": False, "expose": "server"},
        },
        "approval": {"rules": [{"tool": "echo", "arguments": {"text": "bad"}, "then": "deny"}]},
    }
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


@pytest.fixture
def stopgo(file: Path) -> Stopgo:
    def run(command: str, *words: str) -> int:
        return main.main(["mcp", command, "--config", str(file), *words])

    return run


def sent(ledger: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []


# ------------------------------------------------------------------- list and show


def test_list_prints_a_line_for_each_server(stopgo: Stopgo, capsys: pytest.CaptureFixture[str]) -> None:
    assert stopgo("list", "--mcp", "fs:run it") == 0
    lines = [re.sub(" +", " ", line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        f"echo stdio {sys.executable}",
        "off http or sse http://127.0.0.1:1/${NO:-mcp} (disabled)",
        "gone stdio no-such-command (not required, as one tool, mcp_gone)",
        "fs stdio run (as one tool, mcp_fs)",
    ]


def test_server_of_a_program_is_listed_but_not_tested(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "brought.yaml"
    path.write_text("mcp_servers: [{name: calc, brought_by: program}]")
    assert main.main(["mcp", "list", "--config", str(path)]) == 0
    assert capsys.readouterr().out == "calc  program  an object of the program\n"
    assert main.main(["mcp", "show", "calc", "--config", str(path)]) == 0
    assert "brought_by: an object of the program\ntransport: program\n" in capsys.readouterr().out
    assert main.main(["mcp", "test", "--config", str(path)]) == 1
    assert "only a program can bring it" in capsys.readouterr().out


def test_list_without_servers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.yaml"
    path.write_text("llm: {model: offline:rules}")
    assert main.main(["mcp", "list", "--config", str(path)]) == 0
    assert capsys.readouterr().out == "No MCP servers configured\n"


def test_show_prints_settings_without_secrets(stopgo: Stopgo, capsys: pytest.CaptureFixture[str]) -> None:
    assert stopgo("show", "echo") == stopgo("show", "off") == 0
    said = capsys.readouterr().out
    for line in (
        "timeout: 60",
        "max_retries: 3",
        "env: LEDGER, KEY",
        "tools.exclude: slow*",
        "enabled: false",
    ):
        assert f"{line}\n" in said
    assert "headers: X-Key\n" in said
    assert "s3cret" not in said


@pytest.mark.parametrize("command", [("show",), ("test",), ("call", "echo")])
def test_a_server_that_is_not_there(
    stopgo: Stopgo, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    assert stopgo(command[0], "ecko", *command[1:]) == 2
    assert capsys.readouterr().err == 'stopgo mcp: no server is called "ecko" (did you mean "echo"?)\n'


def test_a_file_that_is_wrong(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("mcp_servers: {a: {comand: x}}")
    for command in (["list"], ["show", "a"], ["test"], ["call", "a", "b"]):
        assert main.main(["mcp", *command, "--config", str(file)]) == 2
    assert "did you mean" in capsys.readouterr().err


# ---------------------------------------------------------------------------- test


def test_test_prints_outcome_and_verdicts(stopgo: Stopgo, capsys: pytest.CaptureFixture[str]) -> None:
    assert stopgo("test", "echo") == 0
    first, *tools = capsys.readouterr().out.splitlines()
    connected = re.fullmatch(
        r"echo: connected in \d+\.\d\d s, protocol [\d-]+ \((legacy|modern)\), (\d+) tools", first
    )
    assert connected
    assert any(
        re.match(r"  wipe: ask \(destructiveHint: true\); .*destructiveHint: true", line) for line in tools
    )
    assert any(re.match(r"  \w+: run \(readOnlyHint: true\)", line) for line in tools)
    assert not any(line.startswith("  slow") for line in tools)
    left_out = int(connected[2]) - len(tools[:-1])
    assert tools[-1] == f"  {left_out} left out by tools.include, tools.exclude or on_duplicate"


def test_test_fails_when_one_fails(stopgo: Stopgo, capsys: pytest.CaptureFixture[str]) -> None:
    assert stopgo("test") == 2
    said = capsys.readouterr().out
    assert re.search(r"^echo: connected", said, re.MULTILINE)
    assert re.search(
        r"^gone: failed after \d+\.\d\d s: command not found: no-such-command", said, re.MULTILINE
    )
    assert "off" not in said


@pytest.mark.parametrize(
    ("words", "more", "code", "told", "quiet"),
    [
        (("echo",), {"server": "echo"}, 2, 'no tool is called "ecko" (did you mean "echo"?)', "warning: app"),
        (
            (),
            {},
            2,
            'warning: approval.rules[0].tool: no tool is called "ecko" so far; the tools of',
            "yaml:",
        ),
        (("echo",), {}, 0, "", "approval.rules[0]"),
    ],
)
def test_mcp_test_makes_the_review_of_the_start(
    stopgo: Stopgo,
    file: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    more: dict[str, str],
    code: int,
    told: str,
    quiet: str,
) -> None:
    config = yaml.safe_load(file.read_text())
    config["approval"]["rules"][0] |= {"tool": "ecko", **more}
    file.write_text(yaml.safe_dump(config, sort_keys=False))
    assert stopgo("test", *words) == code
    said = capsys.readouterr().err
    assert told in said
    assert quiet not in said


def test_test_without_servers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.yaml"
    path.write_text("llm: {model: offline:rules}")
    assert main.main(["mcp", "test", "--config", str(path)]) == 0
    assert capsys.readouterr().out == "No MCP servers configured\n"


def test_test_prints_the_server_facade(
    stopgo: Stopgo, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = yaml.safe_load(file.read_text())
    config["mcp_servers"]["echo"]["expose"] = "server"
    file.write_text(yaml.safe_dump(config, sort_keys=False))
    assert stopgo("test", "echo") == 0
    said = capsys.readouterr().out
    assert "  models see one tool, mcp_echo\n" in said
    assert "  echo: run (readOnlyHint: true)" in said


@pytest.mark.parametrize("command", [("test", "guarded"), ("call", "guarded", "look")])
def test_a_server_that_wants_a_token_cannot_be_tried(
    file: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    with guarded_server() as url:
        file.write_text(f"llm: {{model: offline:rules}}\nmcp_servers: {{guarded: {{url: '{url}'}}}}")
        assert main.main(["mcp", command[0], "--config", str(file), *command[1:]]) == 1
    said = capsys.readouterr()
    assert "auth_required: HTTP 401 Unauthorized" in said.out + said.err


def test_test_fails_when_tools_collide(
    stopgo: Stopgo, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = yaml.safe_load(file.read_text())
    config["mcp_servers"] = dict.fromkeys(("a", "b"), config["mcp_servers"]["echo"])
    file.write_text(yaml.safe_dump(config, sort_keys=False))
    assert stopgo("test") == 2
    assert 'duplicate tool name "echo" found in MCP servers "a" and "b"' in capsys.readouterr().out
    config["tool_names"] = "prefixed"
    file.write_text(yaml.safe_dump(config, sort_keys=False))
    assert stopgo("test") == 0
    assert "  mcp__a__echo (its own name: echo): run" in capsys.readouterr().out


# ---------------------------------------------------------------------------- call


def test_call_prints_the_result(stopgo: Stopgo, ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert stopgo("call", "echo", "echo", '{"text": "hello"}') == 0
    assert capsys.readouterr().out == "hello\n"
    assert [call["tool"] for call in sent(ledger)] == ["echo"]


def test_call_that_asks_needs_a_terminal(
    stopgo: Stopgo, ledger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stopgo("call", "echo", "wipe", "{}") == 3
    said = capsys.readouterr().err
    assert "The gate asks: destructiveHint: true" in said
    assert "WIPE" in said
    assert sent(ledger) == []
    assert stopgo("call", "echo", "wipe", "{}", "--yes") == 0
    assert [call["tool"] for call in sent(ledger)] == ["wipe"]


@pytest.mark.parametrize(("said", "code"), [("y", 0), ("YES", 0), ("n", 3), ("", 3), (None, 3)])
def test_call_asks_at_the_terminal(
    stopgo: Stopgo, ledger: Path, monkeypatch: pytest.MonkeyPatch, said: str | None, code: int
) -> None:
    async def ask(self: Terminal, prompt: str) -> str | None:
        return said

    monkeypatch.setattr(Terminal, "of_this_process", lambda: Terminal(can_ask=True, colour=False))
    monkeypatch.setattr(Terminal, "ask", ask)
    assert stopgo("call", "echo", "wipe") == code
    assert len(sent(ledger)) == (code == 0)


def test_call_makes_no_call_that_is_denied(
    stopgo: Stopgo, ledger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stopgo("call", "echo", "echo", '{"text": "bad"}', "--yes") == 4
    assert "denied: approval.rules[0]" in capsys.readouterr().err
    assert sent(ledger) == []


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("ecko", "{}", 'the server "echo" has no tool "ecko" (nearest: echo'),
        ("slow", "{}", 'the server "echo" has no tool "slow"'),
        ("echo", "{", "the arguments are not JSON"),
        ("echo", "[]", "the arguments must be a JSON object"),
        ("echo", '{"text": [1]}', "the arguments do not fit: text: "),
    ],
)
def test_call_says_what_is_wrong(
    stopgo: Stopgo, ledger: Path, capsys: pytest.CaptureFixture[str], tool: str, arguments: str, said: str
) -> None:
    assert stopgo("call", "echo", tool, arguments) == 2
    assert said in capsys.readouterr().err
    assert sent(ledger) == []


def test_call_reports_an_unknown_outcome(
    stopgo: Stopgo, ledger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stopgo("call", "echo", "crash") == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith('MCP server "echo" connection lost: ')
    assert [call["tool"] for call in sent(ledger)] == ["crash"]


def test_call_of_a_server_that_cannot_be_had(stopgo: Stopgo, capsys: pytest.CaptureFixture[str]) -> None:
    assert stopgo("call", "gone", "x") == 1
    assert 'MCP server "gone" failed: command not found: no-such-command' in capsys.readouterr().err


def test_a_signal_ends_it(stopgo: Stopgo, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(*_: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(mcp_session, "_test", interrupted)
    assert stopgo("test") == 130


@pytest.fixture
def family(tmp_path: Path) -> Path:
    """The pids of a server that answers nothing, and of its child; the file of its agent is beside it."""
    pids = tmp_path / "pids"
    server = {
        "command": sys.executable,
        "args": ["-S", str(ECHO.with_name("unruly_server.py"))],
        "env": {"UNRULY": "family,mute", "FAMILY": str(pids)},
    }
    config = {"llm": {"model": "offline:rules"}, "mcp_servers": {"unruly": server}}
    (tmp_path / "agent.yaml").write_text(yaml.safe_dump(config))
    return pids


async def test_nothing_is_left_behind_when_it_is_terminated(family: Path) -> None:
    stopgo = Path(sys.executable).with_name("stopgo")
    async with await trio.open_file(family, "w+") as pids:
        process = await trio.lowlevel.open_process(
            [str(stopgo), "mcp", "test", "--config", "agent.yaml"], cwd=str(family.parent)
        )

        async def found() -> list[str]:
            await pids.seek(0)
            return (await pids.read()).split()

        async def has_begun() -> bool:
            return len(await found()) == 2

        await until(has_begun)
        process.terminate()
        assert await process.wait() == 128 + signal.SIGTERM
        family_of = await found()
        await until(lambda: not any(map(is_alive, family_of)))


def is_alive(pid: str) -> bool:
    return psutil.pid_exists(int(pid)) and psutil.Process(int(pid)).status() != psutil.STATUS_ZOMBIE
