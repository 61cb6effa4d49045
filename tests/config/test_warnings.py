"""What a file may say but surely does not mean."""

from pathlib import Path

import pytest

from .conftest import Load

OIDC = "auth: {{oidc: {{issuer: 'https://i.example', audience: {}, login: {{client_id: page}}}}}}"
SERVERS = "mcp_servers: [{name: files, command: f}, {name: '${DB}', command: d}]\n"


def llm(name: str, more: str = "") -> str:
    return f"{{type: llm, name: {name}{', ' + more if more else ''}}}"


def tree(kind: str, *agents: str, more: str = "") -> str:
    return f"agent: {{type: {kind}, name: root, {more}agents: [{', '.join(agents)}]}}"


def rules(*texts: str) -> str:
    return f"approval: {{rules: [{', '.join(f'{{{text}}}' for text in texts)}]}}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Keys
        (
            "agent: " + llm("a", "output_key: user_message"),
            "agent.output_key: {user_message} is a reserved placeholder, so no prompt can show this answer",
        ),
        (
            tree("parallel", llm("a", "output_key: x"), llm("b"), llm("c", "output_key: x")),
            'agent.agents[2]: "a" and "c" both set output_key: x in parallel branches; '
            'the later one in the file, "c", wins',
        ),
        (
            tree(
                "parallel",
                "{type: sequential, name: s, agents: [" + llm("a", "output_key: x") + ", " + llm("b") + "]}",
                "{type: loop, name: l, output_key: x, agents: [" + llm("c", "can_exit_loop: true") + "]}",
            ),
            'agent.agents[1]: "a" and "l" both set output_key: x in parallel branches; '
            'the later one in the file, "l", wins',
        ),
        # Loops
        (
            tree("loop", llm("a"), more="max_iterations: 3, "),
            "agent: no node of the loop may call exit_loop, so it always takes 3 iterations "
            "(an llm node may with can_exit_loop: true)",
        ),
        (
            tree(
                "loop",
                "{type: loop, name: inner, agents: [" + llm("a", "can_exit_loop: true") + "]}",
                llm("b"),
            ),
            "agent: no node of the loop may call exit_loop, so it always takes 10 iterations "
            "(an llm node may with can_exit_loop: true)",
        ),
        # Rules
        (
            SERVERS + rules("then: run, server: file"),
            'approval.rules[0].server: no server here is called "file" (did you mean "files"?)',
        ),
        (
            rules("then: ask, node: 'agnet*'"),
            'approval.rules[0].node: no node here is called "agnet*" (did you mean "agent"?)',
        ),
        (
            tree("sequential", llm("a", "approval: {rules: [{then: run, node: b}]}"), llm("b")),
            'agent.agents[0].approval.rules[0].node: no node here is called "b"',
        ),
        (
            rules("then: ask, name: all, optional: true", "then: run, tool: x"),
            "approval.rules[1]: never reached, because approval.rules[0] matches every call",
        ),
        (
            rules("then: ask", "then: run, shadow: true"),
            "approval.rules[1]: never reached, because approval.rules[0] matches every call",
        ),
        (
            SERVERS + rules("then: deny, server: file, shadow: true"),
            'approval.rules[0].server: no server here is called "file" (did you mean "files"?)',
        ),
        (
            rules("then: ask, arguments: {a: {exists: false, above: 1}}"),
            "approval.rules[0].arguments.a: never holds: a missing value satisfies only exists: false",
        ),
        (
            rules("then: ask, arguments: {a: {above: 2, below: 2}}"),
            "approval.rules[0].arguments.a: never holds: no number is both above and below these values",
        ),
        (
            "a2a: {far: {url: 'http://h'}}\n" + rules("then: run, server: far"),
            'approval.rules[0].server: no server here is called "far" (did you mean "a2a:far"?)',
        ),
        # Routers
        (
            tree("router", llm("a"), llm("b"), more="routes: [{when: {k: 1}, agent: a}], "),
            'agent: no route leads to "b"',
        ),
        (
            tree(
                "router",
                llm("a"),
                more="routes: [{when: {k: {above: 3, below: 1}}, agent: a}], ",
            ),
            "agent.routes[0].when.k: never holds: no number is both above and below these values",
        ),
        (
            OIDC.format("page"),
            "auth.oidc: audience is the client_id of the login, so ID tokens of the login are accepted as "
            "tokens for the API (register the API at the issuer, with an audience of its own)",
        ),
    ],
)
def test_something_to_warn_of(load: Load, text: str, expected: str) -> None:
    assert load(text, {"DB": "db"}).warnings == (expected,)


@pytest.mark.parametrize(
    "text",
    [
        SERVERS + "agent: " + llm("a", "mcp_servers: [files, '${DB}'], tools: [whatever]"),
        SERVERS
        + rules("then: ask, server: f*", "then: ask, server: 'd?'", "then: ask, node: ag*", "then: run"),
        tree("sequential", llm("a", "output_key: x"), llm("b", "output_key: x")),
        tree(
            "loop", llm("a"), "{type: parallel, name: p, agents: [" + llm("b", "can_exit_loop: true") + "]}"
        ),
        tree("router", llm("a", "output_key: x"), llm("b", "output_key: x"), more="model: openai:n, "),
        tree(
            "router",
            llm("a"),
            llm("b"),
            more="routes: [{when: {k: {above: 1, below: 2}}, agent: a}], default: b, ",
        ),
        rules("then: ask, arguments: {a: {exists: false}, b: {exists: true, above: 1}}"),
        "a2a: {far: {url: 'http://h'}}\n"
        + rules("then: run, server: 'a2a:far'", "then: ask, server: a2a*", "then: deny, tool: a2a_far"),
        tree("sequential", "{type: a2a, name: b, url: 'http://h'}")
        + "\n"
        + rules("then: run, node: b", "then: ask, server: 'a2a:b'"),
        rules("then: ask, shadow: true", "then: run, tool: x, shadow: true", "then: deny"),
        SERVERS + rules("then: deny, server: file, optional: true", "then: run, node: b, optional: true"),
        OIDC.format("api"),
        OIDC.format("page").replace(", login: {client_id: page}", ""),
    ],
)
def test_nothing_to_warn_of(load: Load, text: str) -> None:
    assert load(text, {"DB": "db"}).warnings == ()


URL = "url: 'https://h/mcp', "


@pytest.mark.parametrize(
    ("text", "path"),
    [
        # FR-002: "never in the configuration file"
        ("mcp_servers: [{name: a, " + URL + "headers: {X-Api-Key: sesame-1}}]", "[0].headers.X-Api-Key"),
        ("mcp_servers: {a: {command: c, env: {DB_PASSWORD: sesame}}}", "[0].env.DB_PASSWORD"),
        ("mcp_servers: [{name: a, command: c, env: [A=b, GITHUB_TOKEN=sesame]}]", "[0].env[1]"),
        ("mcp_servers: [{name: a, command: c, args: [--key, sesame-1]}]", "[0].args[1]"),
        ("mcp_servers: [{name: a, command: c, args: ['postgres://me:sesame@h/db']}]", "[0].args[0]"),
        ("mcp_servers: [{name: a, url: 'https://h/mcp?token=sesame-1'}]", "[0].url"),
        (
            "mcp_servers: [{name: a, "
            + URL
            + "oauth: {issuer: 'https://h', client_id: m, client_secret: sesame}}]",
            "[0].oauth.client_secret",
        ),
        ("models: {m: {provider: openai, model: x, api_key: sesame}}", "models.m.api_key"),
        (
            "models: {m: {provider: openai, model: x, base_url: 'https://me:sesame@h/v1'}}",
            "models.m.base_url",
        ),
        ("a2a: [{name: far, url: 'http://h', api_key: 1f6d0c7be2a84935}]", "a2a[0].api_key"),
        (
            tree("sequential", "{type: a2a, name: b, url: 'http://h/?token=sesame-1'}"),
            "agent.agents[0].url",
        ),
        ("auth: {proxy: {secret: sesame-street-and-more-of-it}}", "auth.proxy.secret"),
        ("mcp_servers: [{name: a, command: c, env: {A_KEY: '${A:-sk-0123456789abcdef}'}}]", "[0].env.A_KEY"),
    ],
)
def test_secret_in_the_file_is_a_warning(load: Load, text: str, path: str) -> None:
    place = f"mcp_servers{path}" if path.startswith("[") else path
    assert load(text).warnings == (
        f"{place}: a secret is written in the file; write ${{VARIABLE}}, and set the variable in the "
        "environment",
    )


@pytest.mark.parametrize(
    "text",
    [
        "mcp_servers: [{name: a, "
        + URL
        + "headers: {Authorization: 'Bearer ${A}', Accept: application/json}}]",
        "mcp_servers: [{name: a, command: c, args: [--key, '${A}', --dir, /srv/0123456789abcdef0]}]",
        "mcp_servers: [{name: a, url: 'https://${A}@h/mcp?token=${A}', headers: {X-Public-Key: sesame-1}}]",
        "models: {m: {provider: openai, model: x, api_key: '${file:key}'}}",
        rules("then: ask, arguments: {api_key: sesame, url: 'https://me:sesame@h'}"),
        "agent: " + llm("a", "prompt: 'the key: 0123456789abcdef', output_key: secret"),
    ],
)
def test_no_secret_is_in_the_file(load: Load, tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text("sesame")
    assert load(text, {"A": "sesame"}).warnings == ()


def test_every_pair_of_clashing_branches_is_named(load: Load) -> None:
    config = load(tree("parallel", *(llm(name, "output_key: x") for name in "abc")))
    assert [warning.split(" both")[0] for warning in config.warnings] == [
        'agent.agents[1]: "a" and "b"',
        'agent.agents[2]: "a" and "c"',
        'agent.agents[2]: "b" and "c"',
    ]
