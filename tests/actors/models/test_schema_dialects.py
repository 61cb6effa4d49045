"""Every schema of a tool in every dialect: no provider refuses it, and every argument is declared.

`SCHEMAS=2000` sets how many schemas are made.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stopgo.actors.models.codecs.profiles import dialect_for
from stopgo.actors.models.messages.plain_schema import MAX_RULES, plain_schema
from stopgo.actors.models.messages.schema_dialects import (
    ANTHROPIC,
    GEMINI,
    LLAMA_CPP,
    OLLAMA,
    OPENAI,
    PLAIN,
    XAI,
    SchemaDialect,
)
from stopgo.config.sections.models import ModelSpec, Provider

from ..tools.test_schema_repair import KEYWORDS, odd_schemas
from .schema_judges import JUDGES, inner_schemas

DIALECTS = {each.name: each for each in (ANTHROPIC, OPENAI, LLAMA_CPP, OLLAMA, GEMINI, XAI)}
# Routers, and servers with the API of another, must satisfy all that may be behind them.
SENT = [
    *DIALECTS.values(),
    PLAIN,
    LLAMA_CPP | OPENAI,
    LLAMA_CPP | OLLAMA,
    *(LLAMA_CPP | OPENAI | family for family in (ANTHROPIC, GEMINI, XAI)),
]
MADE = int(os.environ.get("SCHEMAS", "60"))

NAMES = ["label", "at", "$top", "filter[name]", "x" * 65, "type", "pattern", "items", "properties", "$ref"]


def judged(schema: Mapping[str, Any], dialect: SchemaDialect) -> tuple[str, Mapping[str, Any], str]:
    """What each judge of the dialect says, the schema that is sent, and the description."""
    description, shown = plain_schema(schema, "", dialect)
    refusals = (JUDGES[name](shown) for name in dialect.name.split(", "))
    return "; ".join(filter(None, refusals)), shown, description


# Schemas as generators of servers write them: of any draft, with one slip or another.
_leaves = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "description": None, "nullable": True},
        {"type": "string", "required": True},
        {"type": "string", "pattern": r"^(?!\.)[a-z]+$", "minLength": 1, "maxLength": 65_536},
        {"type": "string", "pattern": r"\p{Lu}", "format": "email"},
        {"type": ["string", "null"], "enum": ["a", "b", None], "default": None},
        {"type": "string", "enum": [1, 2]},
        {"const": "a"},
        {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 2**63},
        {"type": "integer", "minimum": 5, "maximum": 3},
        {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5},
        {"type": "array"},
        {"type": "array", "items": [{"type": "number"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
        {"type": "array", "prefixItems": [{"type": "number"}], "items": False, "uniqueItems": True},
        {"type": "array", "items": True, "contains": {"const": 1}},
        {"type": "object", "additionalProperties": True},
        {"type": "object", "additionalProperties": {}, "patternProperties": {"^x-": {"type": "string"}}},
        {"type": "any"},
        {"type": "File", "title": "t"},
        {"enum": [True, None, {"$ref": "x"}]},
        {"default": {"$ref": "#/x"}, "description": "d"},
        {"not": {"type": "string"}},
        {"$ref": "#/definitions/node"},
        {"$ref": "#/$defs/item", "description": "d"},
        {"$ref": "#"},
        {"$ref": "#/properties/label"},
        {"$ref": "#/nowhere"},
        {"$ref": "https://example.invalid/x.json#/y"},
        *(True, False, None, {}, "string"),
    ]
)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    names = st.lists(st.sampled_from([*NAMES, "undeclared"]), max_size=2) | st.none()
    return st.fixed_dictionaries(
        {"type": st.sampled_from(["object", ["object", "null"], "OBJECT"]), "properties": some},
        optional={
            "required": names,
            "additionalProperties": st.booleans() | inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "if": st.just({"required": ["at"]}),
            "then": st.fixed_dictionaries({"properties": some}),
            "dependencies": st.dictionaries(st.just("at"), st.just(["label"]) | inner, max_size=1),
        },
    )


_nodes = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        _objects(inner),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}, optional={"minItems": st.just(1)}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries(
            {"oneOf": st.lists(inner, min_size=1, max_size=3)}, optional={"type": st.just("object")}
        ),
        st.fixed_dictionaries(
            {"allOf": st.lists(inner, min_size=1, max_size=2), "description": st.just("d")}
        ),
    ),
    max_leaves=10,
)
_roots = st.builds(
    lambda node, node_def, item, top: {
        **node,
        **top,
        "definitions": {"node": node_def},
        "$defs": {"item": item},
    },
    _objects(_nodes),
    _nodes,
    _nodes,
    st.sampled_from(
        [
            {},
            {"$schema": "http://json-schema.org/draft-07/schema#"},
            {"oneOf": [{"properties": {"kind": {"const": "a"}}}, {"properties": {"kind": {"const": "b"}}}]},
            {"allOf": [{"properties": {"more": {"type": "string"}}}]},
        ]
    ),
)


@settings(max_examples=MADE)
@given(_roots | st.dictionaries(st.sampled_from(KEYWORDS), odd_schemas, max_size=4))
def test_no_provider_refuses_a_schema_and_every_argument_is_declared(schema: Any) -> None:
    for dialect in SENT:
        refusals, shown, description = judged(schema, dialect)
        assert not refusals, (dialect.name, shown)
        missing = declared(schema) - shown["properties"].keys()
        assert all(refused_by_name(each, dialect) for each in missing)
        assert len(description) > MAX_RULES or all(each in description for each in missing)


def declared(schema: Mapping[str, Any]) -> set[str]:
    """The arguments that a schema declares at its top."""
    found: set[str] = set()
    given = schema.get("properties")
    if isinstance(given, dict):
        found |= given.keys()
    for union in ("oneOf", "allOf"):
        for branch in schema[union] if isinstance(schema.get(union), list) else ():
            if isinstance(branch, dict) and branch.keys() == {"properties"}:
                found |= declared(branch)
    return found


def refused_by_name(argument: str, dialect: SchemaDialect) -> bool:
    """Whether the table says that an argument of this name cannot be declared."""
    fits = dialect.names is None or dialect.names.fullmatch(argument) is not None
    return not fits or argument in dialect.not_names


def _shown(schema: Any, dialect: SchemaDialect) -> Any:
    return plain_schema({"type": "object", "properties": {"v": schema}}, "", dialect)[1]["properties"]["v"]


SIMPLE = ["string", "number", "boolean", "object", "null"]
TREE = {
    "definitions": {
        "node": {"type": "object", "properties": {"sons": {"items": {"$ref": "#/definitions/node"}}}}
    }
}


@pytest.mark.parametrize(
    ("dialect", "given", "right"),
    [
        # ai.google.dev: no `const`, no exclusive limits, no `oneOf`
        (GEMINI, {"const": "a"}, {"enum": ["a"]}),
        (GEMINI, {"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 1}),
        (
            GEMINI,
            {"oneOf": [{"type": "string"}, {"type": "null"}]},
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
        ),
        (
            GEMINI,
            {"type": ["string", "null"], "enum": ["a", None]},
            {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]},
        ),
        # vercel/ai#19000: the schema of Dropbox's tool `move`
        (
            GEMINI,
            {"anyOf": [{"type": "null"}, {"type": "object"}], "description": "d"},
            {"anyOf": [{"type": "null"}, {"type": "object"}], "description": "d"},
        ),
        # llama.cpp#26930
        (LLAMA_CPP, {"type": "string", "pattern": "^a$"}, {"type": "string"}),
        (OPENAI, {"type": "string", "pattern": "^a$"}, {"type": "string", "pattern": "^a$"}),
        # vercel/ai#21037
        (OPENAI, {"type": "string", "pattern": "^(?=a)$"}, {"type": "string"}),
        (ANTHROPIC, {"type": "string", "pattern": "^(?=a)$"}, {"type": "string", "pattern": "^(?=a)$"}),
        # BerriAI/litellm#40485
        (OPENAI, {"type": "string", "pattern": r"\p{Lu}"}, {"type": "string"}),
        # llama.cpp#25746
        (LLAMA_CPP, {"type": "string", "maxLength": 2000}, {"type": "string"}),
        # json-schema-to-grammar.cpp: `schema.empty()` is an object; `items` goes before `prefixItems`
        (LLAMA_CPP, True, {"type": [*SIMPLE, "array"], "items": {"type": SIMPLE}}),
        (
            LLAMA_CPP,
            {"items": [{"type": "string"}, {"type": "number"}]},
            {
                "prefixItems": [{"type": "string"}, {"type": "number"}],
                "items": {"anyOf": [{"type": "string"}, {"type": "number"}]},
            },
        ),
        # the same file: `allOf` makes an object of a text
        (LLAMA_CPP, {"type": "string", "allOf": [{"minLength": 1}]}, {"type": "string", "minLength": 1}),
        # openclaw, commit 00347bda
        (XAI, {"type": "string", "maxLength": 9}, {"type": "string"}),
        # vercel/ai#14678
        (XAI, {"type": "object", "additionalProperties": False}, {"type": "object"}),
        (
            PLAIN,
            {"type": "object", "additionalProperties": False},
            {"type": "object", "additionalProperties": False},
        ),
    ],
)
def test_dialect_says_the_same_in_its_own_keywords(dialect: SchemaDialect, given: Any, right: Any) -> None:
    assert _shown(given, dialect) == right


@pytest.mark.parametrize("name", DIALECTS)
def test_schema_that_contains_itself_is_declared_as_far_as_the_dialect_goes(name: str) -> None:
    schema = {"type": "object", "properties": {"tree": {"$ref": "#/definitions/node"}}, **TREE}
    refusals, shown, _ = judged(schema, DIALECTS[name])
    assert not refusals
    tree = shown["properties"]["tree"]
    if DIALECTS[name].references:
        assert tree == {"$ref": "#/$defs/node"}
        assert shown["$defs"]["node"]["properties"]["sons"]["items"] == {"$ref": "#/$defs/node"}
    else:
        assert tree["properties"]["sons"]["items"] == {"type": "object"}


@pytest.mark.parametrize("name", DIALECTS)
def test_schema_whose_references_multiply_stays_small(name: str) -> None:
    defs = {
        f"d{n}": {"properties": {"a": {"$ref": f"#/$defs/d{n + 1}"}, "b": {"$ref": f"#/$defs/d{n + 1}"}}}
        for n in range(30)
    }
    schema = {"properties": {"v": {"$ref": "#/$defs/d0"}}, "$defs": {**defs, "d30": {}}}
    refusals, shown, _ = judged(schema, DIALECTS[name])
    assert not refusals
    assert sum(1 for _ in inner_schemas(shown)) < 10_000


@pytest.mark.parametrize(
    ("provider", "model", "parts"),
    [
        ("anthropic", "claude-sonnet-5-5", "anthropic"),
        ("openai", "gpt-5", "openai"),
        ("mistral", "mistral-large", "openai"),
        ("google", "gemini-3-flash", "gemini"),
        ("ollama", "qwen3", "llama.cpp, ollama"),
        ("openai_compatible", "m", "llama.cpp, openai"),
        ("openai_compatible", "grok-4.6", "llama.cpp, openai, xai"),
        ("openrouter", "anthropic/claude-opus-5", "llama.cpp, openai, anthropic"),
        ("openrouter", "google/gemini-3-pro", "llama.cpp, openai, gemini"),
    ],
)
def test_dialect_follows_from_provider_and_family(provider: Provider, model: str, parts: str) -> None:
    assert dialect_for(ModelSpec("m", provider, model)).name == parts
