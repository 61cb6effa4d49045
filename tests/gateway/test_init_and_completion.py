"""`stopgo init` and `stopgo completion`: the first steps with the command line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stopgo.config.load import load_config
from stopgo.gateway.cli.main import main
from tests.gateway.conftest import InProcess


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


STRICT = (
    "In this file, tools that may do harm, and tools that do not say, ask a person first "
    "(approval.defaults: strict)."
)


def test_written_file_is_valid_and_complete(folder: Path, in_process: InProcess) -> None:
    done = in_process("init", "my agent.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1:] == [
        "  stopgo config check 'my agent.yaml'",
        "  stopgo serve --config 'my agent.yaml'",
        STRICT,
    ]
    file = folder / "my agent.yaml"
    assert load_config(file).warnings == ()
    for topic in ("llm:", "mcp_servers:", "defaults: strict", "#auth:", "${file:PATH}", "#agent:"):
        assert topic in file.read_text()


def test_file_is_found_by_the_commands_beside_it(folder: Path, in_process: InProcess) -> None:
    done = in_process("init")
    assert done.stdout.splitlines() == [
        "wrote agent.yaml. Next:",
        "  stopgo config check",
        "  stopgo serve",
        STRICT,
    ]
    assert in_process("config", "check").stdout == "agent.yaml: ok\n"
    assert load_config().source == Path("agent.yaml")
    (folder / "config").mkdir()
    (folder / "config" / "agent.yaml").write_text("name: other")
    assert load_config().source == Path("config/agent.yaml")
    (folder / "agent.yaml").unlink()
    assert "  stopgo serve --config agent.yaml" in in_process("init").stdout.splitlines()


MODELS = ["", "anthropic:claude-x", 'openai_compatible:a "b": #c', "ollama:a}b${C}", "offline:rules"]
SERVERS: list[tuple[tuple[str, ...], list[tuple[str, str | None, tuple[str, ...]]]]] = [
    ((), [("resources", "stopgo", ("mcp-resources", "--db", "DATA/resources.db"))]),
    (("fs:server --dir 'a b' ${HOME}",), [("fs", "server", ("--dir", "a b", "${HOME}"))]),
    (
        ("https://tools.example/mcp", "x", "x y: - '#'"),
        [("mcp", None, ()), ("mcp2", "x", ()), ("mcp3", "x", ("y:", "-", "#"))],
    ),
]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("servers", "expected"), SERVERS)
def test_file_has_the_model_and_servers_of_the_options(
    folder: Path, in_process: InProcess, model: str, servers: tuple[str, ...], expected: list[object]
) -> None:
    options = [
        *(["--model", model] if model else []),
        *(word for each in servers for word in ("--mcp", each)),
    ]
    assert in_process("init", *options).returncode == 0
    config = load_config(environ={}, data_dir="DATA")
    assert config.llm.model == (model or "offline:rules")
    found = [
        (
            each.name,
            each.command,
            tuple(arg.replace(str(Path("DATA").absolute()), "DATA") for arg in each.args),
        )
        for each in config.mcp_servers
    ]
    assert found == expected
    assert (config.approval.defaults, config.warnings) == ("strict", ())
    assert config.examples[0] == ("What can you do?" if servers else "Add a lamp with value 3.")
    assert ("resources" in (folder / "agent.yaml").read_text()) is not bool(servers)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--model", "gpt:"), 'unknown provider "gpt" in "gpt:"'),
        (("--mcp", "ftp://a"), "expected an http:// or https:// address"),
        (("--mcp", "a 'b"), "the command cannot be split into words"),
    ],
)
def test_wrong_option_writes_nothing(
    folder: Path, in_process: InProcess, options: tuple[str, ...], why: str
) -> None:
    done = in_process("init", *options)
    assert (done.returncode, why in done.stderr, list(folder.glob("*.yaml"))) == (2, True, [])


@pytest.mark.parametrize(
    ("answers", "options", "model", "servers"),
    [
        (["", ""], (), "offline:rules", ["resources"]),
        (["ollama:q", "fs:files /tmp, https://h/mcp"], (), "ollama:q", ["fs", "mcp2"]),
        (["b:c d"], ("--model", "ollama:q"), "ollama:q", ["b"]),
        ([], ("--model", "ollama:q", "--mcp", "b:c"), "ollama:q", ["b"]),
        ([], (), "offline:rules", ["resources"]),
    ],
)
def test_at_a_terminal_it_asks_for_what_the_options_do_not_say(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    answers: list[str],
    options: tuple[str, ...],
    model: str,
    servers: list[str],
) -> None:
    given = iter(answers)

    def answer(question: str) -> str:
        try:
            return next(given)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", answer)
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    assert main(["init", *options]) == 0
    assert next(given, None) is None
    config = load_config(environ={})
    assert (config.llm.model, [each.name for each in config.mcp_servers]) == (model, servers)


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
