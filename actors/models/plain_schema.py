"""The schema of a tool's arguments in the form that every provider accepts. Pure.

Providers reject a whole request, and with it every turn, because of one schema, and tool servers send any
schema. The rules are taken from error messages of the APIs:

* Anthropic: "JSON schema is invalid. It must match JSON Schema draft 2020-12", "input_schema does not support
  oneOf, allOf, or anyOf at the top level", "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'".
* OpenAI: "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level",
  "array schema missing items".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

IN_WORDS = "\n\nIts arguments, as JSON Schema: "

_NOT_AT_THE_TOP = ("oneOf", "anyOf", "allOf", "enum", "not")
_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")


class _Invalid(Exception):
    """The value is no schema of draft 2020-12."""


def plain_schema(schema: Mapping[str, Any], description: str) -> tuple[str, Mapping[str, Any]]:
    """Description and schema for a provider. The description quotes a schema that a provider would reject."""
    whole = {"type": "object", "properties": {}, **schema}
    shown: Mapping[str, Any] = {name: each for name, each in whole.items() if name not in _NOT_AT_THE_TOP}
    complete = len(shown) == len(whole)
    try:
        shown = _schema(shown)
        if not all(map(_NAME.fullmatch, shown["properties"])):
            raise _Invalid
    except _Invalid:
        shown, complete = {"type": "object", "properties": {}}, False
    if complete:
        return description, shown
    return f"{description}{IN_WORDS}{json.dumps(schema, ensure_ascii=False)}", shown


def _schema(value: Any) -> Any:
    """The schema, with `items` for every array. Raises `_Invalid`."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, Mapping):
        raise _Invalid
    found = {name: _PARTS[name](part) if name in _PARTS else part for name, part in value.items()}
    kind = value.get("type")
    if "items" not in value and (kind == "array" or (isinstance(kind, list) and "array" in kind)):
        found["items"] = {}
    return found


def _schemas(value: Any) -> Any:
    if not isinstance(value, list) or not value:
        raise _Invalid
    return [_schema(each) for each in value]


def _named_schemas(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise _Invalid
    return {name: _schema(each) for name, each in value.items()}


def _is(valid: Callable[[Any], bool]) -> Callable[[Any], Any]:
    def checked(value: Any) -> Any:
        if not valid(value):
            raise _Invalid
        return value

    return checked


def _matches(pattern: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_switches(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(each, bool) for each in value.values())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and (isinstance(value, int) or value.is_integer())


def _are_names(value: Any) -> bool:
    return (
        isinstance(value, list)
        and all(isinstance(name, str) for name in value)
        and len(set(value)) == len(value)
    )


def _is_type(value: Any) -> bool:
    names = [value] if isinstance(value, str) else value
    return _are_names(names) and bool(names) and set(names) <= set(_TYPES)


def _are_named_names(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_are_names, value.values()))


def _each(keywords: str, part: Callable[[Any], Any]) -> dict[str, Callable[[Any], Any]]:
    return dict.fromkeys(keywords.split(), part)


_PARTS: Mapping[str, Callable[[Any], Any]] = {
    **_each("allOf anyOf oneOf prefixItems", _schemas),
    **_each("additionalProperties contains contentSchema else if items not propertyNames then", _schema),
    **_each("unevaluatedItems unevaluatedProperties", _schema),
    **_each("$defs definitions dependentSchemas patternProperties properties", _named_schemas),
    **_each("exclusiveMaximum exclusiveMinimum maximum minimum", _is(_is_number)),
    **_each("maxContains maxItems maxLength maxProperties", _is(_is_count)),
    **_each("minContains minItems minLength minProperties", _is(_is_count)),
    **_each("deprecated readOnly uniqueItems writeOnly", _is(lambda value: isinstance(value, bool))),
    **_each("$comment $dynamicRef $ref $schema contentEncoding contentMediaType", _is(_is_text)),
    **_each("description format pattern title", _is(_is_text)),
    **_each("$anchor $dynamicAnchor", _is(_matches("[A-Za-z_][-A-Za-z0-9._]*"))),
    **_each("enum examples", _is(lambda value: isinstance(value, list))),
    "$id": _is(_matches("[^#]*#?")),
    "$vocabulary": _is(_are_switches),
    "dependentRequired": _is(_are_named_names),
    "multipleOf": _is(lambda value: _is_number(value) and value > 0),
    "required": _is(_are_names),
    "type": _is(_is_type),
}
"""The keywords of the draft, each with the check of its value."""
