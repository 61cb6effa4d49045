"""The agents of a file that can be delegated to: every key, where they stand, and what is refused."""

from __future__ import annotations

import json

import pytest

from stopgo.config.checks.tree import tree_from_stored
from stopgo.config.sections.a2a import RemoteAgentConfig, RemoteAgentEntry
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.config.sections.nodes import LlmNode, RemoteAgentNode, children_of
from stopgo.config.sections.secrets import secrets_of

from .conftest import SECRET, Load, Problems, placed


def test_every_key_of_an_agent(load: Load) -> None:
    (agent,) = load(
        """
a2a:
  - name: books_1-a
    url: https://h/a2a
    description: Knows books.
    destructiveHint: true
    headers: {X-Key: "${KEY}"}
    api_key: "sg_books_${KEY}"
    forward_bearer: false
    origins: [https://h:8443, "http://[::1]:80"]
    timeout: 2
    reconnect_timeout: 3
    max_concurrency: 4
""",
        {"KEY": SECRET},
    ).a2a
    assert agent == RemoteAgentConfig(
        name="books_1-a",
        url="https://h/a2a",
        description="Knows books.",
        destructive_hint=True,
        headers={"X-Key": SECRET},
        api_key=f"sg_books_{SECRET}",
        forward_bearer=False,
        origins=("https://h:8443", "http://[::1]:80"),
        timeout=2.0,
        reconnect_timeout=3.0,
        max_concurrency=4,
        as_written="https://h/a2a",
        secrets=(SECRET, "", SECRET, ""),
    )
    assert (agent.id, agent.tool_name) == ("a2a:books_1-a", "a2a_books_1-a")
    assert SECRET not in repr(agent)
    assert agent.all_headers == {"X-Key": SECRET, "X-API-Key": f"sg_books_{SECRET}"}


def test_what_an_agent_says_nothing_of(load: Load) -> None:
    config = load("a2a: {b: {url: 'http://h', timeout: 0}}")
    (agent,) = config.a2a
    assert (agent.description, agent.destructive_hint, agent.headers, agent.origins) == ("", False, {}, ())
    assert (agent.timeout, agent.reconnect_timeout, agent.max_concurrency) == (600.0, 60.0, 16)
    assert (agent.forward_bearer, agent.forwards_bearer) == (None, True)
    assert config.remote_agents == config.a2a
    assert (load("name: x").a2a, load("a2a:").remote_agents) == ((), ())


def test_a_mapping_of_names_is_the_list(load: Load) -> None:
    mapping = load("a2a:\n  b: {url: 'http://b'}\n  a: {url: '${URL}'}", {"URL": "http://h"})
    listed = load("a2a:\n  - {name: b, url: http://b}\n  - {name: a, url: '${URL}'}", {"URL": "http://h"})
    assert mapping.a2a == listed.a2a == mapping.remote_agents
    assert [agent.as_written for agent in mapping.a2a] == ["http://b", "${URL}"]


@pytest.mark.parametrize("key", ["destructiveHint", "destructive_hint"])
def test_both_spellings_of_the_hint(load: Load, key: str) -> None:
    config = load(
        f"""
a2a: {{far: {{url: http://f, {key}: true}}}}
agent:
  type: sequential
  name: s
  a2a: [far, {{name: own, url: http://o, {key}: true}}, {{name: mild, url: http://m}}]
  agents: [{{type: a2a, name: node, url: http://n, {key}: "${{NO:-true}}"}}]
"""
    )
    assert {agent.name: agent.destructive_hint for agent in config.remote_agents} == {
        "far": True,
        "own": True,
        "mild": False,
        "node": True,
    }


TREE = """
a2a:
  - {name: far, url: http://far, description: Far., headers: {X: y}, timeout: 5, max_concurrency: 2}
agent:
  type: sequential
  name: root
  a2a: [far, {name: near, url: http://near, description: Near.}]
  agents:
    - {type: llm, name: writer, a2a: []}
    - {type: a2a, name: ask the far one, agent: far, output_key: x}
    - {type: a2a, name: direct, url: http://direct, prompt: "Do {x}.", description: Does.}
    - {type: llm, name: reader, a2a: [{name: same, url: http://far}]}
"""


def test_nodes_list_their_remote_agents(load: Load) -> None:
    config = load(TREE)
    writer, by_name, by_url, reader = children_of(config.agent)
    assert config.agent.a2a == (
        RemoteAgentEntry(name="far"),
        RemoteAgentEntry(name="near", url="http://near", description="Near."),
    )
    lists = [each.remote_agents for each in (config.agent, writer, by_name, reader)]
    assert lists == [("far", "near"), (), None, ("same",)]
    assert by_name == RemoteAgentNode(name="ask the far one", agent="far", output_key="x")
    assert (by_name.remote, by_name.prompt) == ("far", "{user_message}")
    assert isinstance(by_url, RemoteAgentNode)
    assert (by_url.remote, by_url.url, by_url.prompt) == ("direct", "http://direct", "Do {x}.")
    assert config.warnings == ()
    assert LlmNode(name="a", prompt="", model="m", a2a=(RemoteAgentEntry(name="b"),) * 2).remote_agents == (
        "b",
    )


def test_all_that_can_be_delegated_to(load: Load) -> None:
    config = load(TREE)
    assert [(agent.name, agent.url, agent.description) for agent in config.remote_agents] == [
        ("far", "http://far", "Far."),
        ("near", "http://near", "Near."),
        ("same", "http://far", ""),
        ("direct", "http://direct", "Does."),
    ]
    assert config.a2a == config.remote_agents[:1]
    assert [agent.as_written for agent in config.remote_agents] == [
        "http://far",
        "http://near",
        "http://far",
        "http://direct",
    ]


def test_settings_go_with_the_url(load: Load) -> None:
    text = """
a2a:
  far:
    url: "${URL}"
    description: Far.
    destructiveHint: true
    headers: {Authorization: "Bearer ${TOKEN}"}
    forward_bearer: false
    origins: [http://else]
    timeout: 5
    reconnect_timeout: 6
    max_concurrency: 7
agent:
  type: sequential
  name: root
  agents:
    - {type: a2a, name: node, url: "http://${HOST:-h}/a2a"}
    - {type: llm, name: model, a2a: [{name: entry, url: "http://h/a2a"}]}
    - {type: a2a, name: other, url: "http://h/a2a/"}
"""
    config = load(text, {"URL": "http://h/a2a", "TOKEN": SECRET})
    (far,) = config.a2a
    _, entry, node, other = config.remote_agents
    for agent in (entry, node):
        assert (agent.description, agent.destructive_hint) == ("", False)
        assert (agent.headers, agent.forward_bearer, agent.origins) == (far.headers, False, ("http://else",))
        assert (agent.timeout, agent.reconnect_timeout, agent.max_concurrency) == (5.0, 6.0, 7)
        assert SECRET in agent.secrets
    assert [agent.as_written for agent in (far, entry, node)] == [
        "${URL}",
        "http://h/a2a",
        "http://${HOST:-h}/a2a",
    ]
    assert (other.headers, other.timeout) == ({}, 600.0)


def test_one_agent_at_several_places(load: Load) -> None:
    entry = "{name: b, url: 'http://h', description: B., destructiveHint: true}"
    text = f"""
a2a: [{entry}]
agent:
  type: sequential
  name: root
  a2a: [{entry}, b, b]
  agents:
    - {{type: llm, name: one, a2a: [{entry}]}}
    - {{type: a2a, name: b, url: "${{URL}}", description: B., destructiveHint: true}}
"""
    config = load(text, {"URL": "http://h"})
    assert config.remote_agents == config.a2a


# ----------------------------------------------------------------- mistakes


def listed(text: str) -> str:
    return f"a2a:\n  - {{name: a, {text}}}"


def by_url(text: str) -> str:
    return listed(f"url: 'http://h', {text}")


def llm(text: str) -> str:
    return f"a2a: {{far: {{url: 'http://h'}}}}\nagent:\n  {{type: llm, name: x, {text}}}"


def node(text: str) -> str:
    return f"a2a: {{far: {{url: 'http://h'}}}}\nagent:\n  {{type: a2a, name: x, {text}}}"


NAME = "a name of at most 48 letters, digits, _ and -"
NO_USER = "an http:// or https:// address without a user (credentials go into headers)"


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        # Top level
        ("a2a: x", "wrong_type", "1:6: a2a: expected a list, or a mapping of names, found text"),
        ("a2a: [x]", "wrong_type", "1:7: a2a[0]: expected a mapping, found text (write {url: ...})"),
        ("a2a:\n  name: a\n  url: http://h", "wrong_type", None),
        ("a2a: [{url: 'http://h'}]", "missing_key", "1:7: a2a[0]: name is required"),
        ("a2a: [{name: a}]", "missing_key", "1:7: a2a[0]: url is required"),
        (
            "a2a: [{name: a b, url: 'http://h'}]",
            "bad_format",
            f"1:14: a2a[0].name: expected {NAME}, found other text",
        ),
        (f"a2a: [{{name: {'a' * 49}, url: 'http://h'}}]", "bad_format", None),
        ("a2a: {a.b: {url: 'http://h'}}", "bad_format", None),
        (
            "a2a:\n  - {name: a, url: http://h}\n  - {name: a, url: http://h}",
            "duplicate_name",
            '3:12: a2a: duplicate name "a" (first used on line 2)',
        ),
        (
            "a2a:\n  - {name: a, url: http://h}\n  - {name: a, url: http://other}",
            "duplicate_name",
            '3:12: a2a: duplicate name "a" (first used on line 2)',
        ),
        (listed("url: ftp://h"), "bad_format", f"2:20: a2a[0].url: expected {NO_USER}, found other text"),
        (
            listed("url: 'http://me:pw@h/a2a'"),
            "bad_format",
            f"2:20: a2a[0].url: expected {NO_USER}, found other text",
        ),
        (listed("url: '${WITH_USER}'"), "bad_format", None),
        (listed("url: 'http://@h'"), "bad_format", None),
        (
            by_url("destructivehint: true"),
            "unknown_key",
            '2:32: a2a[0].destructivehint: unknown key "destructivehint" (did you mean "destructive_hint"?)',
        ),
        (by_url("transport: http"), "unknown_key", None),
        (by_url("as_written: x"), "unknown_key", None),
        (
            by_url("destructiveHint: maybe"),
            "wrong_type",
            "2:49: a2a[0].destructiveHint: expected true or false, found text",
        ),
        (
            by_url("destructiveHint: true, destructive_hint: true"),
            "conflicting_keys",
            "2:55: a2a[0].destructive_hint: destructive_hint and destructiveHint are the same; "
            "give one of them",
        ),
        (by_url("headers: {'a b': c}"), "bad_format", None),
        (by_url(r'headers: {a: "x\r\nb: y"}'), "bad_format", None),
        (
            by_url("forward_bearer: true, headers: {authorization: x}"),
            "conflicting_keys",
            "2:48: a2a[0].forward_bearer: forward_bearer: true would send the tokens of requests in place of "
            "an Authorization header (leave out one of the two)",
        ),
        (
            "a2a:\n  a: {url: 'http://h', forward_bearer: true, headers: {authorization: x}}",
            "conflicting_keys",
            "2:40: a2a.a.forward_bearer: forward_bearer: true would send the tokens of requests in place of "
            "an Authorization header (leave out one of the two)",
        ),
        (
            by_url("headers: {x-api-KEY: a}, api_key: b"),
            "conflicting_keys",
            "2:66: a2a[0].api_key: headers has X-API-Key, too (leave out one of the two)",
        ),
        (by_url(r'api_key: "a\nb"'), "bad_format", None),
        (
            by_url("origins: ['http://h/a']"),
            "bad_format",
            "2:42: a2a[0].origins[0]: expected scheme and host, such as https://agents.example, "
            "found other text",
        ),
        (by_url("timeout: -1"), "out_of_range", None),
        (by_url("timeout: 86401"), "out_of_range", None),
        (by_url("reconnect_timeout: -1"), "out_of_range", None),
        (by_url("max_concurrency: 0"), "out_of_range", None),
        (by_url("max_concurrency: 1001"), "out_of_range", None),
        # Entries of nodes
        (llm("a2a: "), "wrong_type", None),
        (llm("a2a: far"), "wrong_type", None),
        (
            llm("a2a: [[far]]"),
            "wrong_type",
            f"3:30: agent.a2a[0]: expected a mapping, {NAME}, found a list",
        ),
        (llm("a2a: [a b]"), "bad_format", f"3:30: agent.a2a[0]: expected {NAME}, found other text"),
        (llm("a2a: [{url: 'http://h'}]"), "missing_key", "3:30: agent.a2a[0]: name is required"),
        (llm("a2a: [{name: b, url: 'http://u@h'}]"), "bad_format", None),
        (
            llm("a2a: [{name: far, description: x}]"),
            "conflicting_keys",
            "3:42: agent.a2a[0].description: description belongs to url, which is not given",
        ),
        (llm("a2a: [{name: far, destructiveHint: true}]"), "conflicting_keys", None),
        (llm("a2a: [{name: far, destructive_hint: true}]"), "conflicting_keys", None),
        (llm("a2a: [{name: b, url: 'http://b', headers: {}}]"), "unknown_key", None),
        (
            llm("a2a: [fra]"),
            "unknown_agent",
            '3:30: agent.a2a[0]: no agent is called "fra" (did you mean "far"?)',
        ),
        (
            llm("a2a: [far, {name: zzz}]"),
            "unknown_agent",
            '3:42: agent.a2a[1].name: no agent is called "zzz" '
            "(add it to the top-level a2a, or give its url here)",
        ),
        (
            llm("a2a: ['${NO:-secret}']"),
            "unknown_agent",
            '3:30: agent.a2a[0]: no agent is called "${NO:-secret}" '
            "(add it to the top-level a2a, or give its url here)",
        ),
        # Only the top level is known by bare names
        (llm("a2a: [{name: b, url: 'http://b'}, b]"), "unknown_agent", None),
        # Nodes
        (node("prompt: p"), "missing_key", "3:3: agent: agent or url is required"),
        (
            node("agent: far, url: 'http://h'"),
            "conflicting_keys",
            "3:3: agent: agent and url exclude each other; give one of them",
        ),
        (
            node("agent: far, destructiveHint: true"),
            "conflicting_keys",
            "3:36: agent.destructiveHint: destructiveHint belongs to url, which is not given",
        ),
        (node("agent: far, destructive_hint: false"), "conflicting_keys", None),
        (node("agent: ''"), "empty_value", None),
        (node("agent: far, prompt: ''"), "empty_value", None),
        (node("agent: far, model: m"), "unknown_key", None),
        (node("agent: far, agents: [{type: llm, name: y}]"), "unknown_key", None),
        (node("url: 'http://u@h'"), "bad_format", f"3:29: agent.url: expected {NO_USER}, found other text"),
        (
            node("agent: fra"),
            "unknown_agent",
            '3:31: agent.agent: no agent is called "fra" (did you mean "far"?)',
        ),
        (node("agent: x"), "unknown_agent", None),
        (
            "agent:\n  {type: a2a, name: ask it, url: 'http://h'}",
            "bad_name",
            f"2:21: agent.name: a node with a url gives its name to the agent; expected {NAME} "
            "(or name the agent in the top-level a2a)",
        ),
        # Rules
        (
            "a2a: {far: {url: 'http://h'}}\napproval: {rules: [{then: ask, server: 'a2a:fra'}]}",
            "unknown_server",
            '2:40: approval.rules[0].server: no server here is called "a2a:fra" (did you mean "a2a:far"?)',
        ),
        (
            "a2a: {b: {url: 'http://h'}}\napproval: {rules: [{then: ask, server: b}]}",
            "unknown_server",
            '2:40: approval.rules[0].server: no server here is called "b" (did you mean "a2a:b"?)',
        ),
        (llm("mcp_servers: ['a2a:far']"), "unknown_server", None),
    ],
)
def test_mistake_is_reported(problems: Problems, text: str, code: str, expected: str | None) -> None:
    found = problems(text, {"WITH_USER": "http://me:pw@h"})
    assert [problem.code for problem in found] == [code]
    assert found[0].line is not None
    assert expected is None or placed(found[0]) == expected


SAME = "use another name, or the same"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("url: http://other, description: B.", f"another url than on line 2 ({SAME} url)"),
        ("url: http://h", f"another description than on line 2 ({SAME} description)"),
        (
            "url: http://h, description: B., destructiveHint: true",
            f"another destructiveHint than on line 2 ({SAME} destructiveHint)",
        ),
        ("url: 'http://${KEY}'", f"another url and description than on line 2 ({SAME} url and description)"),
    ],
)
@pytest.mark.parametrize("form", ["entry", "node"])
def test_one_name_is_one_agent(problems: Problems, entry: str, message: str, form: str) -> None:
    text = "a2a:\n  b: {url: http://h, description: B.}\nagent:\n"
    if form == "entry":
        text += f"  type: llm\n  name: x\n  a2a:\n    - {{name: b, {entry}}}"
        where = "7:14: agent.a2a[0].name"
    else:
        text += f"  {{type: a2a, name: b, {entry}}}"
        where = "4:21: agent.name"
    (found,) = problems(text, {"KEY": SECRET})
    assert found.code == "duplicate_name"
    assert placed(found) == f'{where}: the agent "b" has {message}'
    assert SECRET not in str(found)


def test_a_name_is_taken_by_entries_of_other_nodes(problems: Problems) -> None:
    text = """
agent:
  type: sequential
  name: root
  agents:
    - {type: llm, name: one, a2a: [{name: b, url: http://one}]}
    - {type: llm, name: two, a2a: [{name: b, url: http://two}]}
    - {type: a2a, name: b, url: http://three}
"""
    assert [(each.key, each.message) for each in problems(text)] == [
        ("agent.agents[1].a2a[0].name", 'the agent "b" has another url than on line 6'),
        ("agent.agents[2].name", 'the agent "b" has another url than on line 6'),
    ]


def test_rules_may_name_agents_wherever_they_stand(load: Load) -> None:
    rules = ", ".join(
        f"{{then: ask, server: '{name}'}}" for name in ("a2a:far", "a2a:near", "a2a:direct", "a2a:*")
    )
    nodes = ", ".join(f"{{then: deny, node: '{name}'}}" for name in ("direct", "ask the far one"))
    assert load(f"{TREE}approval: {{rules: [{rules}, {nodes}]}}").warnings == ()


def test_rule_of_a_node_may_name_its_remote_agent(load: Load) -> None:
    config = load(
        "agent: {type: a2a, name: far, url: 'http://h',"
        " approval: {rules: [{then: ask, node: far}, {then: deny, server: 'a2a:far'}]}}"
    )
    assert config.warnings == ()


# ----------------------------------------------------------------- what is stored


STORED = """
agent:
  type: sequential
  name: root
  a2a:
    - {name: "${B}", url: "http://${HOST}/a2a", description: B., destructiveHint: true}
    - {name: c, url: http://c}
  agents:
    - {type: a2a, name: direct, url: "http://${HOST}/?key=s3cret", destructive_hint: true, prompt: "Do."}
    - {type: llm, name: writer, prompt: p, model: m, a2a: []}
"""


def test_a_stored_tree_has_no_urls(load: Load) -> None:
    config = load(STORED, {"B": "b", "HOST": "h"})
    assert config.stored_tree == {
        "type": "sequential",
        "name": "root",
        "a2a": ["${B}", "c"],
        "agents": [
            {"type": "a2a", "name": "direct", "prompt": "Do.", "agent": "direct"},
            {"type": "llm", "name": "writer", "prompt": "p", "model": "m", "a2a": []},
        ],
    }
    again = tree_from_stored(json.loads(json.dumps(config.stored_tree)), environ={"B": "b"})
    assert again.remote_agents == config.agent.remote_agents == ("b", "c")
    (now, _), (then, _) = children_of(config.agent), children_of(again)
    assert isinstance(now, RemoteAgentNode)
    assert isinstance(then, RemoteAgentNode)
    assert (now.remote, then.remote, then.url, then.destructive_hint) == ("direct", "direct", None, False)


def test_another_url_makes_no_other_tree(load: Load) -> None:
    other = STORED.replace("http://c", "http://d").replace("?key=s3cret", "")
    environ = {"B": "b", "HOST": "h"}
    assert load(STORED, environ).stored_tree == load(other, environ).stored_tree


# ----------------------------------------------------------------- secrets


def test_the_secrets_of_an_agent(load: Load) -> None:
    text = """
a2a:
  far:
    url: "https://host/${HOOK_SECRET}/a2a?apikey=four-four"
    headers: {X-Key: three-three, X: "${API_TOKEN}"}
    api_key: six-six
agent:
  type: a2a
  name: direct
  url: "https://host/${HOOK_SECRET}/other"
  prompt: "${DB_PASSWORD}"
"""
    values = {"HOOK_SECRET": "one-one", "API_TOKEN": "two-two", "DB_PASSWORD": "five-five"}
    far, direct = load(text, values).remote_agents
    assert set(filter(None, secrets_of(far))) == {"one-one", "two-two", "three-three", "four-four", "six-six"}
    assert set(filter(None, secrets_of(direct))) == {"one-one"}
    assert (far.as_written, direct.as_written) == (
        "https://host/${HOOK_SECRET}/a2a?apikey=***",
        "https://host/${HOOK_SECRET}/other",
    )
    assert not {"one-one", "four-four"} & {word for each in (far, direct) for word in repr(each).split("/")}


def test_no_url_is_shown(load: Load) -> None:
    config = load(STORED, {"B": "b", "HOST": SECRET})
    assert SECRET not in repr(config)


def test_tokens_go_to_agents_without_own_credentials(load: Load) -> None:
    agents = load(
        """
a2a:
  plain: {url: "http://h/a@b"}
  never: {url: http://h, forward_bearer: false}
  always: {url: http://h, forward_bearer: true}
  header: {url: http://h, headers: {AUTHORIZATION: Bearer x}}
"""
    ).a2a
    assert [agent.name for agent in agents if agent.forwards_bearer] == ["plain", "always"]


def test_no_tool_server_has_the_id_of_an_agent(load: Load) -> None:
    config = load("mcp_servers: {b: {command: c}}\na2a: {b: {url: 'http://h'}}")
    ids = [*(server.name for server in config.mcp_servers), *(agent.id for agent in config.remote_agents)]
    assert ids == ["b", "a2a:b"]
    assert McpServerConfig(name="b", command="c").name not in {agent.id for agent in config.a2a}
