"""The schema and the reader agree on what a file may hold."""

from collections.abc import Mapping
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from stopgo.config.reading.schema import json_schema
from stopgo.config.text.errors import ConfigError, Problem

from .conftest import Load

SCHEMA = json_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
# What a schema cannot know: it is about two places of the file, or in the words of a regular expression.
BEYOND = {"duplicate_name", "not_in_loop", "unknown_agent", "bad_expression"}
BEYOND |= {"unknown_model", "bad_name", "prices_missing", "unknown_server", "unknown_node"}


def accepted(load: Load, data: object) -> bool | None:
    """Whether the reader takes it; None when it stumbled over what a schema cannot know."""
    problems: tuple[Problem, ...] = ()
    try:
        load(yaml.safe_dump(data, allow_unicode=True))
    except ConfigError as error:
        problems = error.problems
    if problems and all(problem.code in BEYOND for problem in problems):
        return None
    return not problems


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def objects(schema: Any) -> list[Mapping[str, Any]]:
    """Every mapping a file may hold that has keys of its own."""
    if isinstance(schema, list):
        return [found for item in schema for found in objects(item)]
    if not isinstance(schema, dict):
        return []
    below = [found for item in schema.values() for found in objects(item)]
    return [schema, *below] if "properties" in schema and schema.get("type") == "object" else below


def test_everything_is_described_and_nothing_else_allowed() -> None:
    found = objects(SCHEMA)
    assert len(found) == 38
    for section in found:
        assert section["description"]
        assert section["additionalProperties"] is False
        for name, key in section["properties"].items():
            assert key.get("description") or "const" in key, name


def test_keys_that_are_computed_are_no_keys() -> None:
    keys = SCHEMA["properties"].keys() | SCHEMA["$defs"]["McpServerConfig"]["properties"].keys()
    assert not keys & {"has_tree", "source", "packaged", "stored_tree", "warnings", "as_written"}


def test_defaults_and_words_are_in_it() -> None:
    properties = SCHEMA["properties"]
    assert (properties["host"]["default"], properties["port"]["default"]) == ("127.0.0.1", 8080)
    assert properties["data_dir"]["default"] == "data"
    assert {"enum": ["conversation", "turn"]} in SCHEMA["$defs"]["LlmNode"]["properties"]["history"]["anyOf"]
    assert SCHEMA["$defs"]["McpServerConfig"]["required"] == ["name"]
    assert SCHEMA["$defs"]["LlmNode"]["required"] == ["type", "name"]


wrong = st.sampled_from(
    [None, True, 0, -1, 1.5, 3, 70_000, "", "x", "8080", "run", "http://h/x", [], ["x"], {}, {"x": "y"}]
)
reference = st.sampled_from(["${X:-1}"])
text = st.sampled_from(["a", "b", "c", "d", "e", "f", "g", "h"])


def mostly(good: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A good value, and one time in ten some other."""
    return st.integers(0, 9).flatmap(lambda dice: wrong if dice == 0 else good)


def section(required: Mapping[str, Any], optional: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Mostly a section as it should be; one time in ten each, a key is missing or one too many."""

    def spoil(data: dict[str, Any], dice: int, key: str) -> dict[str, Any]:
        if dice == 0:
            return {**data, key: "x"}
        if dice == 1:
            return dict(list(data.items())[1:])
        return data

    fixed = {key: mostly(value) for key, value in required.items()}
    free = {key: mostly(value) for key, value in optional.items()}
    keys = st.sampled_from(["zzz", "type", "name", "agents", "url", "mcp", "a2a"])
    return st.builds(spoil, st.fixed_dictionaries(fixed, optional=free), st.integers(0, 19), keys)


seconds = st.sampled_from([0.5, 1, 5.0])
count = st.sampled_from([1, 2, 3.0]) | reference
flag = st.sampled_from([True, False, "${X:-true}"])
transport = st.sampled_from(["stdio", "http", "sse", "streamable-http", "streamableHttp", "streamable_http"])
common = {
    "connect_timeout": seconds,
    "timeout": seconds,
    "max_concurrency": count,
    "max_retries": count,
    "required": flag,
    "disabled": flag,
    "transport": transport,
    "type": transport,
    "tools": section({}, {"include": st.lists(text, max_size=1)}),
    "expose": st.sampled_from(["tools", "server"]),
}
pairs = st.dictionaries(text, text) | st.lists(
    st.sampled_from(["A=b", "=", "B=", "C"]), max_size=2, unique=True
)
oauth = section({"client_id": text, "client_secret": text}, {"scopes": st.lists(text, max_size=1)})
by_url_keys = {**common, "headers": st.dictionaries(text, text), "oauth": oauth}
by_command_keys = {**common, "args": st.lists(text), "env": pairs, "cwd": text}
url = st.sampled_from(["http://h", "https://h:1/mcp"])
by_url = section({"name": text, "url": url}, by_url_keys) | section(
    {"name": text, "serverUrl": url}, by_url_keys
)
by_command = section({"name": text, "command": text}, by_command_keys)
server_names = st.sampled_from(["a", "b-1", "c d", "é"])
named = st.dictionaries(
    server_names,
    mostly(section({"url": url}, by_url_keys) | section({"command": text}, by_command_keys)),
    max_size=2,
)
ask = st.sampled_from(["run", "ask", "${X:-ask}"])
scalar = st.sampled_from(["x", 1, 1.5, True, "${X:-1}"])
condition = scalar | section(
    {},
    {
        "equals": scalar,
        "one_of": st.lists(scalar, max_size=2),
        "matches": st.sampled_from(["^a", "[", "${X:-b}"]),
        "above": seconds,
        "below": seconds,
        "exists": flag,
    },
)
conditions = st.dictionaries(text, mostly(condition), max_size=2)
rule = section(
    {"then": st.sampled_from(["run", "ask", "deny"])},
    {
        "server": text,
        "tool": text,
        "node": text,
        "effect": st.sampled_from(["read", "idempotent", "once"]),
        "arguments": conditions,
        "name": text,
    },
)
approval = section(
    {},
    {
        "rules": st.lists(rule, max_size=2),
        "defaults": st.sampled_from(["strict", "permissive", "${X:-strict}"]),
        "unannotated": ask,
        "contradictory_hints": st.sampled_from(["ask", "read_only"]),
        "in_parallel": ask,
        "in_loop": ask,
        "expires_after": seconds,
        "on_expiry": st.sampled_from(["reject", "fail"]),
    },
)
asking = {
    "stream": flag,
    "timeout": seconds,
    "max_concurrency": count,
    "max_tokens": count,
    "temperature": st.sampled_from([0, 0.7, 2]),
    "options": st.dictionaries(
        text, st.sampled_from([None, 1, "x", [1, {"a": None}], {"b": [True]}]), max_size=2
    ),
}
context = section({"max_input_tokens": count}, {"strategy": st.sampled_from(["refuse", "trim"])})
price = st.sampled_from([0, 2.5])
prices = section({"input": price, "output": price}, {"cached_input": price, "cache_write": price})
model = section(
    {"provider": st.sampled_from(["google", "openai_compatible", "${X:-ollama}"]), "model": text},
    {
        "base_url": st.sampled_from(["http://h:1/v1", "${X:-http://h}"]),
        "api_key_env": st.sampled_from(["A_KEY", "${X:-KEY}"]),
        "prices": prices,
        "fallbacks": st.lists(text, max_size=2),
        "context": context,
        **asking,
    },
)
usage = {"max_input_tokens": count, "max_output_tokens": count, "max_cost_usd": seconds}
agent_settings = {
    "description": text,
    "destructiveHint": flag,
    "headers": st.dictionaries(text, text, max_size=1),
    "forward_bearer": flag,
    "origins": st.lists(st.sampled_from(["http://h", "https://h:1", "h"]), max_size=1),
    "timeout": seconds,
    "reconnect_timeout": seconds,
    "max_concurrency": count,
}
agent_url = st.sampled_from(["http://h", "https://h:1/a2a", "http://u@h", "${X:-http://h}"])
agents = st.lists(section({"name": server_names, "url": agent_url}, agent_settings), max_size=2)
named_agents = st.dictionaries(server_names, mostly(section({"url": agent_url}, agent_settings)), max_size=2)
hints = {"destructiveHint": flag, "destructive_hint": flag}
entries = st.lists(
    text | section({"name": text}, {"url": agent_url, "description": text, **hints}), max_size=2
)
every_node = {
    "description": text,
    "a2a": entries,
    "output_key": st.sampled_from(["x", "x_1"]),
    "mcp_servers": st.lists(text, max_size=2),
    "tools": st.lists(text, max_size=2),
    "timeout": seconds,
    "retries": count,
    "approval": approval,
}
fallible = {**every_node, "on_error": st.sampled_from(["fail", "continue"])}
ordered = {**fallible, "on_reject": st.sampled_from(["end", "continue"])}
llm = section(
    {"type": st.just("llm"), "name": text},
    {
        **fallible,
        "prompt": text,
        "model": text,
        "fallbacks": st.lists(text, max_size=2),
        "max_turns": count,
        "max_tool_calls": count,
        "history": st.sampled_from(["turn", "conversation", "${X:-turn}"]),
        "can_exit_loop": flag,
    },
)
delegating = section({"type": st.just("a2a"), "name": text}, {**fallible, "agent": text, "prompt": text})
delegating |= section({"type": st.just("a2a"), "name": text, "url": agent_url}, {**fallible, **hints})
checkpoint = section({"type": st.just("approval"), "name": text, "message": text}, fallible)
route = section({"when": conditions, "agent": text}, {})


def parent(kind: str, inner: Any, required: Any = None, optional: Any = None) -> st.SearchStrategy[Any]:
    agents = {"type": st.just(kind), "name": text, "agents": st.lists(inner, max_size=3)}
    return section({**agents, **(required or {})}, optional or fallible)


node = st.recursive(
    llm | checkpoint | delegating,
    lambda inner: st.one_of(
        parent("sequential", inner, None, ordered),
        parent("loop", inner, None, {**ordered, "max_iterations": count}),
        parent(
            "parallel",
            inner,
            None,
            {**every_node, "max_concurrency": count, "on_error": st.sampled_from(["fail_fast", "collect"])},
        ),
        parent("router", inner, {"routes": st.lists(route, max_size=2)}, {**fallible, "default": text}),
        parent("router", inner, {"model": text}, {**fallible, "prompt": text}),
        parent("router", inner, {"fallbacks": st.lists(text, max_size=2)}, {"prompt": text}),
        parent("router", inner, {"prompt": text}, {"default": text}),
    ),
    max_leaves=4,
)
files = section(
    {"name": text},
    {
        "description": text,
        "prompt": text,
        "host": text,
        "port": st.sampled_from([0, 8080, 65535, 80.0]) | reference,
        "data_dir": text,
        "shutdown_grace": st.sampled_from([0, 1.5]),
        "llm": section({}, {"model": text, "fallbacks": st.lists(text, max_size=2), **asking}),
        "models": st.dictionaries(text, mostly(model), max_size=2),
        "context": context,
        "mcp_servers": st.lists(by_url | by_command, max_size=3) | named,
        "a2a": agents | named_agents,
        "tool_names": st.sampled_from(["plain", "prefixed"]),
        "on_duplicate": st.sampled_from(["error", "priority", "prefix"]),
        "tools": section({}, {"max_parallel": count}),
        "approval": approval,
        "limits": section(
            {},
            {
                "max_turns": count,
                "max_tool_calls": count,
                "timeout": seconds,
                **usage,
                "conversation": section({}, usage),
            },
        ),
        "agent": node,
    },
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=100,
)
@given(files)
@example({"agent": {"type": "llm", "name": "a", "mcp_servers": ["x"]}})
@example({"approval": {"rules": [{"then": "ask", "node": "x"}]}})
def test_reader_and_schema_agree(load: Load, data: object) -> None:
    verdict = accepted(load, data)
    assume(verdict is not None)
    assert VALIDATOR.is_valid(data) == verdict


router = {"type": "router", "name": "a", "agents": [{"type": "llm", "name": "b"}]}


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"mcp_servers": None, "llm": None, "models": None},
        {"mcp_servers": [{"name": "a", "command": "b", "args": None, "env": None}]},
        {"mcp_servers": [{"name": "a", "url": "${X:-http://h}"}]},
        {"mcp_servers": {}},
        {
            "mcp_servers": {
                "a": {"command": "b", "env": ["A=b", "${X:-C=d}"], "timeout": 0},
                "b-1": {"url": "http://h"},
            }
        },
        {"port": "${X:-1}", "shutdown_grace": "${X:-1}", "approval": {"unannotated": "${X:-ask}"}},
        {"agent": {"type": "llm", "name": "a"}},
        {"agent": {"type": "llm", "name": "a", "mcp_servers": [], "tools": [], "a2a": []}},
        {"approval": {"expires_after": 1}, "limits": {"max_turns": 1}},
        {"approval": {"rules": [{"then": "run", "arguments": {"a": "x", "b": {"exists": False}}}]}},
        {"agent": {**router, "prompt": "Pick."}},
        {"agent": {**router, "model": "openai:n"}},
        {"agent": {**router, "routes": [{"when": {"k": 1}, "agent": "b"}], "default": "b"}},
        {"agent": {"type": "parallel", "name": "a", "agents": [{"type": "llm", "name": "b"}]}},
        {"a2a": None},
        {"a2a": {"b-1": {"url": "${X:-http://h}", "timeout": 0, "headers": None, "origins": ["http://h:1"]}}},
        {
            "a2a": [{"name": "far", "url": "http://h/@", "destructiveHint": "${X:-true}"}],
            "agent": {
                "type": "sequential",
                "name": "s",
                "a2a": ["far", {"name": "far"}, {"name": "other", "url": "http://o", "description": "x"}],
                "agents": [
                    {"type": "a2a", "name": "any name", "agent": "far"},
                    {"type": "a2a", "name": "own", "url": "http://h", "destructive_hint": True},
                ],
            },
        },
    ],
)
def test_both_accept(load: Load, data: object) -> None:
    assert accepted(load, data)
    assert VALIDATOR.is_valid(data)


@pytest.mark.parametrize(
    "data",
    [
        [],
        {"x": 1},
        {"name": ""},
        {"name": None},
        {"port": "80"},
        {"data_dir": "~/agent"},
        {"llm": {"fallbacks": [""]}},
        {"mcp_servers": [{"name": "a", "command": "~/bin/server"}]},
        {"mcp_servers": [{"name": "a", "command": "b", "cwd": "~"}]},
        {"mcp_servers": [{"name": "a", "command": "b", "env_file": "~/.env"}]},
        {"port": "8${X:-1}"},
        {"port": True},
        {"port": 1.5},
        {"agent": None},
        {"agent": {"type": "llm"}},
        {"agent": {"name": "a"}},
        {"agent": {"type": "a2a", "name": "a", "agents": [{"type": "llm", "name": "b"}]}},
        {"agent": {"type": "llm", "name": "a", "agents": []}},
        {"agent": {"type": "parallel", "name": "a"}},
        {"agent": {"type": "parallel", "name": "a", "agents": []}},
        {"agent": {"type": "parallel", "name": "a", "agents": None}},
        {"agent": {"type": "llm", "name": "a", "output_key": "a-b"}},
        {"mcp_servers": [{"name": "a"}]},
        {"mcp_servers": [{"command": "a"}]},
        {"mcp_servers": [{"name": "a", "command": ""}]},
        {"mcp_servers": [{"name": "a", "url": "h"}]},
        {"mcp_servers": [{"name": "a", "url": "http://h", "command": "b"}]},
        {"mcp_servers": [{"name": "a", "url": "http://h", "args": []}]},
        {"mcp_servers": [{"name": "a", "command": "b", "connect_timeout": 0}]},
        {"mcp_servers": {"a:b": {"command": "c"}}},
        {"mcp_servers": {"a": {"url": "http://h", "serverUrl": "http://h"}}},
        {"mcp_servers": {"a": {"command": "c", "type": "streamable-http"}}},
        {"mcp_servers": {"a": {"command": "c", "enabled": True, "disabled": False}}},
        {"mcp_servers": {}, "mcpServers": {}},
        {"mcp_servers": {"a": {"name": "a", "command": "c"}}},
        {"mcp_servers": {"a": {}}},
        {"mcp_servers": {"a": None}},
        {"mcp_servers": [{"name": "a", "command": "b", "type": "stdio", "transport": "stdio"}]},
        {"mcp_servers": [{"name": "a", "command": "b", "env": ["A"]}]},
        {"mcp_servers": [{"name": "a", "command": "b", "env": {"A=": ""}}]},
        {"mcp_servers": [{"name": "a", "url": "http://h", "headers": {"a b": "c"}}]},
        {"mcp_servers": [{"name": "a", "url": "http://h", "oauth": {"client_id": "a"}}]},
        {"tool_names": "short"},
        {"mcp": {"url": "http://h"}},
        {"a2a": [{"name": "a"}]},
        {"a2a": [{"url": "http://h"}]},
        {"a2a": [{"name": "a b", "url": "http://h"}]},
        {"a2a": [{"name": "a" * 49, "url": "http://h"}]},
        {"a2a": [{"name": "a", "url": "http://u:p@h"}]},
        {"a2a": [{"name": "a", "url": "h"}]},
        {"a2a": [{"name": "a", "url": "http://h", "destructiveHint": True, "destructive_hint": True}]},
        {"a2a": [{"name": "a", "url": "http://h", "origins": ["http://h/a"]}]},
        {"a2a": [{"name": "a", "url": "http://h", "max_concurrency": 0}]},
        {"a2a": {"a": {"name": "a", "url": "http://h"}}},
        {"a2a": {"a": {}}},
        {"agent": {"type": "llm", "name": "a", "a2a": None}},
        {"agent": {"type": "llm", "name": "a", "a2a": [{"url": "http://h"}]}},
        {"agent": {"type": "llm", "name": "a", "a2a": [{"name": "b", "description": "c"}]}},
        {"agent": {"type": "llm", "name": "a", "a2a": [{"name": "b", "destructiveHint": True}]}},
        {"agent": {"type": "llm", "name": "a", "a2a": [{"name": "b", "destructive_hint": True}]}},
        {"agent": {"type": "a2a", "name": "a"}},
        {"agent": {"type": "a2a", "name": "a", "agent": "b", "url": "http://h"}},
        {"agent": {"type": "a2a", "name": "a", "agent": "b", "destructiveHint": True}},
        {"agent": {"type": "a2a", "name": "a", "url": "http://h", "prompt": ""}},
        {"approval": {"unannotated": "deny"}},
        {"approval": {"rules": [{}]}},
        {"approval": {"rules": [{"then": "stop"}]}},
        {"approval": {"rules": [{"then": "run", "arguments": {"a": None}}]}},
        {"approval": {"rules": [{"then": "run", "arguments": {"a": {}}}]}},
        {"approval": {"rules": [{"then": "run", "arguments": {"a": []}}]}},
        {"approval": {"rules": [{"then": "run", "arguments": {"a": {"equals": None}}}]}},
        {"approval": {"rules": [{"then": "run", "arguments": {"a": {"one_of": []}}}]}},
        {"approval": {"rules": [{"then": "run", "arguments": {"a": {"above": "3"}}}]}},
        {"approval": {"expires_after": 0}},
        {"agent": {"type": "llm", "name": "a", "mcp_servers": None}},
        {"agent": {"type": "llm", "name": "a", "tools": None}},
        {"agent": {"type": "llm", "name": "a", "approval": {"rules": None}}},
        {"agent": {"type": "llm", "name": "a", "can_exit_loop": "yes"}},
        {"agent": {"type": "approval", "name": "a"}},
        {"agent": {"type": "approval", "name": "a", "message": ""}},
        {"agent": router},
        {"agent": {**router, "routes": []}},
        {"agent": {**router, "routes": [{"when": {}, "agent": "b"}]}},
        {"agent": {**router, "routes": [{"agent": "b"}]}},
        {"agent": {**router, "model": "openai:n", "default": "b"}},
        {"agent": {**router, "model": "openai:n", "routes": [{"when": {"k": 1}, "agent": "b"}]}},
        {"agent": {**router, "prompt": "p", "routes": [{"when": {"k": 1}, "agent": "b"}]}},
        {"limits": {"max_turns": 0}},
    ],
)
def test_both_refuse(load: Load, data: object) -> None:
    assert not accepted(load, data)
    assert not VALIDATOR.is_valid(data)
