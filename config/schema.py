"""The JSON Schema of an agent file, for editors and other programs."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, TypeAlias, assert_never

from stopgo.config.interpolate import WHOLE_REFERENCE_PATTERN
from stopgo.config.model import AgentConfig
from stopgo.config.shape import (
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
    needs_a_key,
    short_for,
    type_word,
)

Json: TypeAlias = dict[str, Any]

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE: Json = {"type": "string", "pattern": WHOLE_REFERENCE_PATTERN}
_WITH_REFERENCE: Json = {"type": "string", "pattern": r"\$\{"}


def json_schema() -> Json:
    """The schema, 2020-12. It knows all of a file but what is in other places: duplicate names,
    and what the variables hold.
    """
    definitions: dict[str, Json] = {}
    root = _section(AgentConfig, definitions)
    return {
        "$schema": _DRAFT,
        "title": "Agent file",
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


def _section(cls: type, definitions: dict[str, Json]) -> Json:
    keys = keys_of(cls)
    properties: Json = {}
    required = [key.name for key in keys.values() if key.required]
    if word := type_word(cls):
        properties["type"] = {"const": word}
        required.insert(0, "type")
    properties.update((key.name, _key(key, definitions)) for key in keys.values())
    schema: Json = {
        "description": inspect.cleandoc(cls.__doc__ or ""),
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    if required:
        schema["required"] = required
    if choices := exactly_one_of(cls):
        schema["oneOf"] = [{"anyOf": [{"required": [name]} for name in group]} for group in choices]
    if needs_a_key(cls):
        schema["minProperties"] = 1
    if needs := {key.name: [key.about.needs] for key in keys.values() if key.about.needs}:
        schema["dependentRequired"] = needs
    return schema


def _key(key: Key, definitions: dict[str, Json]) -> Json:
    schema = _shape(key.shape, definitions)
    if key.may_be_blank and not key.required:
        schema = {"anyOf": [schema, {"type": "null"}]}
    described: Json = {"description": key.about.text, **schema}
    if key.default is not None:
        described["default"] = str(key.default) if isinstance(key.default, Path) else key.default
    return described


def _shape(shape: Shape, definitions: dict[str, Json]) -> Json:
    match shape:
        case Text():
            return _text(shape)
        case Number():
            limits = {
                "minimum": shape.minimum,
                "exclusiveMinimum": shape.above,
                "maximum": shape.maximum,
            }
            number = {"type": "integer" if shape.whole else "number"}
            given = {word: limit for word, limit in limits.items() if limit is not None}
            return {"anyOf": [{**number, **given}, _REFERENCE]}
        case Flag():
            return {"anyOf": [{"type": "boolean"}, _REFERENCE]}
        case AnyScalar():
            return {"type": ["string", "number", "boolean"]}
        case Anything():
            return {}
        case Choice():
            return {"anyOf": [{"enum": list(shape.words)}, _REFERENCE]}
        case ListOf():
            schema: Json = {"type": "array", "items": _shape(shape.item, definitions)}
            return {**schema, "minItems": 1} if shape.not_empty else schema
        case MapOf():
            mapping: Json = {"type": "object", "additionalProperties": _shape(shape.item, definitions)}
            return {**mapping, "minProperties": 1} if shape.not_empty else mapping
        case Section():
            section = _reference(shape.cls, definitions)
            short = short_for(shape.cls)
            return {"anyOf": [section, _shape(short.shape, definitions)]} if short else section
        case Variants():
            return {"oneOf": [_reference(section.cls, definitions) for section in shape.sections.values()]}
        case _:
            assert_never(shape)


def _text(shape: Text) -> Json:
    schema: Json = {"type": "string"}
    if shape.not_empty:
        schema["minLength"] = 1
    if shape.regex:
        schema["format"] = "regex"
    if shape.pattern is None:
        return schema
    return {"anyOf": [{**schema, "pattern": f"^(?:{shape.pattern})$"}, _WITH_REFERENCE]}


def _reference(cls: type, definitions: dict[str, Json]) -> Json:
    if cls.__name__ not in definitions:
        # Entered before it is made: a node holds nodes.
        definitions[cls.__name__] = {}
        definitions[cls.__name__] = _section(cls, definitions)
    return {"$ref": f"#/$defs/{cls.__name__}"}
