"""Files of other MCP clients become agent files. The entries are those of the clients' documentation, which
`config/reading/pasted.py` lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stopgo.config.load import load_config
from stopgo.config.reading.pasted import Pasted, read_pasted
from stopgo.config.reading.pasted_file import agent_file
from stopgo.config.sections.agent_config import AgentConfig
from stopgo.config.text.compose import compose
from stopgo.config.text.errors import ConfigError
from stopgo.config.text.jsonc import jsonc_to_yaml
from stopgo.config.text.values import plain

KEY = "ghp_0123456789abcdef0123456789abcdef"


def pasted(text: str, *, keep_secrets: bool = False) -> Pasted:
    value, problems = compose(jsonc_to_yaml(text), "mcp.json")
    assert not problems
    return read_pasted(plain(value), "mcp.json", keep_secrets=keep_secrets)


class _Set(dict[str, str]):
    def get(self, key: str, default: Any = None) -> str:
        return f"value of {key}"


def loaded(found: Pasted, folder: Path) -> AgentConfig:
    file = folder / "agent.yaml"
    file.write_text(agent_file(found, "mcp.json"), encoding="utf-8")
    return load_config(file, environ=_Set(), model="offline:rules")


def entry_of(text: str, **more: bool) -> dict[str, Any]:
    """The entry of the only server, which is called `a`."""
    [server] = pasted(f'{{"mcpServers": {{"a": {text}}}}}', **more).servers
    assert server.entry is not None
    return dict(server.entry)


# ------------------------------------------------------------------------ files


@pytest.mark.parametrize(
    "text",
    [
        '{"mcpServers": {"a": {"command": "c"}}}',  # Claude Desktop, Cursor, Cline, Windsurf, Kiro
        '{"servers": {"a": {"type": "stdio", "command": "c"}}, "inputs": []}',  # VS Code
        '{"mcp": {"servers": {"a": {"command": "c"}}}, "editor.tabSize": 2}',  # VS Code, settings.json
        '{"mcp": {"a": {"type": "local", "command": ["c"]}}}',  # OpenCode
        '{"mcp": {"allowed": ["a"]}, "mcpServers": {"a": {"command": "c"}}}',  # Gemini CLI
        '{"context_servers": {"a": {"command": {"path": "c"}}}}',  # Zed
        '{"mcpServers": [{"name": "a", "command": "c"}]}',
        "mcpServers:\n  - name: a\n    command: c\n",  # Continue
        '"mcpServers": {"a": {"command": "c"}}',
        '"a": {"command": "c"},',
        '{"a": {"command": "c"}}',
        '{"name": "a", "command": "c"}',
        '\t{ // one\n\t/* two */ "mcpServers":{"a":{"command":"c",},},\n}\n// three',
    ],
)
def test_servers_are_found_in_files_of_every_client(text: str) -> None:
    [server] = pasted(text).servers
    assert (server.name, server.entry) == ("a", {"command": "c"})


@pytest.mark.parametrize("text", ["{}", "[]", "3", '{"mcpServers": {}}', '{"mcp": {"allowed": ["a"]}}'])
def test_file_without_servers_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no MCP servers"):
        pasted(text)


def test_other_keys_of_the_file_are_named() -> None:
    assert pasted('{"theme": 1, "inputs": [], "servers": {"a": {"command": "c"}}}').left_out == ("theme",)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "http://x/*y*/"} // "z"', {"a": "http://x/*y*/"}),
        ('{"a": "\\"//\\\\", /* } */ "b":\t1,}', {"a": '"//\\', "b": 1}),
        ('{"a": "\\ud83d\\ude00\\/\\u00e9"}', {"a": "😀/é"}),
        ("// c\n[1,2,] /* open", [1, 2]),
    ],
)
def test_jsonc_has_the_value_of_its_json(text: str, value: object) -> None:
    assert plain(compose(jsonc_to_yaml(text), "f")[0]) == value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda each: st.lists(each) | st.dictionaries(st.text(max_size=9), each),
    max_leaves=8,
)


@given(JSON)
def test_json_is_read_as_it_is(value: object) -> None:
    """Except for texts that no configuration may have: with control characters or halves of pairs."""
    try:
        found, problems = compose(jsonc_to_yaml(json.dumps([value])), "f")
    except ConfigError:
        return
    if not problems:
        assert plain(found) == [value]


# ---------------------------------------------------------------------- entries


@pytest.mark.parametrize(
    ("given", "entry"),
    [
        ('{"type": "http", "url": "http://h"}', {"transport": "http", "url": "http://h"}),
        ('{"type": "streamable-http", "url": "http://h"}', {"transport": "http", "url": "http://h"}),
        ('{"transportType": "streamableHttp", "url": "http://h"}', {"transport": "http", "url": "http://h"}),
        ('{"type": "sse", "url": "http://h"}', {"transport": "sse", "url": "http://h"}),
        ('{"type": "remote", "url": "http://h"}', {"url": "http://h"}),
        ('{"serverUrl": "http://h"}', {"url": "http://h"}),
        ('{"httpUrl": "http://h"}', {"url": "http://h", "transport": "http"}),
        ('{"url": "http://h", "headers": ["X-A: b: c"]}', {"url": "http://h", "headers": {"X-A": "b: c"}}),
        ('{"type": "stdio", "command": "c", "args": ["-p", 80]}', {"command": "c", "args": ["-p", "80"]}),
        ('{"command": "npx -y x", "args": ["z"]}', {"command": "npx", "args": ["-y", "x", "z"]}),
        ('{"command": "/a b/c"}', {"command": "/a b/c"}),
        ('{"command": "~/c", "cwd": "~"}', {"command": "${HOME}/c", "cwd": "${HOME}"}),
        (
            '{"command": "c", "env": {"P": 80, "D": true, "N": null}}',
            {"command": "c", "env": {"P": "80", "D": "true"}},
        ),
        (
            '{"command": "c", "envFile": "${workspaceFolder}/.env"}',
            {"command": "c", "env_file": "${WORKSPACE_FOLDER}/.env"},
        ),
        ('{"command": "c", "disabled": true}', {"command": "c", "enabled": False}),
        ('{"command": "c", "disabled": false, "autoApprove": []}', {"command": "c"}),
        ('{"command": "c", "enabled": true, "gallery": true}', {"command": "c"}),
        ('{"command": "c", "timeout": 300}', {"command": "c", "timeout": 300}),
        ('{"command": "c", "timeout": 30000}', {"command": "c", "timeout": 30}),
        (
            '{"command": "c", "disabledTools": ["rm"], "includeTools": ["ls"]}',
            {"command": "c", "tools": {"exclude": ["rm"], "include": ["ls"]}},
        ),
        ('{"command": "c", "tools": ["*"]}', {"command": "c"}),
        (
            '{"command": "c", "args": ["${env:A}", "${B}", "${C:-d}"]}',
            {"command": "c", "args": ["${A}", "${B}", "${C:-d}"]},
        ),
        (
            '{"command": "c", "args": ["${file:/k}", "a${/}b"]}',
            {"command": "c", "args": ["${file:/k}", "a/b"]},
        ),
        (
            '{"command": "c", "args": ["${command:x.y}", "${!}"]}',
            {"command": "c", "args": ["${X_Y}", "$${!}"]},
        ),
    ],
)
def test_keys_of_other_clients_are_translated(given: str, entry: dict[str, Any]) -> None:
    assert entry_of(given) == entry


@pytest.mark.parametrize(
    ("given", "note"),
    [
        ('{"command": "c", "sandboxEnabled": true}', "sandboxEnabled was left out"),
        ('{"command": "c", "env": {"A=": "b"}}', "env was left out: expected the name of a variable as key"),
        ('{"url": "http://h", "env": {"A": "b"}}', "env was left out: env belongs to command"),
        ('{"command": "c", "type": "websocket"}', "the transports stdio, http and sse"),
        ('{"command": "c", "timeout": 30000}', "timeout was taken as milliseconds"),
        ('{"command": "c", "args": ["${command:x}"]}', "${command:x} became a variable"),
        ('{"command": "c", "auth": {"CLIENT_SECRET": "s3cret"}}', "auth was left out"),
        ('{"command": "c", "line\\nbreak": 1}', "line break was left out"),
    ],
)
def test_what_is_not_taken_over_becomes_a_comment(given: str, note: str) -> None:
    found = pasted(f'{{"mcpServers": {{"a": {given}}}}}')
    assert note in " ".join(found.servers[0].notes)
    lines = agent_file(found, "f").splitlines()
    assert any(line.startswith("    # ") and note in line for line in lines)
    assert "s3cret" not in "".join(lines)


@pytest.mark.parametrize(
    "given", ['{"url": "ws://h"}', "{}", "3", '{"command": "c", "url": "http://h"}', '{"command": ""}']
)
def test_server_that_an_agent_file_refuses_is_named_and_left_out(given: str, tmp_path: Path) -> None:
    found = pasted(f'{{"mcpServers": {{"a": {given}, "b": {{"command": "c"}}}}}}')
    assert found.servers[0].entry is None
    assert "# a:\n    # " in agent_file(found, "f")
    assert [server.name for server in loaded(found, tmp_path).mcp_servers] == ["b"]


def test_names_are_kept_or_made_fit(tmp_path: Path) -> None:
    names = ["Better Auth", "awslabs.docs", "awslabs docs", "a:b*", "@x/y", "\u202e", "${A}", "no", "3"]
    found = pasted(json.dumps({"mcpServers": {name: {"command": "c"} for name in names}}))
    assert [server.name for server in loaded(found, tmp_path).mcp_servers] == [
        "Better Auth",
        "awslabs.docs",
        "awslabs docs-2",
        "a_b_",
        "@x/y",
        "_",
        "_{A}",
        "no",
        "3",
    ]
    assert found.servers[3].notes == ("The name was changed from a:b*.",)


def test_tools_that_ran_without_a_person_get_a_rule_to_write(tmp_path: Path) -> None:
    found = pasted(
        '{"mcpServers": {"a b": {"command": "c", "autoApprove": ["look", "x y"]},'
        ' "d": {"command": "c", "alwaysAllow": ["l"]}, "t": {"command": "c", "trust": true}}}'
    )
    assert found.rules == (
        "{server: a b, tool: look, then: run}",
        "{server: a b, tool: x y, then: run}",
        "{server: d, tool: l, then: run}",
        "{server: t, tool: '*', then: run}",
    )
    assert loaded(found, tmp_path).approval.rules == ()
    text = agent_file(found, "f").replace("  #rules", "  rules").replace("  #  -", "    -")
    (tmp_path / "agent.yaml").write_text(text, encoding="utf-8")
    approval = load_config(tmp_path / "agent.yaml", environ={}).approval
    assert approval.defaults == "strict"
    assert [(rule.server, rule.tool, rule.then) for rule in approval.rules][1] == ("a b", "x y", "run")


# ---------------------------------------------------------------------- secrets


@pytest.mark.parametrize(
    ("given", "key", "value"),
    [
        (f'"env": {{"GITHUB_TOKEN": "{KEY}"}}', "env", {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}),
        ('"env": {"apiKey": ""}', "env", {"apiKey": "${API_KEY}"}),
        (f'"env": {{"OTHER": "{KEY}"}}', "env", {"OTHER": "${OTHER}"}),
        ('"env": {"DB": "pg://me:s3cret@h/d"}', "env", {"DB": "pg://${DB_SECRET}@h/d"}),
        ('"env": {"API_KEY": "${input:api-key}"}', "env", {"API_KEY": "${API_KEY}"}),
        ('"args": ["--api-key", "s3cret"]', "args", ["--api-key", "${A_API_KEY}"]),
        ('"args": ["--token=s3cret"]', "args", ["--token=${A_TOKEN}"]),
        (
            '"args": ["--header", "Authorization: Bearer s3cret"]',
            "args",
            ["--header", "Authorization: Bearer ${A_AUTHORIZATION}"],
        ),
        (f'"args": ["{KEY}"]', "args", ["${A_SECRET}"]),
    ],
)
def test_secret_of_a_command_becomes_a_variable(given: str, key: str, value: object) -> None:
    assert entry_of(f'{{"command": "c", {given}}}')[key] == value


@pytest.mark.parametrize(
    ("given", "key", "value"),
    [
        (
            '"headers": {"Authorization": "Bearer s3cret"}',
            "headers",
            {"Authorization": "Bearer ${A_AUTHORIZATION}"},
        ),
        ('"headers": {"Authorization": "Bearer ${input:t}"}', "headers", {"Authorization": "Bearer ${T}"}),
        ('"headers": {"X-Api-Key": "s3cret"}', "headers", {"X-Api-Key": "${A_X_API_KEY}"}),
        ('"url": "http://h/?api_key=s3cret&a=b"', "url", "http://h/?api_key=${A_URL_SECRET}&a=b"),
        ('"url": "http://me:s3cret@h/mcp"', "url", "http://${A_URL_SECRET}@h/mcp"),
        (f'"url": "http://h/{KEY}/mcp"', "url", "http://h/${A_URL_SECRET}/mcp"),
    ],
)
def test_secret_of_an_address_becomes_a_variable(given: str, key: str, value: object) -> None:
    url = "" if '"url"' in given else '"url": "http://h", '
    assert entry_of(f"{{{url}{given}}}")[key] == value


def test_secrets_stay_if_that_is_asked_for() -> None:
    text = '{"command": "c", "env": {"API_KEY": "s3cret", "B": "${env:X}"}}'
    assert entry_of(text, keep_secrets=True)["env"] == {"API_KEY": "s3cret", "B": "${X}"}


def test_variables_are_named_with_what_they_stand_for(tmp_path: Path) -> None:
    found = pasted(
        json.dumps(
            {
                "inputs": [
                    {"id": "key", "description": "The\nkey", "password": True, "default": "x"},
                    {"id": "region", "default": "eu"},
                ],
                "servers": {
                    "a": {"command": "c", "env": {"K": "${input:key}", "R": "${input:region}", "TOKEN": KEY}},
                    "b": {"command": "c", "env": {"TOKEN": KEY, "H": "${userHome}"}},
                    "d": {"command": "c", "env": {"TOKEN": "another"}},
                },
            }
        )
    )
    text = agent_file(found, "mcp.json")
    assert {each.name: each.why for each in found.variables} == {
        "KEY": "The key",
        "TOKEN": "a secret of a, which is in the pasted file",
        "D_TOKEN": "a secret of d, which is in the pasted file",
    }
    assert "#   KEY      The key\n" in text
    assert KEY not in text
    assert "another" not in text
    first = loaded(found, tmp_path).mcp_servers[0]
    assert first.env == {"K": "value of KEY", "R": "value of REGION", "TOKEN": "value of TOKEN"}


NAMES = ["a", "a.b", "b:*", "${A}", "", " x\ny", "#", "é\u2028", "'\"", "- "]
TEXTS = ["~/x", "${env:A}", "${input:k}", "${", "}", "s3cret", "http://h", "http://u:p@h/?key=z", ": "]
WORDS = st.sampled_from([*NAMES, *TEXTS])
VALUES = st.recursive(
    WORDS | st.booleans() | st.integers() | st.none() | st.floats(allow_nan=False, allow_infinity=False),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(WORDS, each, max_size=3),
    max_leaves=5,
)
KEYS = st.sampled_from(
    [
        *("command", "args", "env", "url", "serverUrl", "headers", "type", "transport", "envFile", "cwd"),
        *("disabled", "autoApprove", "trust", "timeout", "disabledTools", "tools", "description", "x"),
    ]
)


SERVERS = st.dictionaries(KEYS, VALUES, max_size=6)


@given(st.dictionaries(st.sampled_from(NAMES), SERVERS, min_size=1, max_size=3))
@example({"a": {"command": "c", "autoApprove": [" x\ny", "é\u2028", "\x85", "long " * 300]}})
def test_imported_file_can_be_used_whatever_was_pasted(servers: dict[str, Any]) -> None:
    found = read_pasted({"mcpServers": servers}, "f")
    text = agent_file(found, "f")
    value, problems = compose(text, "f")
    assert not problems
    read = plain(value)
    assert isinstance(read, dict)
    for rule in found.rules:
        one = plain(compose(rule, "f")[0])
        assert isinstance(one, dict)
        assert one["then"] == "run"
    entries = {server.name: server.entry for server in found.servers if server.entry is not None}
    assert (read["mcp_servers"] or {}) == entries
