"""The JSON Schema of an agent file, for editors and other programs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias, assert_never

from ..described.shape import (
    PAIR,
    AnyScalar,
    Anything,
    Choice,
    Flag,
    Key,
    ListOf,
    MapOf,
    Number,
    Section,
    Shape,
    Text,
    Variants,
    exactly_one_of,
    keys_of,
    names_of,
    needed_by_words,
    needs_a_key,
    short_for,
    type_word,
)
from ..sections.agent_config import AgentConfig
from ..text.interpolate import WHOLE_REFERENCE_PATTERN

JsonSchema: TypeAlias = dict[str, Any]

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE: JsonSchema = {"type": "string", "pattern": WHOLE_REFERENCE_PATTERN}
_WITH_REFERENCE: JsonSchema = {"type": "string", "pattern": r"\$\{"}


def json_schema(cls: type = AgentConfig, title: str = "Agent file") -> JsonSchema:
    """The JSON Schema 2020-12. It does not cover relations between places, such as duplicate names, and the
    values of variables.
    """
    definitions: dict[str, JsonSchema] = {}
    root = _section(cls, definitions)
    return {
        "$schema": _DRAFT,
        "title": title,
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


def _section(cls: type, definitions: dict[str, JsonSchema]) -> JsonSchema:
    keys = keys_of(cls)
    properties: JsonSchema = {}
    required = [key.name for key in keys.values() if key.required]
    if word := type_word(cls):
        properties["type"] = {"const": word}
        required.insert(0, "type")
    properties.update((key.name, _key(key, definitions)) for key in keys.values())
    schema: JsonSchema = {
        "description": inspect.cleandoc(cls.__doc__ or ""),
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    if required:
        schema["required"] = required
    if choices := exactly_one_of(cls):
        schema["oneOf"] = [{"anyOf": [_given(cls, name) for name in group]} for group in choices]
    if needs_a_key(cls):
        schema["minProperties"] = 1
    if needs := {key.name: _given(cls, key.about.needs) for key in keys.values() if key.about.needs}:
        schema["dependentSchemas"] = needs
    if fit := [*_aliases(cls), *_words(cls)]:
        schema["allOf"] = fit
    return schema


def _aliases(cls: type) -> Iterator[JsonSchema]:
    for key in keys_of(cls).values():
        if key.alias_of:
            yield {"not": {"required": [key.name, key.alias_of]}}


def _words(cls: type) -> Iterator[JsonSchema]:
    for name, word, needed in needed_by_words(cls):
        for key in names_of(cls, name):
            shape = keys_of(cls)[key].shape
            others = shape.synonyms.items() if isinstance(shape, Choice) else ()
            words = [word, *(other for other, meant in others if meant == word)]
            given = {"properties": {key: {"enum": words}}, "required": [key]}
            yield {"if": given, "then": _given(cls, needed)}


def _given(cls: type, name: str) -> JsonSchema:
    """That a key is there, under one of its names."""
    names = [{"required": [each]} for each in names_of(cls, name)]
    return names[0] if len(names) == 1 else {"anyOf": names}


def _key(key: Key, definitions: dict[str, JsonSchema]) -> JsonSchema:
    schema = _shape(key.shape, definitions)
    if key.needs_content:
        schema = {**schema, "minItems": 1, "minProperties": 1}
    if key.may_be_blank:
        schema = {"anyOf": [schema, {"type": "null"}]}
    described: JsonSchema = {"description": key.about.text, **schema}
    if key.default is not None:
        described["default"] = str(key.default) if isinstance(key.default, Path) else key.default
    return described


def _shape(shape: Shape, definitions: dict[str, JsonSchema]) -> JsonSchema:
    match shape:
        case Text():
            return _text(shape)
        case Number() | Flag() | Choice():
            return {"anyOf": [_plain(shape), _REFERENCE]}
        case AnyScalar():
            return {"type": ["string", "number", "boolean"]}
        case Anything():
            return {}
        case ListOf():
            return _list(shape, definitions)
        case MapOf():
            return _map(shape, definitions)
        case Section():
            section = _reference(shape.cls, definitions)
            short = short_for(shape.cls)
            return {"anyOf": [section, _shape(short.shape, definitions)]} if short else section
        case Variants():
            return {"oneOf": [_reference(section.cls, definitions) for section in shape.sections.values()]}
        case _:
            assert_never(shape)


def _plain(shape: Number | Flag | Choice) -> JsonSchema:
    """A value without the reference that may stand for it."""
    match shape:
        case Number():
            limits = {"minimum": shape.minimum, "exclusiveMinimum": shape.above, "maximum": shape.maximum}
            given = {word: limit for word, limit in limits.items() if limit is not None}
            return {"type": "integer" if shape.whole else "number", **given}
        case Flag():
            return {"type": "boolean"}
        case Choice():
            return {"enum": [*shape.words, *shape.synonyms]}
        case _:
            assert_never(shape)


def _list(shape: ListOf, definitions: dict[str, JsonSchema]) -> JsonSchema:
    schema: JsonSchema = {"type": "array", "items": _shape(shape.item, definitions)}
    if not shape.by_name:
        return schema
    assert isinstance(shape.item, Section)
    # In a mapping by name, the name is the key above, not a key of the entry.
    rest = _section(shape.item.cls, definitions)
    pattern = rest["properties"].pop("name")["anyOf"][0]["pattern"]
    rest["required"].remove("name")
    named = {"type": "object", "propertyNames": {"pattern": pattern}, "additionalProperties": rest}
    return {"anyOf": [schema, named]}


def _map(shape: MapOf, definitions: dict[str, JsonSchema]) -> JsonSchema:
    schema: JsonSchema = {"type": "object", "additionalProperties": _shape(shape.item, definitions)}
    if shape.key.pattern:
        schema["propertyNames"] = {"pattern": f"^(?:{shape.key.pattern})$"}
    return {"anyOf": [schema, {"type": "array", "items": _text(PAIR)}]} if shape.pairs else schema


def _text(shape: Text) -> JsonSchema:
    schema: JsonSchema = {"type": "string"}
    if shape.not_empty:
        schema["minLength"] = 1
    if shape.regex:
        schema["format"] = "regex"
    if shape.pattern is None:
        return schema
    return {"anyOf": [{**schema, "pattern": f"^(?:{shape.pattern})$"}, _WITH_REFERENCE]}


def _reference(cls: type, definitions: dict[str, JsonSchema]) -> JsonSchema:
    if cls.__name__ not in definitions:
        # Enter it first, because nodes contain nodes.
        definitions[cls.__name__] = {}
        definitions[cls.__name__] = _section(cls, definitions)
    return {"$ref": f"#/$defs/{cls.__name__}"}
