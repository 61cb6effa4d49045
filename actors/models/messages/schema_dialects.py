"""What each provider accepts in the schema of a tool. Data; `codecs/profiles.py` chooses for a model.

A provider that does not accept one schema refuses the whole request. So each table is cautious: what one
version or one host behind an API refuses is left out. Nothing is lost for the user by that: the arguments of
a call are always checked against the whole schema of its server (`arguments/arguments.py`).
"""

from __future__ import annotations

import re
from typing import Literal

import attrs

Patterns = Literal["any", "no lookaround", "none"]
_STRICTER: tuple[Patterns, ...] = ("any", "no lookaround", "none")


@attrs.frozen
class SchemaDialect:
    """The differences from JSON Schema 2020-12."""

    name: str
    sources: tuple[str, ...] = attrs.field(default=(), eq=False)
    """Where the rules come from. All were read on 2026-11-28."""
    names: re.Pattern[str] | None = None
    """The form of the names of arguments; None: any. Names of inner properties are free."""
    not_names: frozenset[str] = frozenset()
    """Names that no property may have, at any depth."""
    left_out: frozenset[str] = frozenset()
    """Keywords that are never sent."""
    only: frozenset[str] | None = None
    """The only keywords that are sent; None: all."""
    patterns: Patterns = "any"
    references: bool = True
    """Whether references are sent. If not, they are replaced by what they refer to; an inner level of a
    schema that contains itself then accepts any value of its type."""
    lone_unions: bool = False
    """Whether `anyOf` makes the server ignore or refuse the keywords beside it, and whether `allOf` does."""
    closed: bool = False
    """Whether a model cannot write an argument that is not declared."""
    no_false: bool = False
    """Whether `additionalProperties: false` is the default and must not be said."""
    grammar: bool = False
    """Whether the server makes a grammar of the schema."""

    def __or__(self, other: SchemaDialect) -> SchemaDialect:
        """The dialect with the restrictions of both."""
        if other.only is None or self.only is None:
            only = self.only if other.only is None else other.only
        else:
            only = self.only & other.only
        return SchemaDialect(
            f"{self.name}, {other.name}",
            (*self.sources, *other.sources),
            self.names or other.names,
            self.not_names | other.not_names,
            self.left_out | other.left_out,
            only,
            _STRICTER[max(map(_STRICTER.index, (self.patterns, other.patterns)))],
            self.references and other.references,
            self.lone_unions or other.lone_unions,
            self.closed or other.closed,
            self.no_false or other.no_false,
            self.grammar or other.grammar,
        )


NOT_AT_THE_TOP = ("oneOf", "anyOf", "allOf", "enum", "not", "const")
"""In no dialect: Anthropic ("input_schema does not support oneOf, allOf, or anyOf at the top level"), OpenAI
("schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level") and xAI
("tool parameter root must be an object type") refuse them."""

ANTHROPIC = SchemaDialect(
    "anthropic",
    (
        "https://docs.claude.com/en/docs/tool-use: JSON Schema draft 2020-12",
        "github.com/anthropics/claude-code/issues/586, 40075: other drafts, unions at the top",
        "github.com/decocms/studio/pull/6874: names of arguments, not of inner properties",
    ),
    names=re.compile(r"[a-zA-Z0-9_.-]{1,64}"),
)
OPENAI = SchemaDialect(
    "openai",
    (
        "https://developers.openai.com/api/docs/guides/function-calling",
        "github.com/digitalocean-labs/mcp-digitalocean/issues/265: arrays need `items`",
        "github.com/vercel/ai/pull/21037: no lookaround in `pattern`",
        "github.com/BerriAI/litellm/pull/40485: a `pattern` must compile in Python",
    ),
    patterns="no lookaround",
)
LLAMA_CPP = SchemaDialect(
    "llama.cpp",
    (
        "github.com/ggml-org/llama.cpp: common/json-schema-to-grammar.cpp at 011c6c3c",
        "github.com/ggml-org/llama.cpp/issues/26930, 25746: `pattern`, also with anchors",
        "github.com/ggml-org/llama.cpp/issues/25923, 26596: large numbers of repetitions",
    ),
    # The converter reads these names as keywords, wherever they stand.
    not_names=frozenset({"$ref", "$defs"}),
    left_out=frozenset({"unevaluatedItems", "unevaluatedProperties"}),
    patterns="none",
    lone_unions=True,
    closed=True,
    grammar=True,
)
OLLAMA = SchemaDialect(
    "ollama",
    (
        "github.com/ollama/ollama: ToolFunctionParameters and ToolProperty in api/types.go",
        "github.com/ollama/ollama/issues/10328: a property must be an object",
    ),
    references=False,
    lone_unions=True,
)
GEMINI = SchemaDialect(
    "gemini",
    (
        "https://ai.google.dev/api/generate-content: the keywords of responseJsonSchema, the only JSON "
        "Schema that Gemini documents",
        "github.com/google-gemini/gemini-cli/issues/13326, 14945: references, also to itself",
        "github.com/anomalyco/opencode/issues/12295: keywords beside `$ref`",
        "github.com/vercel/ai/pull/19000: keywords beside `anyOf`",
    ),
    only=frozenset(
        {"additionalProperties", "anyOf", "description", "enum", "format", "items", "maxItems", "maximum"}
        | {"minItems", "minimum", "prefixItems", "properties", "required", "title", "type"}
    ),
    references=False,
    lone_unions=True,
)
XAI = SchemaDialect(
    "xai",
    (
        "https://docs.x.ai/developers/model-capabilities/text/structured-outputs: no circular references, "
        "one schema in `allOf`, no further properties",
        "github.com/openclaw/openclaw, commit 00347bda: lengths and numbers of items",
        "github.com/vercel/ai/issues/14678: `additionalProperties: false`, its default, was refused",
    ),
    left_out=frozenset(
        {"minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains"}
        | {"unevaluatedItems", "unevaluatedProperties"}
    ),
    patterns="no lookaround",
    references=False,
    lone_unions=True,
    closed=True,
    no_false=True,
)

PLAIN = ANTHROPIC | OPENAI
"""The dialect for all other providers: only what both Anthropic and OpenAI accept."""
