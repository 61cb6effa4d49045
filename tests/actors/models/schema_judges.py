"""Providers' checks of a tool's schema, each after the public rules that `SOURCES` in its docstring names.

They are strict: what one version of a server refuses is refused. Each returns the reason, or None. They are
written from the rules, not from the code that they judge.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jsonschema.validators import Draft202012Validator

Judge = Callable[[Mapping[str, Any]], str | None]

_META = Draft202012Validator(Draft202012Validator.META_SCHEMA)
_UNIONS = {"oneOf", "anyOf", "allOf"}
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
_ONE = (
    *("additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames"),
    *("then", "unevaluatedItems", "unevaluatedProperties"),
)


def inner_schemas(schema: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Every schema within a schema, itself included, with its place."""
    yield at, schema
    if not isinstance(schema, dict):
        return
    for keyword, part in schema.items():
        if keyword in _LISTS and isinstance(part, list):
            for n, each in enumerate(part):
                yield from inner_schemas(each, f"{at}.{keyword}[{n}]")
        elif keyword in _MAPS and isinstance(part, dict):
            for name, each in part.items():
                yield from inner_schemas(each, f"{at}.{keyword}[{name}]")
        elif keyword in _ONE:
            yield from inner_schemas(part, f"{at}.{keyword}")


def _dangling(schema: Mapping[str, Any]) -> str | None:
    for at, each in inner_schemas(schema):
        reference = each.get("$ref") if isinstance(each, dict) else None
        if reference is None:
            continue
        found: Any = schema
        for part in reference.split("/")[1:]:
            found = found.get(part) if isinstance(found, dict) else None
        if not reference.startswith("#/") or found is None:
            return f"{at}: {reference} was not found"
    return None


def anthropic(schema: Mapping[str, Any]) -> str | None:
    """SOURCES: docs.claude.com, "Tool use"; anthropics/claude-code#40075, #586; decocms/studio#6874."""
    if schema.get("type") != "object":
        return "input_schema.type: Field required"
    if schema.keys() & _UNIONS:
        return "input_schema does not support oneOf, allOf, or anyOf at the top level"
    if not _META.is_valid(schema):
        return "JSON schema is invalid. It must match JSON Schema draft 2020-12"
    if schema.get("$schema", "2020-12").find("2020-12") < 0:
        return "JSON schema is invalid. It must match JSON Schema draft 2020-12"
    if not all(re.fullmatch("[a-zA-Z0-9_.-]{1,64}", name) for name in schema.get("properties", {})):
        return "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"
    return _dangling(schema)


def openai(schema: Mapping[str, Any]) -> str | None:
    """SOURCES: langchain-ai/langchainjs#9804 (top), digitalocean-labs/mcp-digitalocean#265 (items),
    vercel/ai#21037 and BerriAI/litellm#40485 (patterns), FoundationAgents/OpenManus#1162 (lists)."""
    if schema.get("type") != "object" or schema.keys() & {*_UNIONS, "enum", "not"}:
        return "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top"
    if not _META.is_valid(schema):
        return "not valid under any of the given schemas"
    for at, each in inner_schemas(schema):
        if not isinstance(each, dict):
            continue
        types = each.get("type")
        if "array" in (types if isinstance(types, list) else [types]) and "items" not in each:
            return f"{at}: array schema missing items"
        if isinstance(each.get("items"), bool):
            return f"{at}: array schema missing items"
        patterns = [each["pattern"]] if "pattern" in each else []
        for pattern in (*patterns, *each.get("patternProperties", {})):
            if re.search(r"\(\?<?[=!]", pattern):
                return f"{at}: regex lookaround is not supported"
            try:
                re.compile(pattern)
            except re.error:
                return f"{at}: not a regex"
        if types is not None:
            for choice in each.get("enum", ()):
                if not Draft202012Validator({"type": types}).is_valid(choice):
                    return f"{at}: enum value {choice} does not validate against {types}"
    return _dangling(schema)


def llama_cpp(schema: Mapping[str, Any]) -> str | None:
    """SOURCES: ggml-org/llama.cpp, common/json-schema-to-grammar.cpp; ggml-org/llama.cpp#26930 and #25746 (no
    pattern is safe), #25923 and #26596 (repetitions)."""
    if (problem := _references_of_llama_cpp(schema, schema)) is not None:
        return problem
    for at, each in inner_schemas(schema):
        if isinstance(each, bool):
            if not at.endswith("additionalProperties"):
                return f"Unrecognized schema: {each}"
            continue
        if not isinstance(each, dict):
            return f"Unrecognized schema: {each}"
        if "pattern" in each:
            return "Pattern must start with '^' and end with '$'"
        types = each.get("type", [])
        if {*(types if isinstance(types, list) else [types])} - {*_NAMES_OF_TYPES}:
            return f"Unrecognized schema: {each}"
        if not each or (not (each.keys() & _SEEN_BY_LLAMA_CPP) and at):
            return f"{at}: a schema of any value is an object"
        for keyword in ("minLength", "maxLength", "minItems", "maxItems"):
            if each.get(keyword, 0) >= 2000:
                return "number of repetitions exceeds sane defaults"
        is_open = each.get("additionalProperties", False) is not False
        if is_open and not all(re.fullmatch("[A-Za-z0-9_]+", name) for name in each.get("properties", {})):
            return "failed to parse grammar"
        if each.keys() & {"anyOf", "oneOf"} and each.keys() & {"properties", "items", "enum"}:
            return f"{at}: the keywords beside a union are ignored"
        if "allOf" in each:
            return f"{at}: allOf makes an object of everything"
        if not isinstance(each.get("format", ""), str) or each.get("enum") == []:
            return f"{at}: type error"
    return None


_NAMES_OF_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_SEEN_BY_LLAMA_CPP = {"type", "$ref", "anyOf", "oneOf", "const", "enum", "properties", "items", "prefixItems"}


def _references_of_llama_cpp(root: Any, value: Any) -> str | None:
    if isinstance(value, list):
        for each in value:
            if (problem := _references_of_llama_cpp(root, each)) is not None:
                return problem
    elif isinstance(value, dict):
        if "$ref" in value:
            if not isinstance(value["$ref"], str) or not value["$ref"].startswith("#/"):
                return f"Unsupported ref: {value['$ref']}"
            target = root
            for part in value["$ref"].split("/")[1:]:
                if not isinstance(target, dict) or part not in target:
                    return f"Error resolving ref {value['$ref']}"
                target = target[part]
            return None
        for each in value.values():
            if (problem := _references_of_llama_cpp(root, each)) is not None:
                return problem
    return None


def ollama(schema: Mapping[str, Any]) -> str | None:
    """SOURCES: ollama/ollama, api/types.go: how Go reads ToolFunctionParameters and ToolProperty; #10328."""
    if not isinstance(schema.get("type"), str):
        return "cannot unmarshal into Go struct field ToolFunctionParameters.type of type string"
    if not _texts(schema.get("required", [])):
        return "cannot unmarshal into Go struct field ToolFunctionParameters.required"
    return _properties_of_ollama(schema.get("properties"))


def _properties_of_ollama(properties: Any) -> str | None:
    if not isinstance(properties, dict):
        return "cannot unmarshal into Go struct field of type map[string]api.ToolProperty"
    for each in properties.values():
        if (problem := _property_of_ollama(each)) is not None:
            return problem
    return None


def _property_of_ollama(each: Any) -> str | None:
    types = each.get("type", "") if isinstance(each, dict) else None
    if not (isinstance(types, str) or _texts(types)):
        return f"cannot unmarshal {each} into Go struct field of type api.ToolProperty"
    if not isinstance(each.get("description", ""), str) or not isinstance(each.get("enum", []), list):
        return "cannot unmarshal into Go struct field ToolProperty"
    if each.keys() & {"$ref", "oneOf", "allOf"}:
        return "the field is dropped in silence, and the model sees no type"
    for branch in each.get("anyOf", []):
        if (problem := _property_of_ollama(branch)) is not None:
            return problem
    return _properties_of_ollama(each.get("properties", {}))


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


_OF_GEMINI = {
    *("$anchor", "$defs", "$id", "$ref", "additionalProperties", "anyOf", "description", "enum", "format"),
    *("items", "maxItems", "maximum", "minItems", "minimum", "oneOf", "prefixItems", "properties"),
    *("propertyOrdering", "required", "title", "type"),
}


def gemini(schema: Mapping[str, Any]) -> str | None:
    """SOURCES: ai.google.dev/api/generate-content, GenerationConfig.responseJsonSchema: the keywords, choices
    of texts and numbers, what may stand beside `$ref`; googleapis: required properties are declared;
    vercel/ai#19000 (`anyOf` alone); google-gemini/gemini-cli#14945 (references to itself)."""
    if schema.get("type") != "object":
        return "parameters: should be of type object"
    for at, each in inner_schemas(schema):
        if isinstance(each, bool):
            if not at.endswith("additionalProperties"):
                return f"{at}: not a schema"
            continue
        unknown = each.keys() - _OF_GEMINI
        if unknown:
            return f'Unknown name "{min(unknown)}" at {at}: Cannot find field'
        if "$ref" in each:
            return f"{at}: a reference, which may be part of a loop"
        if "anyOf" in each and each.keys() - {"anyOf", "title", "description"}:
            return f"{at}: specified other fields alongside any_of"
        if not all(
            isinstance(c, str | int | float) and not isinstance(c, bool) for c in each.get("enum", [])
        ):
            return f"{at}: enum may have texts and numbers"
        if each.get("format", "date") not in {"date", "date-time", "time"}:
            return f"{at}: only some formats are supported"
        if not set(each.get("required", [])) <= each.get("properties", {}).keys():
            return f"{at}.required: property is not defined"
        types = each.get("type")
        if "array" in (types if isinstance(types, list) else [types]) and "items" not in each:
            return f"{at}.items: missing field"
    return None if _META.is_valid(schema) else "invalid argument"


def xai(schema: Mapping[str, Any]) -> str | None:
    """SOURCES: docs.x.ai, "Structured outputs" (no circular references, one schema in `allOf`); openclaw
    commit 00347bda (lengths, numbers of items); vercel/ai#14678; duolahypercho/codex-router#219."""
    if schema.get("type") != "object" or schema.keys() & _UNIONS:
        return "tool parameter root must be an object type"
    for at, each in inner_schemas(schema):
        if isinstance(each, bool):
            if each is False or not at.endswith("additionalProperties"):
                return f"{at}: property schema '{each}' is not supported"
            continue
        refused = each.keys() & {
            *("minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains"),
            *("$ref", "allOf"),
        }
        if refused:
            return f"{at}: {min(refused)} is not supported"
        if re.search(r"\(\?<?[=!]", each.get("pattern", "")):
            return f"{at}: pattern"
    return None if _META.is_valid(schema) else "invalid"


JUDGES: Mapping[str, Judge] = {
    "anthropic": anthropic,
    "openai": openai,
    "llama.cpp": llama_cpp,
    "ollama": ollama,
    "gemini": gemini,
    "xai": xai,
}
