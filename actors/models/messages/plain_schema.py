"""The schema of a tool's arguments in the dialect of a provider. Pure.

`arguments/schema_repair.py` has made it valid; here it loses what the dialect does not accept. The rules:

1. The top is an object. What no provider accepts there is taken apart: the arguments that the alternatives
   declare are declared side by side; required are those that all alternatives require.
2. A keyword that means the same as an accepted one becomes that: `oneOf` becomes `anyOf`, `const` becomes
   `enum`, the parts of `allOf` are merged, `items: false` becomes `maxItems`.
3. What is left out then is told to the model in the description (`IN_WORDS`).
4. Every array has `items`, and every required property is declared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ...arguments.schema_repair import ANNOTATIONS, MAX_DEPTH, PARTS, fit_choices, joined, repaired, types_of
from .schema_dialects import NOT_AT_THE_TOP, PLAIN, SchemaDialect

IN_WORDS = "\n\nFurther rules for its arguments, as JSON Schema by place: "
MAX_RULE, MAX_RULES = 400, 1200
"""Characters of one rule, and of all rules, in a description."""
MAX_SCHEMAS = 3000
"""Schemas that one schema may have after its references were replaced."""
LONGEST_REPETITION = 50
"""In a grammar. The limits of llama.cpp depend on its version and multiply over the levels of a schema."""

_REFERENCE = "#/$defs/"
_ANY_TYPE = ["string", "number", "boolean", "object", "null"]
_ANY = {"type": [*_ANY_TYPE, "array"], "items": {"type": _ANY_TYPE}}
"""Any value, in so many words."""
_REPETITIONS = ("minLength", "maxLength", "minItems", "maxItems")
_DATA = ("const", "default", "enum", "example", "examples")
_LOWEST = ("minimum", "exclusiveMinimum", "minItems", "minLength", "minProperties", "minContains")
_HIGHEST = ("maximum", "exclusiveMaximum", "maxItems", "maxLength", "maxProperties", "maxContains")
_IN_GRAMMAR = ("type", "$ref", "anyOf", "enum", "const", "properties", "items", "prefixItems")
"""Keywords of which one at least must be there: without them, a version of llama.cpp means an object."""
_SIMPLE_NAME = re.compile("[A-Za-z0-9_]+")
_FORMATS = ("date", "date-time", "time")
"""The formats that Gemini documents."""

Schema: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str, ...]
"""The names of the references that led to a schema."""


def plain_schema(
    schema: Mapping[str, Any], description: str, dialect: SchemaDialect = PLAIN
) -> tuple[str, Mapping[str, Any]]:
    """Description and schema for a provider."""
    valid = repaired(schema)
    plain = _Plain(
        dialect, valid.schema.get("$defs", {}), {at: dict(lost) for at, lost in valid.lost.items()}
    )
    shown = plain.top(valid.schema)
    if not plain.lost:
        return description, shown
    # First the arguments that are not declared at all.
    rules = sorted(plain.lost.items(), key=lambda rule: "schema" not in rule[1])
    told = "; ".join(_cut(f"{at or 'all'}: {json.dumps(lost, default=str)}", MAX_RULE) for at, lost in rules)
    return f"{description}{IN_WORDS}{_cut(told, MAX_RULES)}", shown


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


class _Plain:
    def __init__(self, dialect: SchemaDialect, defs: Mapping[str, Schema], lost: dict[str, Schema]) -> None:
        self.dialect = dialect
        self.defs = defs
        self.lost = lost
        self.left = MAX_SCHEMAS

    def top(self, schema: Mapping[str, Any]) -> Schema:
        node, names = self._opened({k: part for k, part in schema.items() if k != "$defs"}, "", ())
        node, names = self._flat(*self._with_all_of(node, names, ""), "")
        for keyword in NOT_AT_THE_TOP:
            if keyword in node:
                self._lose("", keyword, node.pop(keyword))
        node = {"type": "object", "properties": {}, **node} | {"type": "object"}
        shown: Schema = self.node(node, "", names)
        shown.setdefault("properties", {})
        if self.dialect.references and self.defs:
            defs = {name: self.node(each, f"$defs.{name}", (name,)) for name, each in self.defs.items()}
            used = _used(shown, defs)
            if used:
                shown["$defs"] = {name: each for name, each in defs.items() if name in used}
        return shown

    def node(self, value: Any, at: str, names: Path, depth: int = 0) -> Any:
        """The schema at a place."""
        if isinstance(value, bool):
            return value
        self.left -= 1
        if depth > MAX_DEPTH:
            self._lose(at, "schema", value)
            return {}
        dialect, node = self.dialect, dict(value)
        before = None
        while node != before:  # what is put in place of a keyword may have others
            before = node
            if not dialect.references:
                node, names = self._opened(node, at, names)
            if dialect.lone_unions:
                node, names = self._lone_union(*self._with_all_of(node, names, at), at)
        if dialect.closed or dialect.only is not None:
            names = self._hoist(node, at, names)
        self._array(node)
        self._required(node, at)
        self._keywords(node, at)
        found = {name: self._inner(name, part, at, names, depth + 1) for name, part in node.items()}
        if found.get("additionalProperties") == {}:
            found["additionalProperties"] = True
        if dialect.grammar and at and not any(name in found for name in _IN_GRAMMAR):
            found |= _ANY
        return found

    def _inner(self, name: str, part: Any, at: str, names: Path, depth: int) -> Any:
        match name:
            case "properties":
                return {k: self.node(each, joined(at, k), names, depth) for k, each in part.items()}
            case "dependentSchemas" | "patternProperties":
                return {k: self.node(each, at or "[]", names, depth) for k, each in part.items()}
            case "anyOf" | "oneOf" | "allOf":
                return [self.node(each, at or "[]", names, depth) for each in part]
            case "prefixItems":
                return [self.node(each, joined(at, "[]"), names, depth) for each in part]
            case "items":
                return self.node(part, joined(at, "[]"), names, depth)
            case "additionalProperties" | "unevaluatedItems" | "unevaluatedProperties":
                return self.node(part, joined(at, "*"), names, depth)
            case "contains" | "contentSchema" | "else" | "if" | "not" | "propertyNames" | "then":
                return self.node(part, at or "[]", names, depth)
            case _:
                return part

    def _lose(self, at: str, name: str, part: Any) -> None:
        if name not in ANNOTATIONS:
            self.lost.setdefault(at, {})[name] = part

    # ---------------------------------------------------------------- references, unions and conditions

    def _opened(self, node: Schema, at: str, names: Path) -> tuple[Schema, Path]:
        """The schema with what it refers to in place of its reference."""
        while "$ref" in node:
            name = node["$ref"].removeprefix(_REFERENCE)
            rest = {keyword: part for keyword, part in node.items() if keyword != "$ref"}
            target = self.defs[name]
            if name in names or self.left < 0:
                self._lose(at, "$ref", node["$ref"])
                return {**({"type": target["type"]} if "type" in target else {}), **rest}, names
            node, names = self._merged(rest, target, at), (*names, name)
        return node, names

    def _with_all_of(self, node: Schema, names: Path, at: str) -> tuple[Schema, Path]:
        """The schema with the parts of `allOf` merged into it."""
        parts = node.get("allOf")
        if parts is None:
            return node, names
        node = {keyword: part for keyword, part in node.items() if keyword != "allOf"}
        if len(parts) == 1 and self.dialect.references and not node.keys() - ANNOTATIONS and at:
            return {**parts[0], **node}, names
        for part in parts:
            part, names = self._with_all_of(*self._opened(part, at, names), at)
            node = self._merged(node, part, at)
        return node, names

    def _lone_union(self, node: Schema, names: Path, at: str) -> tuple[Schema, Path]:
        if "oneOf" in node and "anyOf" not in node:
            node = {"anyOf" if keyword == "oneOf" else keyword: part for keyword, part in node.items()}
        if "oneOf" in node:
            self._lose(at, "oneOf", node.pop("oneOf"))
        beside = [keyword for keyword in node if keyword not in ANNOTATIONS and keyword != "anyOf"]
        if "anyOf" not in node or (not beside and len(node["anyOf"]) > 1):
            return node, names
        if "properties" in node:
            return self._flat(node, names, at)
        outer = {keyword: part for keyword, part in node.items() if keyword in ANNOTATIONS}
        common = {keyword: node[keyword] for keyword in beside}
        branches = []
        for each in node["anyOf"]:
            branch, inner = self._opened(each, at, names)
            branches.append(self._merged(branch, common, at))
            names = tuple(dict.fromkeys((*names, *inner)))
        if len(branches) == 1:
            return self._lone_union({**branches[0], **outer}, names, at)
        return {**outer, "anyOf": branches}, names

    def _flat(self, node: Schema, names: Path, at: str) -> tuple[Schema, Path]:
        """The schema with what its alternatives declare, instead of them."""
        for union in ("anyOf", "oneOf"):
            if union not in node:
                continue
            node = dict(node)
            given = node.pop(union)
            self._lose(at, union, [self.node(each, at or "[]", names) for each in given])
            branches, path = [], names
            for each in given:
                branch, inner = self._flat(*self._with_all_of(*self._opened(each, at, names), at), at)
                branches.append(branch)
                path = (*path, *inner)
            names = tuple(dict.fromkeys(path))
            objects = [branch for branch in branches if not types_of(branch) or "object" in types_of(branch)]
            properties = dict(node.get("properties", {}))
            found: dict[str, list[Schema]] = {}
            for branch in objects:
                for name, each in branch.get("properties", {}).items():
                    found.setdefault(name, []).append(each)
            for name, choices in found.items():
                if not properties.get(name):
                    properties[name] = _either(choices)
            common = set.intersection(*(set(branch.get("required", ())) for branch in objects or [{}]))
            required = list(dict.fromkeys([*node.get("required", []), *sorted(common)]))
            node["properties"] = properties
            if required:
                node["required"] = required
        return node, names

    def _hoist(self, node: Schema, at: str, names: Path) -> Path:
        """Declare what conditions declare, because a model could not write it otherwise."""
        conditional = [node[keyword] for keyword in ("then", "else") if keyword in node]
        conditional += node.get("dependentSchemas", {}).values()
        for each in conditional:
            opened, names = self._opened(each, at, names)
            if "properties" in opened:
                node["properties"] = {**opened["properties"], **node.get("properties", {})}
        return names

    def _merged(self, first: Mapping[str, Any], second: Mapping[str, Any], at: str) -> Schema:
        """A schema that requires both. What cannot be expressed of the second one is left out."""
        found = dict(first)
        for keyword, part in second.items():
            if keyword not in found:
                found[keyword] = part
                continue
            before = found[keyword]
            if before == part or keyword in ANNOTATIONS:
                continue
            if keyword == "properties":
                both = {k: self._merged(before[k], part[k], joined(at, k)) for k in before if k in part}
                found[keyword] = {**before, **part, **both}
            elif keyword == "required":
                found[keyword] = list(dict.fromkeys([*before, *part]))
            elif keyword in _LOWEST:
                found[keyword] = max(before, part)
            elif keyword in _HIGHEST:
                found[keyword] = min(before, part)
            elif keyword == "type" and (common := _common_types(before, part)):
                found[keyword] = common[0] if len(common) == 1 else common
            elif keyword == "enum" and (choices := [each for each in before if each in part]):
                found[keyword] = choices
            else:
                self._lose(at, keyword, part)
        return found

    # ------------------------------------------------------------------------------------ single keywords

    def _array(self, node: Schema) -> None:
        types, first = types_of(node), node.get("prefixItems", [])
        if node.get("items") is False:
            node["maxItems"] = min(len(first), node.get("maxItems", len(first)))
            del node["items"]
        if node.get("items") is True:
            node["items"] = {}
        if "array" not in types and not first:
            return
        if self.dialect.grammar and first:
            # The grammar has one schema for all items.
            rest = [node["items"]] if node.get("items") else []
            node["items"] = _either([*first, *rest])
        node.setdefault("items", {})

    def _required(self, node: Schema, at: str) -> None:
        """Leave out the properties that the dialect cannot name, and declare the other required ones."""
        properties = node.get("properties")
        if not isinstance(properties, dict):
            return
        taken = {name: part for name, part in properties.items() if self._is_name(name, at)}
        for name in properties.keys() - taken.keys():
            self._lose(joined(at, name), "schema", properties[name])
        required = [name for name in node.pop("required", []) if self._is_name(name, at)]
        if node.get("additionalProperties", True) is not False:
            taken |= {name: {} for name in required if name not in taken}
        node["properties"] = taken
        if required := [name for name in required if name in taken]:
            node["required"] = required

    def _is_name(self, name: str, at: str) -> bool:
        form = None if at else self.dialect.names
        return name not in self.dialect.not_names and (form is None or form.fullmatch(name) is not None)

    def _keywords(self, node: Schema, at: str) -> None:
        """Translate or leave out the keywords that the dialect does not accept. Changes the node."""
        dialect = self.dialect
        if dialect.only is not None and "const" in node:
            node.setdefault("enum", [node.pop("const")])
        fit_choices(node)
        if dialect.only is not None:
            self._translate(node, at)
        for name in list(node):
            part = node[name]
            refused = name in dialect.left_out or (dialect.only is not None and name not in dialect.only)
            refused |= isinstance(part, tuple)
            if name == "pattern":
                refused |= not _is_sent(part, dialect)
            elif name == "patternProperties" and dialect.patterns != "any":
                node[name] = {k: each for k, each in part.items() if _is_sent(k, dialect)}
                refused |= node[name] != part
            elif dialect.grammar:
                refused |= name in _REPETITIONS and part > LONGEST_REPETITION
                refused |= (name in _DATA or name not in PARTS) and _mentions_keywords(part)
                refused |= name == "additionalProperties" and not all(
                    map(_SIMPLE_NAME.fullmatch, node.get("properties", {}))
                )
                refused |= name in (*_LOWEST[:2], *_HIGHEST[:2]) and not _is_range(node)
            if name == "additionalProperties" and part is False and dialect.no_false:
                del node[name]
            elif refused:
                self._lose(at, name, part)
                del node[name]

    def _translate(self, node: Schema, at: str) -> None:
        """For a list of keywords without exclusive limits, and choices of texts and numbers."""
        for exclusive, limit, step in (
            ("exclusiveMinimum", "minimum", 1),
            ("exclusiveMaximum", "maximum", -1),
        ):
            if exclusive in node and limit not in node:
                value = node[exclusive]
                if node.get("type") == "integer" and isinstance(value, int):
                    node[limit] = node.pop(exclusive) + step
                else:
                    node[limit] = value
        choices = node.get("enum", [])
        plain = [each for each in choices if _is_text_or_number(each)]
        if plain and None in choices and len(plain) == len(choices) - 1 and "anyOf" not in node:
            types = sorted(types_of(node) - {"null"}) or sorted({_type_name(each) for each in plain})
            rest = {name: node.pop(name) for name in list(node) if name not in ANNOTATIONS}
            rest |= {"type": types[0] if len(types) == 1 else types, "enum": plain}
            node["anyOf"] = [rest, {"type": "null"}]
        elif isinstance(choices, list) and len(plain) < len(choices):
            self._lose(at, "enum", node.pop("enum"))
            node.setdefault("type", sorted({_type_name(each) for each in choices}))
        if "format" in node and node["format"] not in _FORMATS:
            self._lose(at, "format", node.pop("format"))


# ------------------------------------------------------------------------------------------------- helpers


def _either(choices: Sequence[Any]) -> Schema:
    """A schema for what one of the schemas accepts."""
    distinct = [each for n, each in enumerate(choices) if each not in choices[:n]]
    if len(distinct) == 1:
        return dict(distinct[0])
    constants = [
        each["enum"] if "enum" in each else [each["const"]]
        for each in distinct
        if each.keys() & {"enum", "const"}
    ]
    if len(constants) == len(distinct) and len({json.dumps(each.get("type")) for each in distinct}) == 1:
        merged = {key: part for key, part in distinct[0].items() if key not in ("const", "enum")}
        texts = {json.dumps(value, sort_keys=True): value for values in constants for value in values}
        return {**merged, "enum": list(texts.values())}
    return {"anyOf": distinct}


def _common_types(first: Any, second: Any) -> list[str]:
    one, other = types_of({"type": first}), types_of({"type": second})
    found = one & other
    for a, b in ((one, other), (other, one)):
        if "integer" in a and "number" in b:
            found |= {"integer"}
    if "number" in found:
        found -= {"integer"}
    return sorted(found)


def _is_sent(pattern: str, dialect: SchemaDialect) -> bool:
    if dialect.patterns == "any":
        return True
    if dialect.patterns == "none" or re.search(r"\(\?<?[=!]", pattern):
        return False
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _is_range(node: Mapping[str, Any]) -> bool:
    """Whether a grammar for the limits of a number exists."""
    lowest = [node[name] for name in _LOWEST[:2] if name in node]
    highest = [node[name] for name in _HIGHEST[:2] if name in node]
    fit = all(abs(value) < 2**62 for value in (*lowest, *highest))
    return fit and (
        not lowest or not highest or max(lowest) + 1 < min(highest) or max(lowest) == min(highest)
    )


def _mentions_keywords(data: Any) -> bool:
    """Whether data has a member that llama.cpp reads as a reference or definitions."""
    todo = [data]
    while todo:
        match todo.pop():
            case Mapping() as each:
                if each.keys() & {"$ref", "$defs"}:
                    return True
                todo += each.values()
            case list() as each:
                todo += each
    return False


def _used(shown: Any, defs: Mapping[str, Any]) -> set[str]:
    """The names of the definitions that are referred to."""
    used: set[str] = set()
    todo = [shown]
    while todo:
        match todo.pop():
            case Mapping() as each:
                name = str(each.get("$ref", "")).removeprefix(_REFERENCE)
                if name in defs and name not in used:
                    used.add(name)
                    todo.append(defs[name])
                todo += each.values()
            case list() as each:
                todo += each
    return used


def _is_text_or_number(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _type_name(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case Mapping():
            return "object"
        case _:
            return "array"
