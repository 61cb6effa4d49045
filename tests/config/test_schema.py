"""The schema and the reader agree on what a file may hold."""

from collections.abc import Callable, Mapping
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from stopgo.config.errors import ConfigError, Problem
from stopgo.config.model import AgentConfig
from stopgo.config.schema import json_schema

Load = Callable[..., AgentConfig]

SCHEMA = json_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
# What a schema cannot know, for it is about two places of the file.
BEYOND = {"duplicate_name"}


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
    assert len(found) == 16
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
common = {"connect_timeout": seconds, "timeout": seconds, "max_concurrency": count}
by_url = section({"name": text, "url": st.sampled_from(["http://h", "https://h:1/mcp"])}, common)
by_command = section(
    {"name": text, "command": text},
    {**common, "args": st.lists(text), "env": st.dictionaries(text, text)},
)
output_key = {"output_key": st.sampled_from(["x", "x_1"])}
leaf = section(
    {"type": st.just("llm"), "name": text},
    {
        **output_key,
        "prompt": text,
        "model": text,
        "max_turns": count,
        "history": st.sampled_from(["turn", "conversation", "${X:-turn}"]),
    },
)
node = st.recursive(
    leaf,
    lambda inner: section(
        {
            "type": st.sampled_from(["sequential", "parallel", "loop"]),
            "name": text,
            "agents": st.lists(inner, max_size=3),
        },
        output_key,
    ),
    max_leaves=4,
)
ask = st.sampled_from(["run", "ask"])
files = section(
    {"name": text},
    {
        "description": text,
        "prompt": text,
        "host": text,
        "port": st.sampled_from([0, 8080, 65535, 80.0]) | reference,
        "data_dir": text,
        "shutdown_grace": st.sampled_from([0, 1.5]),
        "llm": section({}, {"model": text}),
        "mcp_servers": st.lists(by_url | by_command, max_size=3),
        "tools": section({}, {"max_parallel": count}),
        "approval": section({}, {"unannotated": ask, "in_parallel": ask}),
        "agent": node,
    },
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
    max_examples=300,
)
@given(files)
def test_reader_and_schema_agree(load: Load, data: object) -> None:
    verdict = accepted(load, data)
    assume(verdict is not None)
    assert VALIDATOR.is_valid(data) == verdict


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"mcp_servers": None, "llm": None, "tools": None, "approval": None},
        {"mcp_servers": [{"name": "a", "command": "b", "args": None, "env": None}]},
        {"mcp_servers": [{"name": "a", "url": "${X:-http://h}"}]},
        {"port": "${X:-1}", "shutdown_grace": "${X:-1}", "approval": {"unannotated": "${X:-ask}"}},
        {"agent": {"type": "llm", "name": "a"}},
        {"agent": {"type": "parallel", "name": "a", "agents": [{"type": "llm", "name": "b"}]}},
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
        {"mcp_servers": [{"name": "a", "command": "b", "timeout": 0}]},
        {"mcp": {"url": "http://h"}},
        {"a2a": []},
        {"approval": {"unannotated": "deny"}},
    ],
)
def test_both_refuse(load: Load, data: object) -> None:
    assert not accepted(load, data)
    assert not VALIDATOR.is_valid(data)
