"""Values from files: `${file:PATH}`."""

from __future__ import annotations

from pathlib import Path

import pytest

from stopgo.actors.models.providers.endpoints import endpoint
from stopgo.config.load import load_config
from stopgo.config.sections.models import resolve_model
from stopgo.config.sections.secrets import secrets_of
from stopgo.config.text.errors import ConfigError

SECRET = "correct-horse-battery"


def write(folder: Path, text: str, **files: str | bytes) -> Path:
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    file = folder / "agent.yaml"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("content", "value"),
    [("a ${X}", "a ${X}"), ("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n"), (" a ", " a ")],
)
def test_value_is_the_file_without_its_last_newline(tmp_path: Path, content: str, value: str) -> None:
    text = f"name: '<${{file:secret}}>'\nprompt: ${{file:{tmp_path}/secret}}"
    config = load_config(write(tmp_path, text, secret=content))
    assert (config.name, config.prompt) == (f"<{value}>", value)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "there is no such file"),
        (b"", "it is empty"),
        (b"\n", "it is empty"),
        (b"a\0b", "it contains a null character"),
        (b"\xff", "it is not UTF-8 text"),
        (b"x" * 65_537, "it is larger than 65536 bytes"),
    ],
)
def test_mistakes_have_a_position_and_a_reason(tmp_path: Path, content: bytes | None, why: str) -> None:
    files = {} if content is None else {"secret": content}
    file = write(tmp_path, "name: x\nprompt: ${file:secret}", **files)
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    [problem] = caught.value.problems
    assert (problem.code, problem.line, problem.column) == ("file_unreadable", 2, 9)
    assert problem.message == f"cannot read secret: {why}"


@pytest.mark.parametrize("path", ["/dev/zero", ".", "x" * 300], ids=str.__len__)
def test_only_a_file_is_read(tmp_path: Path, path: str) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load_config(write(tmp_path, f'prompt: "${{file:{path}}}"'))


@pytest.mark.parametrize("text", ["${file:}", "${file:a${X}}", "${file:a"])
def test_malformed_references(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="a reference is"):
        load_config(write(tmp_path, f'prompt: "{text}"'))


def test_number_may_come_from_a_file(tmp_path: Path) -> None:
    assert load_config(write(tmp_path, "port: ${file:port}", port="8099\n")).port == 8099


def test_content_is_secret_whatever_its_name_says(tmp_path: Path) -> None:
    """An address and an argument whose names say nothing."""
    text = """
mcp_servers:
  - {name: a, command: x, args: [run, "${file:plain}"]}
  - {name: b, url: "http://127.0.0.1/${file:plain}"}
a2a:
  - {name: c, url: "http://127.0.0.1/a2a", headers: {X-Mode: "${file:plain}"}}
"""
    config = load_config(write(tmp_path, text, plain=SECRET))
    assert all(SECRET in secrets_of(server) for server in config.mcp_servers)
    assert all(SECRET in secrets_of(agent) for agent in config.a2a)
    assert SECRET not in repr(config.mcp_servers[1].as_written)


def test_key_of_a_model_may_come_from_a_file(tmp_path: Path) -> None:
    text = "models: {m: {provider: openai, model: o, api_key: '${file:key}'}}\nllm: {model: m}"
    config = load_config(write(tmp_path, text, key="sk-123\n"))
    spec = resolve_model("m", config.llm, config.models)
    assert endpoint(spec, {"OPENAI_API_KEY": "another"}).key == "sk-123"
    assert "sk-123" not in repr((config, spec))
