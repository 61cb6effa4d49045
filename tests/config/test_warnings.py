"""What a file may say but surely does not mean."""

import pytest

from .conftest import Load

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
        SERVERS + rules("then: deny, server: file, optional: true", "then: run, node: b, optional: true"),
    ],
)
def test_nothing_to_warn_of(load: Load, text: str) -> None:
    assert load(text, {"DB": "db"}).warnings == ()


def test_every_pair_of_clashing_branches_is_named(load: Load) -> None:
    config = load(tree("parallel", *(llm(name, "output_key: x") for name in "abc")))
    assert [warning.split(" both")[0] for warning in config.warnings] == [
        'agent.agents[1]: "a" and "b"',
        'agent.agents[2]: "a" and "c"',
        'agent.agents[2]: "b" and "c"',
    ]
