"""The tool servers of a file: every key, both forms, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stopgo.config.sections.mcp import McpServerConfig, OAuthConfig, ToolFilter
from stopgo.config.text.errors import ConfigError

from .conftest import SECRET, Load, Problems


def test_entries_of_other_clients_are_understood(load: Load) -> None:
    """As they are written in the documentation of Cline (docs.cline.bot/mcp), Kiro (kiro.dev/docs/mcp),
    Windsurf (docs.windsurf.com/windsurf/cascade/mcp), Roo Code, VS Code and Cursor (docs.cursor.com/mcp)."""
    config = load(
        """
{"mcpServers": {
  "Better Auth": {"type": "streamableHttp", "url": "http://h/1", "disabled": false, "autoApprove": []},
  "io.github/awslabs.docs": {"type": "streamable-http", "url": "http://h/2", "disabled": true},
  "windsurf": {"serverUrl": "http://h/3", "headers": {"X-Key": "${env:TOKEN}"}},
  "高德地图": {"type": "stdio", "command": "node", "envFile": ".env", "env": {"A": "${env:UNSET:-b}"},
              "alwaysAllow": null, "trust": false}
}}
""",
        {"TOKEN": "t-1"},
    )
    better, docs, surf, maps = config.mcp_servers
    assert (better.name, better.transport, better.url, better.enabled) == (
        "Better Auth",
        "http",
        "http://h/1",
        True,
    )
    assert (docs.name, docs.transport, docs.enabled) == ("io.github/awslabs.docs", "http", False)
    assert (surf.url, surf.headers, surf.as_written) == ("http://h/3", {"X-Key": "t-1"}, "http://h/3")
    assert (maps.env_file, maps.env) == (config.source.parent / ".env", {"A": "b"})  # type: ignore[union-attr]
    assert config.enabled_servers == (better, surf, maps)


def test_disabled_entry_of_another_client_may_refer_to_unset_variables(load: Load) -> None:
    (server,) = load("mcpServers: {a: {command: c, disabled: true, env: {A: '${env:UNSET}'}}}").mcp_servers
    assert not server.enabled


def test_every_key_of_a_server_by_command(load: Load, tmp_path: Path) -> None:
    (server,) = load(
        """
mcp_servers:
  - name: files_1-a
    command: bin/files
    args: [--root, "."]
    transport: stdio
    mode: legacy
    env: {A: "1", EMPTY: ""}
    env_file: .env
    cwd: work
    enabled: false
    required: false
    connect_timeout: 1
    timeout: 2
    max_retries: 7
    max_concurrency: 3
    priority: 5
    description: The files of the team.
    tools: {include: [read_*], exclude: [read_secret]}
    expose: server
"""
    ).mcp_servers
    assert server == McpServerConfig(
        name="files_1-a",
        command=str(tmp_path / "bin" / "files"),
        args=("--root", "."),
        transport="stdio",
        mode="legacy",
        env={"A": "1", "EMPTY": ""},
        env_file=tmp_path / ".env",
        cwd=tmp_path / "work",
        enabled=False,
        required=False,
        connect_timeout=1.0,
        timeout=2.0,
        max_retries=7,
        max_concurrency=3,
        priority=5,
        description="The files of the team.",
        tools=ToolFilter(include=("read_*",), exclude=("read_secret",)),
        expose="server",
        as_written="bin/files",
    )
    assert server.facade == "mcp_files_1-a"


def test_every_key_of_a_server_by_url(load: Load) -> None:
    (server,) = load(
        """
mcp_servers:
  - name: web
    url: https://h/mcp
    type: sse
    headers: {X-Key: "${KEY}"}
    oauth: {client_id: me, client_secret: "${KEY}", scopes: [a, b], issuer: "https://h/"}
""",
        {"KEY": SECRET},
    ).mcp_servers
    oauth = OAuthConfig(client_id="me", client_secret=SECRET, scopes=("a", "b"), issuer="https://h/")
    assert (server.transport, server.headers, server.oauth) == ("sse", {"X-Key": SECRET}, oauth)
    assert SECRET not in repr(server)


def test_what_a_server_says_nothing_of(load: Load) -> None:
    server = load("mcp_servers: [{name: a, command: b}]").mcp_servers[0]
    assert (server.transport, server.mode, server.enabled, server.required) == (None, "auto", True, True)
    assert (server.connect_timeout, server.timeout, server.attempts) == (30.0, 60.0, 3)
    assert (server.max_concurrency, server.priority, server.expose) == (16, 100, "tools")
    assert (server.env_file, server.cwd, server.headers, server.oauth) == (None, None, {}, None)
    assert server.tools == ToolFilter(include=None, exclude=())


def test_zero_is_the_default_of_timeout_and_retries(load: Load) -> None:
    server = load("mcp_servers: [{name: a, command: b, timeout: 0, max_retries: 0}]").mcp_servers[0]
    assert (server.timeout, server.attempts) == (60.0, 3)


def test_what_holds_for_all_servers(load: Load) -> None:
    config = load("tool_names: prefixed\non_duplicate: prefix\ntools: {max_result_chars: 100}")
    assert (config.tool_names, config.on_duplicate) == ("prefixed", "prefix")
    assert config.tools.max_result_chars == 100
    config = load("name: x")
    assert (config.tool_names, config.on_duplicate) == ("plain", "error")


def test_a_mapping_of_names_is_the_list(load: Load) -> None:
    mapping = load("mcp_servers:\n  b: {command: ./x}\n  a: {url: '${URL}'}", {"URL": "http://h"})
    listed = load(
        "mcp_servers:\n  - {name: b, command: ./x}\n  - {name: a, url: '${URL}'}", {"URL": "http://h"}
    )
    assert mapping.mcp_servers == listed.mcp_servers
    assert [server.as_written for server in mapping.mcp_servers] == ["./x", "${URL}"]


def test_the_names_of_a_mapping_are_known_to_nodes(load: Load) -> None:
    servers = "mcp_servers: {files: {command: a}, idle: {command: a, enabled: false}}\n"
    assert load(servers + "agent: {type: llm, name: x, mcp_servers: [files, idle]}").warnings == ()
    with pytest.raises(ConfigError, match=r'no server is called "filse" \(did you mean "files"\?\)'):
        load(servers + "agent: {type: llm, name: x, mcp_servers: [files, filse]}")


@pytest.mark.parametrize("env", ["{A: x=y, B: ''}", "['A=x=y', 'B=']", "['${PAIR}', 'B=']"])
def test_env_is_a_mapping_or_a_list_of_pairs(load: Load, env: str) -> None:
    server = load(f"mcp_servers: [{{name: a, command: b, env: {env}}}]", {"PAIR": "A=x=y"}).mcp_servers[0]
    assert server.env == {"A": "x=y", "B": ""}


def test_disabled_server_is_checked_for_its_form_only(load: Load) -> None:
    text = """
mcp_servers:
  - name: one
    enabled: ENABLED
    url: ${URL}
    headers: {Authorization: "Bearer ${TOKEN}"}
    timeout: ${SECONDS}
    mode: ${MODE}
    oauth: {client_id: x, client_secret: "${SECRET}", issuer: "${ISSUER}", scopes: ["${SCOPE}"]}
  - {name: two, enabled: ENABLED, command: "${CMD}", env: ["K=${VALUE}"], cwd: "${CWD}", required: "${NO}"}
  - {name: three, command: c}
"""
    for off in ("false", "${OFF:-false}"):
        one, two, three = load(text.replace("ENABLED", f'"{off}"' if "$" in off else off)).mcp_servers
        assert (one.enabled, two.enabled, three.enabled) == (False, False, True)
        assert (one.url, one.timeout, one.mode, two.required) == ("${URL}", 60.0, "auto", True)
    unset = ["URL", "TOKEN", "SECONDS", "MODE", "SECRET", "ISSUER", "SCOPE", "CMD", "VALUE", "CWD", "NO"]
    with pytest.raises(ConfigError) as caught:
        load(text.replace("ENABLED", "true"))
    told = [re.search(r"variable (\w+) is not set", problem.message) for problem in caught.value.problems]
    assert [found and found[1] for found in told] == unset
    with pytest.raises(ConfigError) as caught:
        load(
            "mcp_servers: [{name: a, enabled: false, url: x, tmeout: 1, timeout: y}, {name: b, url: '${N}'}]"
        )
    assert [problem.key for problem in caught.value.problems] == [
        "mcp_servers[0].url",
        "mcp_servers[0].tmeout",
        "mcp_servers[0].timeout",
        "mcp_servers[1].url",
    ]


def by_command(text: str) -> str:
    return f"mcp_servers:\n  - {{name: a, command: b, {text}}}"


def by_url(text: str) -> str:
    return f"mcp_servers:\n  - {{name: a, url: 'http://h', {text}}}"


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (by_url("serverUrl: 'http://h'"), "conflicting_keys", "serverUrl and url are the same"),
        (by_url("enabled: true, disabled: true"), "conflicting_keys", "disabled and enabled are opposites"),
        (by_command("type: streamableHttp"), "conflicting_keys", "http belongs to url, which is not given"),
        ("mcp_servers: {}\nmcpServers: {}", "conflicting_keys", "mcpServers and mcp_servers are the same"),
        (
            by_command("autoApprove: [look, '*']"),
            "unknown_key",
            "without a person: approval: {rules: [{server: a, tool: look, then: run}]}",
        ),
        (by_command("trust: true"), "unknown_key", "[{server: a, tool: '*', then: run}]"),
        (by_command("disabledTools: [drop]"), "unknown_key", "write tools: {exclude: [...]}"),
        (by_command('env: {A: "${input:api-key}"}'), "bad_reference", "an agent asks nobody for input"),
    ],
)
def test_entries_of_other_clients_are_refused_with_advice(
    problems: Problems, text: str, code: str, said: str
) -> None:
    (found,) = problems(text)
    assert found.code == code
    assert said in f"{found.message} ({found.hint})"
    assert found.line is not None


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        (
            by_command("max_concurency: 1"),
            "unknown_key",
            'mcp_servers[0].max_concurency: unknown key "max_concurency" (did you mean "max_concurrency"?)',
        ),
        (
            by_command("tools: {includes: []}"),
            "unknown_key",
            'mcp_servers[0].tools.includes: unknown key "includes" (did you mean "include"?)',
        ),
        ("mcp_servers: [{name: 'a2a:b', command: c}]", "bad_format", None),
        ("mcp_servers: [{name: 'a*', command: c}]", "bad_format", None),
        ("mcp_servers: [{name: 'a  b', command: c}]", "bad_format", None),
        ("mcp_servers: [{name: 'a ', command: c}]", "bad_format", None),
        ('mcp_servers: [{name: "a\\u202eb", command: c}]', "bad_format", None),
        (
            "mcp_servers: {'a?': {command: c}}",
            "bad_format",
            "mcp_servers.a?.name: expected visible text without : * ? $ and double spaces, found other text",
        ),
        (
            "mcp_servers: {a.b: {command: c}, a b: {command: c}}",
            "duplicate_name",
            'mcp_servers.a b: in names of tools, "a b" cannot be told from "a.b"',
        ),
        ("mcp_servers: {'${X}': {command: c}}", "bad_format", None),
        (
            "mcp_servers:\n  a: {command: b, timout: 1}",
            "unknown_key",
            'mcp_servers.a.timout: unknown key "timout" (did you mean "timeout"?)',
        ),
        (
            "mcp_servers:\n  a: {name: a, command: b}",
            "conflicting_keys",
            "mcp_servers.a.name: the key above is already the name",
        ),
        ("mcp_servers: {a: }", "wrong_type", "mcp_servers.a: expected a mapping, found nothing"),
        ("mcp_servers: {a: {}}", "missing_key", "mcp_servers.a: url, command or brought_by is required"),
        (
            by_command("transport: htpt"),
            "unknown_word",
            'mcp_servers[0].transport: expected stdio, http or sse, found "htpt" (did you mean "http"?)',
        ),
        (
            by_command("transport: http"),
            "conflicting_keys",
            "mcp_servers[0].transport: http belongs to url, which is not given",
        ),
        (
            by_url("type: stdio"),
            "conflicting_keys",
            "mcp_servers[0].type: stdio belongs to command, which is not given",
        ),
        (
            by_url("type: http, transport: http"),
            "conflicting_keys",
            "mcp_servers[0].type: type and transport are the same; give one of them",
        ),
        (by_command("mode: old"), "unknown_word", None),
        (by_command("env: [A]"), "bad_format", "mcp_servers[0].env[0]: expected KEY=VALUE, found other text"),
        (by_command("env: ['=x']"), "bad_format", None),
        (
            by_command("env: ['A=x', 'A=y']"),
            "duplicate_key",
            "mcp_servers[0].env[1]: the key is in the list twice",
        ),
        (
            by_command("env: {'A=B': x}"),
            "bad_format",
            "mcp_servers[0].env.A=B: expected the name of a variable as key",
        ),
        (
            by_command("env: A"),
            "wrong_type",
            "mcp_servers[0].env: expected a mapping, or a list of KEY=VALUE, found text",
        ),
        (
            by_command("headers: {A: b}"),
            "conflicting_keys",
            "mcp_servers[0].headers: headers belongs to url, which is not given",
        ),
        (by_command("oauth: {client_id: a, client_secret: b, issuer: http://h}"), "conflicting_keys", None),
        (by_url("env_file: x"), "conflicting_keys", None),
        (by_url("cwd: x"), "conflicting_keys", None),
        (by_url("headers: {'a b': c}"), "bad_format", None),
        (by_url(r'headers: {a: "x\r\nb: y"}'), "bad_format", None),
        (by_url("headers: {a: ü}"), "bad_format", None),
        (by_url("oauth: {client_id: a, issuer: http://h}"), "missing_key", None),
        (by_url("oauth: {client_id: a, client_secret: '', issuer: http://h}"), "missing_key", None),
        (by_url("oauth: {client_id: a, client_secret: b, issuer: h}"), "bad_format", None),
        (by_command("max_retries: -1"), "out_of_range", None),
        (by_command("timeout: -1"), "out_of_range", None),
        (by_command("priority: -1"), "out_of_range", None),
        (by_command("enabled: 1"), "wrong_type", None),
        (by_command("expose: both"), "unknown_word", None),
        ("tool_names: prefix", "unknown_word", None),
        ("on_duplicate: ignore", "unknown_word", None),
    ],
)
def test_mistake_is_reported(problems: Problems, text: str, code: str, expected: str | None) -> None:
    (found,) = problems(text)
    assert found.code == code
    assert found.line is not None
    assert (
        expected is None
        or f"{found.key}: {found.message}" + (f" ({found.hint})" if found.hint else "") == expected
    )


def test_no_error_shows_the_value_of_a_variable(problems: Problems) -> None:
    text = (
        "mcp_servers: [{name: a, command: b, env: ['${KEY}']},"
        " {name: c, url: 'http://h', headers: {a: '${KEY}'}}]"
    )
    found = problems(text, {"KEY": f"{SECRET}\n"})
    assert len(found) == 2
    assert SECRET not in repr(found) + "".join(map(str, found))


def test_tokens_go_to_servers_without_own_credentials(load: Load) -> None:
    text = """
    mcp_servers:
      plain: {url: http://h/mcp}
      never: {url: http://h/mcp, forward_bearer: false}
      always: {url: "http://h/a?at=http://a@b", forward_bearer: true}
      header: {url: http://h/mcp, headers: {authorization: Bearer x}}
      user: {url: "http://${USER_PART}@h/mcp", forward_bearer: false}
      oauth: {url: http://h/mcp, oauth: {client_id: a, client_secret: b, issuer: "http://i"}}
      local: {command: a}
    """
    servers = load(text, {"USER_PART": "ada:s3cret"}).mcp_servers
    assert [server.name for server in servers if server.forwards_bearer] == ["plain", "always"]
    assert not McpServerConfig(name="a", url="http://a@h", forward_bearer=True).forwards_bearer


@pytest.mark.parametrize(
    ("more", "own"),
    [
        ("headers: {AUTHORIZATION: x}, url: http://h", "an Authorization header"),
        ("url: 'http://${KEY}@h/mcp'", "a user in the url"),
        ("url: http://h, oauth: {client_id: a, client_secret: b, issuer: http://i}", "oauth"),
    ],
)
@pytest.mark.parametrize("form", ["[{{name: a, {}}}]", "{{a: {{{}}}}}"])
def test_no_token_takes_the_place_of_own_credentials(
    problems: Problems, more: str, own: str, form: str
) -> None:
    servers = form.format(f"forward_bearer: true, {more}")
    [problem] = problems(f"mcp_servers: {servers}", {"KEY": SECRET})
    at = "mcp_servers[0]" if form.startswith("[") else "mcp_servers.a"
    assert (problem.code, problem.key, problem.line) == ("conflicting_keys", f"{at}.forward_bearer", 1)
    assert problem.message.endswith(f"in place of {own}")
    assert SECRET not in str(problem)


def test_forwarding_is_about_servers_with_a_url(problems: Problems) -> None:
    [problem] = problems("mcp_servers: [{name: a, command: a, forward_bearer: true}]")
    assert problem.code == "conflicting_keys"


def test_malformed_reference_under_unknown_key_is_one_mistake(problems: Problems) -> None:
    [problem] = problems("mcp_servers: [{name: a, command: a, secret: '${'}]")
    assert problem.code == "unknown_key"
