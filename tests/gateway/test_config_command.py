import json
from pathlib import Path

import pytest

from stopgo.config.reading.schema import json_schema
from stopgo.gateway.cli.main import main


def run(*words: str) -> int:
    return main(["config", *words])


GOOD = "llm: {model: 'offline:rules'}"


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("schema") == 0
    assert json.loads(capsys.readouterr().out) == json_schema()


def test_a_good_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(GOOD)
    assert run("check", str(path)) == 0
    assert capsys.readouterr() == (f"{path}: ok\n", "")


@pytest.mark.parametrize("place", ["approval", "agent: {type: llm, name: a, approval"])
def test_where_the_names_of_tools_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(f"{GOOD}\n{place}: {{rules: [{{then: run, tool: x}}]}}{'}' * place.count('{')}")
    assert run("check", str(path)) == 0
    assert capsys.readouterr().out == (
        f"{path}: ok\n{path}: stopgo mcp test, and each start, checks the names of tools in rules\n"
    )


def test_warnings_do_not_fail_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(f"{GOOD}\nprompt: Hello {{user}}")
    assert run("check", str(path)) == 0
    out, err = capsys.readouterr()
    assert out == f"{path}: ok\n"
    assert err.startswith(f"{path}: warning: agent.prompt: {{user}} stays as it is")


def test_warnings_are_printed_together_with_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("prompt: Hello {user}\nllm: {model: 'offline:magic'}")
    assert run("check", str(path)) == 2
    warning, refusal = capsys.readouterr().err.splitlines()
    assert warning.startswith(f"{path}: warning: ")
    assert refusal.startswith(f'{path}:2:14: llm.model: unknown model "offline:magic"')


def test_every_problem_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("naem: x\nport: y\n")
    assert run("check", str(path)) == 2
    assert capsys.readouterr() == (
        "",
        f'{path}:1:1: naem: unknown key "naem" (did you mean "name"?)\n'
        f"{path}:2:7: port: expected a whole number from 0 to 65535, found text\n",
    )


def test_a_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", str(tmp_path / "no.yaml")) == 2
    assert "there is no such file" in capsys.readouterr().err


def test_unusable_models_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("llm: {model: 'offline:magic', fallbacks: ['openai:x'], options: {stream: false}}")
    assert run("check", str(path)) == 2
    assert capsys.readouterr().err.splitlines() == [
        f'{path}:1:14: llm.model: options of model "offline:magic" may not set stream',
        f'{path}:1:43: llm.fallbacks[0]: options of model "openai:x" may not set stream',
    ]
    monkeypatch.setenv("OPENAI_API_KEY", "")
    path.write_text("llm: {model: 'offline:magic', fallbacks: ['openai:x']}")
    assert run("check", str(path)) == 2
    assert capsys.readouterr().err.splitlines() == [
        f'{path}:1:14: llm.model: unknown model "offline:magic": the only offline model is offline:rules',
        f'{path}:1:43: llm.fallbacks[0]: model "openai:x" needs an API key: set the environment variable '
        "OPENAI_API_KEY",
    ]
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    path.write_text("llm: {model: 'openai:x'}")
    assert run("check", str(path)) == 0


def test_missing_commands_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "agent.yaml"
    servers = (
        "{a: {command: no-such}, b: {command: cat, env_file: none.env}, c: {command: cat, cwd: agent.yaml}}"
    )
    path.write_text(f"{GOOD}\nmcp_servers: {servers}")
    assert run("check", str(path)) == 2
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.startswith(f'{path}: MCP server "a": command not found: no-such')
    assert rest == [
        f'{path}: MCP server "b": env_file {tmp_path / "none.env"}: No such file or directory',
        f'{path}: MCP server "c": cwd {path}: Not a directory',
    ]
    path.write_text(f"{GOOD}\nmcp_servers: {{a: {{command: no-such, required: false}}}}")
    assert run("check", str(path)) == 0
    assert capsys.readouterr().err.startswith(f'{path}: warning: MCP server "a": command not found: no-such')
    path.write_text(f"{GOOD}\nmcp_servers: {{a: {{command: no-such, enabled: false}}}}")
    assert run("check", str(path)) == 0
    assert capsys.readouterr().err == ""


def test_without_a_file_it_is_the_one_that_is_served(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("check") == 0
    assert "the agent that comes with the package" in capsys.readouterr().out
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "agent.yaml").write_text(GOOD)
    assert run("check") == 0
    assert capsys.readouterr().out == "config/agent.yaml: ok\n"


SCRIPTED = """
llm: {model: "script:replies.yaml", fallbacks: ["script:more/spare.yaml"]}
models: {unused: {provider: script, model: nowhere.yaml}}
"""


def test_scripts_are_read_as_at_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(SCRIPTED)
    spare = tmp_path / "more" / "spare.yaml"
    (tmp_path / "replies.yaml").write_text("replies:\n  - txt: hello\n")
    assert run("check", str(path)) == 2
    assert capsys.readouterr() == (
        "",
        'replies.yaml:2:5: replies[0].txt: unknown key "txt" (did you mean "text"?)\n'
        "replies.yaml:2:5: replies[0]: text, tool_calls, a2a or error is required\n"
        f"{path}:2:49: llm.fallbacks[0]: script {spare}: there is no such file "
        "(relative paths are relative to the agent file)\n",
    )
    spare.parent.mkdir()
    for script in (tmp_path / "replies.yaml", spare):
        script.write_text("replies: [{text: hello}]")
    assert run("check", str(path)) == 0
    assert capsys.readouterr() == (f"{path}: ok\n", "")


@pytest.mark.parametrize("words", [(), ("check", ""), ("explain",)])
def test_a_wrong_command_line_is_explained(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        run(*words)
    assert caught.value.code == 2
    assert "usage: stopgo config" in capsys.readouterr().err


PASTED = """{
  // VS Code
  "servers": {
    "git hub": {"type": "http", "url": "https://h.example/mcp", "headers": {"X-Key": "s3cret"}},
  },
}
"""


def test_servers_of_another_client_are_imported_to_a_file_that_is_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given, agent = tmp_path / "mcp.json", tmp_path / "agent.yaml"
    given.write_text(PASTED, encoding="utf-8-sig")
    assert run("import", str(given)) == 0
    text, errors = capsys.readouterr()
    assert errors == ""
    assert run("import", str(given), "--output", str(agent)) == 0
    assert agent.read_text() == text
    assert "X-Key: '${GIT_HUB_X_KEY}'" in text
    assert "stopgo config check" in capsys.readouterr().out
    monkeypatch.setenv("GIT_HUB_X_KEY", "x")
    assert run("check", str(agent)) == 0
    assert run("import", str(given), "--output", str(agent)) == 1
    assert run("import", str(given), "--keep-secrets") == 0
    assert "X-Key: s3cret" in capsys.readouterr().out
    kept = tmp_path / "kept.yaml"
    assert run("import", str(given), "--keep-secrets", "--output", str(kept)) == 0
    assert "X-Key: s3cret" in kept.read_text()
    assert kept.stat().st_mode & 0o077 == 0  # whatever the umask is


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "no MCP servers"),
        ('{"mcpServers": {"a": ', "not valid YAML"),
        ('{"mcpServers": {"a": {}, "a": {}}}', 'duplicate key "a"'),
        (None, "there is no such file"),
    ],
)
def test_file_that_cannot_be_imported_is_a_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, said: str
) -> None:
    path = tmp_path / "mcp.json"
    if text is not None:
        path.write_text(text)
    assert run("import", str(path)) == 2
    assert said in capsys.readouterr().err
