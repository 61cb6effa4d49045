"""The schema of a tool, brought into JSON Schema 2020-12. Pure.

Servers send schemas of any draft, of OpenAPI, and with slips of their generators, and one odd keyword must
not hide a tool. The rules:

1. A keyword of an older draft, or of OpenAPI, becomes its successor: a list under `items` becomes
   `prefixItems`, a boolean `exclusiveMinimum` a number, `nullable` a type, `dependencies` two keywords, a
   boolean `required` of a property an entry in the `required` of its object.
2. A keyword that is null counts as absent, except where null is data (`const`, `default`).
3. Each `$ref` becomes `#/$defs/NAME`, whatever it was: a path through the document, an anchor, an id, a name
   in the `$defs` of an inner schema. A reference that leads nowhere is left out; none is ever fetched.
4. A keyword whose value is still invalid is left out, and `lost` has it. The rest of the schema stays.

Sources: the meta-schema of https://json-schema.org/draft/2020-12/schema, and for the older keywords the
release notes on https://json-schema.org/draft/2020-12/release-notes and of the drafts before it. Read on
2026-11-28.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import unquote

import attrs
import regex

from ...runtime.json_text import load

T = TypeVar("T")

MAX_DEPTH = 64
"""Levels of a schema. Deeper ones accept no value, so that no rule is lost by being deep."""
ANNOTATIONS = frozenset(
    [
        "$comment",
        "default",
        "deprecated",
        "description",
        "example",
        "examples",
        "readOnly",
        "title",
        "writeOnly",
    ]
)
_COMBINED = ("$ref", "allOf", "anyOf", "oneOf", "not", "if")
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_WORDS: Mapping[str, str | None] = {
    **dict.fromkeys(["int", "int32", "int64", "long", "bigint"], "integer"),
    **dict.fromkeys(["float", "float32", "float64", "double", "decimal", "numeric"], "number"),
    **dict.fromkeys(
        ["str", "text", "char", "date", "datetime", "date-time", "uuid", "uri", "url", "file", "bytes"],
        "string",
    ),
    **dict.fromkeys(["dict", "dictionary", "map", "record", "struct"], "object"),
    **dict.fromkeys(["list", "tuple", "set"], "array"),
    **dict.fromkeys(["none", "nil", "undefined"], "null"),
    **dict.fromkeys(["bool"], "boolean"),
    **dict.fromkeys(["any", "unknown", "mixed", "*", ""], None),
}
"""What servers write for a type, in lower case; None: any type."""
_IDENTITY = frozenset(
    [
        "$anchor",
        "$dynamicAnchor",
        "$id",
        "$recursiveAnchor",
        "$schema",
        "$vocabulary",
        "id",
        "$defs",
        "definitions",
    ]
)
"""Left out, because the references no longer need them and the draft is known."""
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


@attrs.frozen
class Repaired:
    """A schema that is valid, and what it lacks of the original."""

    schema: Mapping[str, Any]
    lost: Mapping[str, Mapping[str, Any]]
    """The keywords that were left out, by the place of their schema, which is a dotted path of properties."""


class _Invalid(Exception):
    """The value does not fit its keyword."""


def repaired(schema: Mapping[str, Any], written: Callable[[str], str] = str) -> Repaired:
    """The schema in JSON Schema 2020-12. A valid schema without references keeps its meaning exactly.

    `written` gives the expressions for names of properties in another dialect.
    """
    repair = _Repair(schema, written)
    found = repair.node(schema, "", 0)
    while repair.pending:
        name, target = repair.pending.pop()
        repair.defs[name] = repair.node(target, f"$defs.{name}", 0)
    if repair.defs:
        found["$defs"] = {name: repair.defs[name] for name in repair.names.values()}
    return Repaired(found, repair.lost)


# --------------------------------------------------------------------- older keywords, one schema at a time


def _modern(node: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of one schema as 2020-12 spells them. Inner schemas are not touched."""
    found = {
        name: part
        for name, part in node.items()
        if name not in _IDENTITY
        and (part is not None or name in ("const", "default") or name not in PARTS)
        and not (name == "required" and isinstance(part, bool))
    }
    for old, new in (("divisibleBy", "multipleOf"), ("extends", "allOf")):
        if old in found:
            part = found.pop(old)
            found.setdefault(new, [part] if new == "allOf" and isinstance(part, Mapping) else part)
    _tuple(found)
    _dependencies(found)
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(found.get(exclusive), bool) and found.pop(exclusive) and limit in found:
            found[exclusive] = found.pop(limit)
    if "type" in found:
        _type(found)
    names = found.get("required")
    if isinstance(names, str | list):
        names = [names] if isinstance(names, str) else names
        found["required"] = list(dict.fromkeys(name for name in names if isinstance(name, str)))
    nullable = found.pop("nullable", None)
    fit_choices(found)
    return _or_null(found) if nullable is True else found


def _tuple(node: dict[str, Any]) -> None:
    rest = node.pop("additionalItems", None)
    items = node.get("items")
    if isinstance(items, list):
        del node["items"]
        if items:
            node.setdefault("prefixItems", items)
            if rest is not None:
                node["items"] = rest
    if node.get("prefixItems") == []:
        del node["prefixItems"]


def _dependencies(node: dict[str, Any]) -> None:
    given = node.pop("dependencies", None)
    for name, needs in given.items() if isinstance(given, Mapping) else ():
        if isinstance(needs, str):
            needs = [needs]
        keyword = "dependentRequired" if isinstance(needs, list) else "dependentSchemas"
        before = node.get(keyword)
        node[keyword] = {name: needs, **(before if isinstance(before, Mapping) else {})}


def _type(node: dict[str, Any]) -> None:
    given = node["type"]
    words = given if isinstance(given, list) else [given]
    if words and any(isinstance(word, Mapping) for word in words):  # the union types of draft-03
        del node["type"]
        node.setdefault("anyOf", [{"type": word} if isinstance(word, str) else word for word in words])
        return
    if not all(isinstance(word, str) for word in words):
        return
    types = dict.fromkeys(_type_of(word) for word in words)
    if None in types or (not types and isinstance(given, list)):
        del node["type"]
    else:
        node["type"] = list(types) if isinstance(given, list) else next(iter(types))


def _type_of(word: str) -> str | None:
    plain = word.strip().lower()
    return _WORDS.get(plain, plain)


def fit_choices(node: dict[str, Any]) -> None:
    """Bring the choices to the type of their schema, since OpenAI refuses choices of another type. If none
    fits, `enum` becomes a tuple, which no check accepts."""
    given, types = node.get("enum"), types_of(node)
    if not isinstance(given, list):
        return
    choices: dict[str, Any] = {}
    for choice in given:
        choice = choice if not types or _has_type(choice, types) else _as(choice, types)
        if not types or _has_type(choice, types):
            choices.setdefault(json.dumps(choice, sort_keys=True, default=str), choice)
    node["enum"] = list(choices.values()) or tuple(given)


def _as(choice: Any, types: frozenset[str]) -> Any:
    if "string" in types and isinstance(choice, bool | int | float):
        return json.dumps(choice)
    if types & {"boolean", "integer", "number"} and isinstance(choice, str):
        try:
            return load(choice)
        except ValueError:
            pass
    return choice


def _or_null(node: dict[str, Any]) -> dict[str, Any]:
    """The schema that also accepts null."""
    if any(name in node for name in _COMBINED):
        outer = {name: part for name, part in node.items() if name in ANNOTATIONS}
        inner = {name: part for name, part in node.items() if name not in ANNOTATIONS}
        return {**outer, "anyOf": [inner, {"type": "null"}]}
    types = node.get("type")
    if isinstance(types, str | list):
        types = [types] if isinstance(types, str) else types
        node["type"] = types if "null" in types else [*types, "null"]
    if "const" in node:
        node["enum"] = [node.pop("const")]
    if isinstance(node.get("enum"), list) and None not in node["enum"]:
        node["enum"] = [*node["enum"], None]
    return node


def types_of(node: Mapping[str, Any]) -> frozenset[str]:
    """The types that a schema names itself; empty if it names none."""
    types = node.get("type")
    names = [types] if isinstance(types, str) else types
    return (
        frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()
    )


def _has_type(value: Any, types: frozenset[str]) -> bool:
    match value:
        case None:
            return "null" in types
        case bool():
            return "boolean" in types
        case int():
            return bool(types & {"integer", "number"})
        case float():
            return "number" in types or ("integer" in types and value.is_integer())
        case str():
            return "string" in types
        case Mapping():
            return "object" in types
        case _:
            return "array" in types


# ------------------------------------------------------------------------------------------ whole schemas


class _Repair:
    def __init__(self, root: Mapping[str, Any], written: Callable[[str], str]) -> None:
        self.root = root
        self.written = written
        self.lost: dict[str, dict[str, Any]] = {}
        self.defs: dict[str, dict[str, Any]] = {}
        self.names: dict[int, str] = {}
        """The name of each target of a reference, by its identity."""
        self.pending: list[tuple[str, Mapping[str, Any]]] = []
        self._places: Mapping[str, Any] | None = None

    def node(self, value: Any, at: str, depth: int) -> dict[str, Any]:
        """The valid schema for a value in the place of a schema."""
        match value:
            case None | True:
                return {}
            case False:
                return {"not": {}}
            case str() if _type_of(value) in _TYPES:
                return {"type": _type_of(value)}
            case Mapping() if depth < MAX_DEPTH:
                return self._mapping(value, at, depth)
            case Mapping():
                self._lose(at, "schema", value)
                return {"not": {}}
            case _:
                self._lose(at, "schema", value)
                return {}

    def _mapping(self, value: Mapping[str, Any], at: str, depth: int) -> dict[str, Any]:
        node = _modern(value)
        found: dict[str, Any] = {}
        for name, part in node.items():
            if name in _REFERENCES:
                found |= self._reference(part, at)
            elif name == "properties":
                found[name] = self._properties(part, at, depth)
            elif name in _INNER:
                self._inner(found, name, part, at, depth)
            elif name not in PARTS or PARTS[name](part):
                found[name] = part
            else:
                self._lose(at, name, part)
        names = found.get("required", [])
        asked = [*names, *_own_required(node.get("properties"))]
        if len(asked) > len(names):
            found["required"] = list(dict.fromkeys(asked))
        return found

    def _properties(self, value: Any, at: str, depth: int) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            if value:
                self._lose(at, "properties", value)
            return {}
        return {name: self.node(part, joined(at, str(name)), depth + 1) for name, part in value.items()}

    def _inner(self, found: dict[str, Any], name: str, part: Any, at: str, depth: int) -> None:
        place = joined(at, "[]") if name in ("items", "prefixItems") else at
        form = _INNER[name]
        try:
            found[name] = form(self, part, place, depth + 1)
        except _Invalid:
            self._lose(at, name, part)

    def schema_or_false(self, part: Any, at: str, depth: int) -> Any:
        return part if isinstance(part, bool) else self.node(part, at, depth)

    def schemas(self, part: Any, at: str, depth: int) -> list[Any]:
        if not isinstance(part, list) or not part:
            raise _Invalid
        return [self.node(each, at, depth) for each in part]

    def named_schemas(self, part: Any, at: str, depth: int) -> dict[str, Any]:
        if not isinstance(part, Mapping):
            raise _Invalid
        return {name: self.node(each, at, depth) for name, each in part.items()}

    def schemas_by_pattern(self, part: Any, at: str, depth: int) -> dict[str, Any]:
        found = self.named_schemas(part, at, depth)
        wrong = [name for name in found if not _is_pattern(name)]
        for name in wrong:
            self._lose(at, "patternProperties", {name: found.pop(name)})
        return {self.written(name): each for name, each in found.items()}

    def _lose(self, at: str, name: str, part: Any) -> None:
        if name not in ANNOTATIONS:
            self.lost.setdefault(at, {})[name] = part

    # ------------------------------------------------------------------------------------ references

    def _reference(self, reference: Any, at: str) -> dict[str, Any]:
        target = self._target(reference)
        if target is True:
            return {}
        if target is False:
            return {"not": {}}
        if not isinstance(target, Mapping):
            self._lose(at, "$ref", reference)
            return {}
        name = self.names.get(id(target))
        if name is None:
            name = self._new_name(str(reference))
            self.names[id(target)] = name
            self.pending.append((name, target))
        return {"$ref": f"#/$defs/{name}"}

    def _new_name(self, reference: str) -> str:
        last = unquote(reference.rstrip("/#").rpartition("/")[2])
        plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", last).strip("_") or "root"
        taken, name, number = set(self.names.values()), plain, 1
        while name in taken:
            number += 1
            name = f"{plain}_{number}"
        return name

    def _target(self, reference: Any) -> Any:
        """What a reference leads to at last; None: nothing, or only back to itself."""
        seen: set[int] = set()
        while isinstance(reference, str):
            target = self._look_up(reference)
            if not (isinstance(target, Mapping) and target.keys() - _IDENTITY == {"$ref"}):
                return target
            if id(target) in seen:
                return None
            seen.add(id(target))
            reference = target["$ref"]
        return None

    def _look_up(self, reference: str) -> Any:
        base, _, fragment = reference.partition("#")
        start: Any = self.root if not base else self._named(base)
        if start is None:
            return None
        if not fragment:
            return start
        if not fragment.startswith("/"):
            return self._named(f"#{fragment}")
        parts = [unquote(part).replace("~1", "/").replace("~0", "~") for part in fragment.split("/")[1:]]
        found = _follow(start, parts)
        if found is None and parts[0] in ("$defs", "definitions"):
            # Two slips of generators: the other keyword, and `$defs` that stayed in an inner schema.
            other = {"$defs": "definitions", "definitions": "$defs"}[parts[0]]
            found = _follow(start, [other, *parts[1:]])
            if found is None and len(parts) > 1:
                found = _follow(self._named(f"$defs {parts[1]}"), parts[2:])
        return found

    def _named(self, name: str) -> Any:
        """The schema with an id or anchor, or in `$defs` anywhere."""
        if self._places is None:
            self._places = dict(_places(self.root))
        return self._places.get(name)


def _follow(value: Any, parts: list[str]) -> Any:
    for part in parts:
        match value:
            case Mapping():
                value = value.get(part)
            case list() if part.isascii() and part.isdigit() and int(part[:9]) < len(value):
                value = value[int(part[:9])]
            case _:
                return None
    return value


def _places(root: Any) -> Iterator[tuple[str, Any]]:
    todo: list[Any] = [root]
    found: list[tuple[str, Any]] = []
    while todo:
        value = todo.pop()
        if isinstance(value, list):
            todo += value
        elif isinstance(value, Mapping):
            todo += value.values()
            for keyword in ("$id", "id"):
                if isinstance(value.get(keyword), str):
                    found.append((value[keyword].removesuffix("#"), value))
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(value.get(keyword), str):
                    found.append((f"#{value[keyword]}", value))
            for keyword in ("$defs", "definitions"):
                if isinstance(value.get(keyword), Mapping):
                    found += [(f"$defs {name}", each) for name, each in value[keyword].items()]
    return iter(found[::-1])


def _own_required(properties: Any) -> list[str]:
    """The properties that say of themselves that they are required, as in draft-03."""
    if not isinstance(properties, Mapping):
        return []
    return [
        str(name)
        for name, each in properties.items()
        if isinstance(each, Mapping) and each.get("required") is True
    ]


def joined(at: str, name: str) -> str:
    """The place of an inner schema."""
    return f"{at}.{name}" if at else name or '""'


# ------------------------------------------------------------------------------- the keywords of 2020-12


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool)


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


def _is_pattern(value: Any) -> bool:
    try:
        return isinstance(value, str) and regex.compile(value) is not None
    except (regex.error, RecursionError, OverflowError):
        return False


def _each(keywords: str, treatment: T) -> dict[str, T]:
    return dict.fromkeys(keywords.split(), treatment)


_INNER: Mapping[str, Callable[[_Repair, Any, str, int], Any]] = {
    **_each("allOf anyOf oneOf prefixItems", _Repair.schemas),
    **_each("contains contentSchema else if not propertyNames then", _Repair.node),
    **_each("additionalProperties items", _Repair.schema_or_false),
    **_each("unevaluatedItems unevaluatedProperties", _Repair.schema_or_false),
    "dependentSchemas": _Repair.named_schemas,
    "patternProperties": _Repair.schemas_by_pattern,
}
"""The keywords with schemas, except `properties`."""

PARTS: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys([*_INNER, "properties", *_REFERENCES, "const", "default"], lambda value: True),
    **_each("exclusiveMaximum exclusiveMinimum maximum minimum", _is_number),
    **_each("maxContains maxItems maxLength maxProperties", _is_count),
    **_each("minContains minItems minLength minProperties", _is_count),
    **_each("deprecated readOnly uniqueItems writeOnly", _is_switch),
    **_each("$comment contentEncoding contentMediaType description format title", _is_text),
    **_each("additionalItems dependencies divisibleBy extends nullable", lambda value: True),
    **_each("enum examples", lambda value: isinstance(value, list) and bool(value)),
    "dependentRequired": lambda value: isinstance(value, Mapping) and all(map(_are_names, value.values())),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "pattern": _is_pattern,
    "required": _are_names,
    "type": _is_type,
}
"""The keywords, each with the check of its value. `_modern` has removed those of older drafts."""
