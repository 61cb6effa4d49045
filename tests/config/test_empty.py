"""No list, mapping or section of a file permits something because it has no content."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from stopgo.config.described.shape import Key, ListOf, MapOf, Section, Shape, Variants, keys_of, needs_a_key
from stopgo.config.reading.reader import Reader
from stopgo.config.sections.agent_config import AgentConfig
from stopgo.config.text.values import Mark, Scalar, Sequence, Table, Value
from stopgo.config.text.variables import Variables
from stopgo.config.web_config import WebConfig

from .conftest import Problems

ONLY_ADD = {
    "AgentConfig": {"llm", "models", "mcp_servers", "mcpServers", "a2a"},
    "LlmConfig": {"fallbacks", "options"},
    "ModelConfig": {"options", "headers", "query"},
    "McpServerConfig": {"args", "env", "headers"},
    "RemoteAgentConfig": {"headers", "origins"},
    "AuthConfig": {"forward_credential"},
}
"""Keys under which something is added to what the agent can use. A new key belongs here only if nothing can
be called, seen or approved because the key is empty."""
NONE_IS_LESS = {"mcp_servers", "tools", "a2a", "fallbacks"}
"""Lists of a node, and the fallbacks of a model: `[]` is documented as "none", less than the default."""
MARK, EMPTY = Mark(7, 3), Mark(8, 5)


def classes(shape: Shape, found: dict[str, type]) -> dict[str, type]:
    """Every class of configuration below a shape."""
    match shape:
        case Section(cls):
            if cls.__name__ not in found:
                found[cls.__name__] = cls
                for key in keys_of(cls).values():
                    classes(key.shape, found)
        case ListOf() | MapOf():
            classes(shape.item, found)
        case Variants(sections):
            for section in sections.values():
                classes(section, found)
        case _:
            pass
    return found


ALL = classes(Section(AgentConfig), classes(Section(WebConfig), {}))
assert len(ALL) > 30


def collections() -> Iterator[tuple[type, Key]]:
    for cls in ALL.values():
        yield from (
            (cls, key) for key in keys_of(cls).values() if isinstance(key.shape, ListOf | MapOf | Section)
        )


STRICT = [
    pytest.param(cls, key, id=f"{cls.__name__}.{key.name}")
    for cls, key in collections()
    if key.name not in ONLY_ADD.get(cls.__name__, set())
]


def problems_with(cls: type, key: str, value: Value) -> set[tuple[str, int | None]]:
    """The path and line of each problem of a section with this key."""
    reader = Reader("f", Variables({}, Path()))
    reader.section(cls, Table({key: value}, Mark(1, 1), {key: MARK}), ())
    return {(problem.key, problem.line) for problem in reader.problems}


@pytest.mark.parametrize(("cls", "key"), STRICT)
def test_a_key_without_a_value_is_an_error_at_its_line(cls: type, key: Key) -> None:
    found = problems_with(cls, key.name, Scalar(None, EMPTY))
    assert ("" if key.required else key.name, EMPTY.line) in found


@pytest.mark.parametrize(("cls", "key"), STRICT)
def test_an_empty_value_is_an_error_at_its_line(cls: type, key: Key) -> None:
    empty: Value = Sequence((), EMPTY) if isinstance(key.shape, ListOf) else Table({}, EMPTY)
    found = problems_with(cls, key.name, empty)
    refused = any(path.startswith(key.name) and line == EMPTY.line for path, line in found)
    assert refused == (not (isinstance(key.shape, ListOf) and key.about.empty == "none"))


def test_the_other_keys_only_add() -> None:
    found: dict[str, set[str]] = {}
    for cls, key in collections():
        if key.about.empty == "nothing":
            found.setdefault(cls.__name__, set()).add(key.name)
    assert found == ONLY_ADD
    assert {key.name for _, key in collections() if key.about.empty == "none"} == NONE_IS_LESS


def test_sections_below_names_of_ones_choice_are_not_empty() -> None:
    """For instance, a role of `auth.roles` without a key could approve everything."""
    for cls, key in collections():
        if isinstance(key.shape, MapOf) and isinstance(section := key.shape.item, Section):
            required = any(each.required for each in keys_of(section.cls).values())
            assert required or needs_a_key(section.cls), (cls, key.name)


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("name: a\nauth:\n  # api_keys: true\nport: 1\n", 2, "auth"),
        ("auth: {}", 1, "auth"),
        ("auth:\n  api_keys: true\n  roles:\n    lead:\n", 4, "auth.roles.lead"),
        ("auth:\n  api_keys: true\n  roles:\n    lead: {}\n", 4, "auth.roles.lead"),
        ("auth:\n  api_keys: true\n  roles:\n    lead: {servers: []}\n", 4, "auth.roles.lead.servers"),
        ("approval:\n  rules:\n", 2, "approval.rules"),
        ("approval:\n  rules:\n    - then: run\n      arguments:\n", 4, "approval.rules[0].arguments"),
        ("approval:\n  rules:\n    - then: run\n      arguments: {}\n", 4, "approval.rules[0].arguments"),
        ("approval:\n  rules:\n    - then: run\n      tool:\n", 4, "approval.rules[0].tool"),
        ("approval:\n  unannotated:\n", 2, "approval.unannotated"),
        ("limits:\n  # max_turns: 5\n", 1, "limits"),
        ("server:\n  allowed_hosts:\n", 2, "server.allowed_hosts"),
        ("mcp_servers:\n  - name: a\n    command: b\n    tools:\n", 4, "mcp_servers[0].tools"),
        (
            "mcp_servers:\n  a:\n    command: b\n    tools:\n      exclude:\n",
            5,
            "mcp_servers.a.tools.exclude",
        ),
        ("agent:\n  type: llm\n  name: a\n  tools:\n", 4, "agent.tools"),
        ("agent:\n  type: llm\n  name: a\n  approval:\n", 4, "agent.approval"),
    ],
)
def test_a_file_says_the_line(problems: Problems, text: str, line: int, key: str) -> None:
    assert [(problem.line, problem.key) for problem in problems(text)] == [(line, key)]
