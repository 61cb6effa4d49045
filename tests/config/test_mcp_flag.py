"""Servers from the command line: what is a label, what a command, what a URL."""

from __future__ import annotations

from pathlib import Path

import pytest

from stopgo.config.load import load_config
from stopgo.config.reading.mcp_flag import flag_servers
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.config.text.errors import ConfigError


def one(value: str) -> McpServerConfig:
    (server,) = flag_servers([value], ())
    return server


def test_a_label_names_the_server_and_its_tool() -> None:
    server = one("fs:mcp-filesystem-server /tmp 'a b'")
    assert server == McpServerConfig(
        name="fs",
        command="mcp-filesystem-server",
        args=("/tmp", "a b"),
        expose="server",
        facade="mcp_fs",
        as_written="mcp-filesystem-server",
    )


def test_without_a_label_the_position_does() -> None:
    servers = flag_servers(["a", "x:b", "http://c/sse", "d"], ())
    assert [(server.name, server.facade) for server in servers] == [
        ("mcp", "mcp"),
        ("x", "mcp_x"),
        ("mcp3", "mcp3"),
        ("mcp4", "mcp4"),
    ]
    assert all(server.expose == "server" for server in servers)


@pytest.mark.parametrize(
    ("value", "name", "target"),
    [
        ("http://k8s:8080/sse", "mcp", "http://k8s:8080/sse"),
        ("HTTPS://h", "mcp", "HTTPS://h"),
        ("k8s:http://k8s:8080/sse", "k8s", "http://k8s:8080/sse"),
        ("k8s: http://h ", "k8s", "http://h"),
        ("docker run -p 80:80 image", "mcp", "docker"),
        ("a-b_1:run", "a-b_1", "run"),
        ("http:run", "mcp", "http:run"),
        ("npx -y pkg@1:2", "mcp", "npx"),
    ],
)
def test_what_is_a_label(value: str, name: str, target: str) -> None:
    server = one(value)
    assert (server.name, server.url or server.command) == (name, target)


def test_a_path_is_relative_to_the_working_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert one("./bin/x -v").command == str(tmp_path / "bin" / "x")
    assert one("bin:bin/x").command == str(tmp_path / "bin" / "x")


def test_a_log_shows_no_key_of_an_address() -> None:
    server = one("k:https://me:secret@h:1/mcp?key=secret#secret")
    assert server.as_written == "https://***@h:1/mcp?key=***#***"
    assert "secret" not in repr(server)


@pytest.mark.parametrize(
    ("values", "taken", "problems"),
    [
        (["fs:"], (), ["--mcp: fs: expected [label:]command-or-url"]),
        ([""], (), ["--mcp: mcp: expected [label:]command-or-url"]),
        (["''"], (), ["--mcp: mcp: expected [label:]command-or-url"]),
        (["ftp://h"], (), ["--mcp: mcp: expected an http:// or https:// address, found ftp://"]),
        (
            ["a 'b"],
            (),
            [
                "--mcp: mcp: expected [label:]command-or-url; the command cannot be split into words: "
                "No closing quotation"
            ],
        ),
        (["fs:a", "fs:b"], (), ["--mcp: fs: there is already a server of this name"]),
        (
            ["fs:a", "b"],
            ("fs", "mcp2"),
            [f"--mcp: {n}: there is already a server of this name" for n in ("fs", "mcp2")],
        ),
        (["mcp2:a", "b"], (), ["--mcp: mcp2: there is already a server of this name"]),
    ],
)
def test_what_is_refused(values: list[str], taken: tuple[str, ...], problems: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        flag_servers(values, taken)
    assert [str(problem) for problem in caught.value.problems] == problems


def test_they_are_added_to_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(
        "mcp_servers: {a: {command: x}}\n"
        "agent: {type: llm, name: n, model: offline:rules, mcp_servers: [fs, a]}"
    )
    config = load_config(path, mcp=["fs:run it"])
    assert [(server.name, server.expose) for server in config.mcp_servers] == [
        ("a", "tools"),
        ("fs", "server"),
    ]
    assert config.warnings == ()
    with pytest.raises(ConfigError, match=r'mcp_servers\[0\]: no server is called "fs"'):
        load_config(path)
    with pytest.raises(ConfigError, match="--mcp: a: there is already a server of this name"):
        load_config(path, mcp=["a:run it"])
