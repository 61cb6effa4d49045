from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stopgo.actors.mcp.transports.environment import CommandNotFound, find_command


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_command_beside_the_interpreter_takes_precedence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = executable(tmp_path / "venv" / "bin" / "stopgo")
    executable(tmp_path / "elsewhere" / "stopgo")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "bin" / "python"))
    assert find_command("stopgo", search_path=str(tmp_path / "elsewhere")) == str(ours)


def test_other_commands_are_found_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = executable(tmp_path / "tool")
    assert find_command("tool", search_path=str(tmp_path)) == str(tool)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_command("tool") == str(tool)


def test_command_with_a_slash_is_a_path(tmp_path: Path) -> None:
    tool = executable(tmp_path / "tool")
    assert find_command(str(tool)) == str(tool)


def test_missing_command_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandNotFound, match=r"command not found: nowhere \(looked in .*, then on PATH\)"):
        find_command("nowhere", search_path=str(tmp_path))
    (tmp_path / "data.txt").write_text("")
    with pytest.raises(CommandNotFound, match=r"data\.txt \(no executable file at that path\)"):
        find_command(str(tmp_path / "data.txt"))
    for together in ("nowhere -y package", "/bin/nowhere -y @scope/package"):
        with pytest.raises(CommandNotFound, match=r"; its arguments go into args\)$"):
            find_command(together)
