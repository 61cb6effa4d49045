"""`stopgo init` and `stopgo completion`: the first steps with the command line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stopgo.config.load import load_config
from tests.gateway.conftest import InProcess


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_written_file_is_valid_and_complete(folder: Path, in_process: InProcess) -> None:
    done = in_process("init", "my agent.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1:] == [
        "  stopgo config check 'my agent.yaml'",
        "  stopgo serve --config 'my agent.yaml'",
    ]
    file = folder / "my agent.yaml"
    assert load_config(file).warnings == ()
    for topic in ("llm:", "mcp_servers:", "defaults: strict", "#auth:", "${file:PATH}", "#agent:"):
        assert topic in file.read_text()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("kept.yaml", "it exists, and is not replaced"),
        ("none/agent.yaml", "No such file or directory"),
        (".", "it exists, and is not replaced"),
    ],
)
def test_nothing_is_replaced(folder: Path, in_process: InProcess, name: str, why: str) -> None:
    (folder / "kept.yaml").write_text("name: mine")
    done = in_process("init", name)
    assert (done.returncode, done.stderr) == (1, f"stopgo init: cannot write {name}: {why}\n")
    assert (folder / "kept.yaml").read_text() == "name: mine"


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (("stopgo", "ser"), ["serve"]),
        (("stopgo", "config", "che"), ["check"]),
        (("stopgo", "serve", "--conf"), ["--config"]),
        (("stopgo", "serve", "--log-format", "j"), ["json"]),
        (("stopgo", "serve", "--config", "special"), ["special.yaml"]),
        (("stopgo", "config", "check", "spec"), ["special.yaml"]),
        (("stopgo", "approvals", "dec"), []),
    ],
)
def test_bash_completes(
    folder: Path, in_process: InProcess, words: tuple[str, ...], completed: list[str]
) -> None:
    (folder / "special.yaml").touch()
    (folder / "script").write_text(in_process("completion", "bash").stdout)
    ask = 'source ./script; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_stopgo; echo "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "-c", ask, "bash", *words], cwd=folder, capture_output=True, text=True, check=True
    )
    assert (done.stdout.split(), done.stderr) == (completed, "")


def test_zsh_gets_a_function(in_process: InProcess) -> None:
    assert in_process("completion", "zsh").stdout.startswith("#compdef stopgo\n")
