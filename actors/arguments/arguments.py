"""Coercion and validation of the arguments of calls, before the gate judges them.

Models write ``"5"`` for 5, 5 for ``"5"``, ``"[1]"`` for ``[1]``, and null for what they leave out. Where the
schema requires

* a string, a number or boolean becomes a string;
* a number or boolean, a string that is exactly one becomes that;
* a list or an object, a string that is the JSON text of one becomes that;
* anything but null, and the argument is optional, null is left out.

Valid values and all other values are not changed. People and rules see the result, because it is sent.
"""

from __future__ import annotations

import logging
import math
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import attrs

from ...runtime.json_text import load_provider
from ..tools.tool import Tool
from .json_schema import MAX_MISTAKE, Checker, Uncheckable
from .schema_check import Unfinished, find_mistakes
from .schema_repair import joined

MAX_HOPS = 16
"""Maximum length of a chain of references."""
MAX_DIGITS = 400
"""Maximum length of a string that is converted to a number, in characters."""

_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]{1,4})?")
_ONLY_PARSED = frozenset({"array", "object", "null"})
"""Types of which a string can only be the JSON text."""
_BOOLEANS = {"true": True, "True": True, "false": False, "False": False}


def coerce(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments converted to the types of the schema, where these are unambiguous."""
    try:
        brought = _Schema(schema).bring(arguments, schema)
    except RecursionError:
        return arguments
    return brought if isinstance(brought, Mapping) else arguments


def types_at(schema: Mapping[str, Any], path: str) -> frozenset[str] | None:
    """Return the types that the schema allows at a dotted path; None if it does not say or is nested too
    deep. Names may contain dots."""
    try:
        types = list(map(_types, _Schema(schema).at(schema, path, set())))
    except RecursionError:
        return None
    return frozenset().union(*types) if types and all(types) else None


@attrs.frozen
class _Schema:
    root: Mapping[str, Any]

    def at(self, schema: Any, path: str, seen: set[tuple[int, str]]) -> Iterator[Mapping[str, Any]]:
        """Yield the alternative schemas for the value at the path. `seen` bounds the work."""
        target = self._target(schema)
        if (id(target), path) in seen:
            return
        seen.add((id(target), path))
        branches = self._branches(target)
        if branches != [target]:
            for branch in branches:
                yield from self.at(branch, path, seen)
        elif not path:
            yield target
        else:
            steps = path.split(".")
            for length in range(1, len(steps) + 1):
                inner = self._named(target, ".".join(steps[:length]))
                if inner is not None:
                    yield from self.at(inner, ".".join(steps[length:]), seen)

    def _named(self, schema: Mapping[str, Any], name: str) -> Any:
        """Return the schema of a property or, for a number, of an item; None if there is none."""
        known, first, rest = (schema.get(key) for key in ("properties", "prefixItems", "items"))
        if isinstance(known, Mapping) and name in known:
            return known[name]
        if not (name.isascii() and name.isdigit()) or (first is None and rest is None):
            return schema.get("additionalProperties")
        index = int(name[:9])
        return first[index] if isinstance(first, list) and index < len(first) else rest

    def bring(self, value: Any, schema: Any) -> Any:
        branches = self._branches(schema)
        wanted = [_types(branch) for branch in branches]
        kinds = _kinds(value)
        fitting = [each for each, types in zip(branches, wanted, strict=True) if not types or types & kinds]
        if fitting:
            return self._inside(value, fitting[0]) if len(fitting) == 1 else value
        types = frozenset().union(*wanted)
        if isinstance(value, str) and types <= _ONLY_PARSED:
            parsed = _parsed(value)
            return self.bring(parsed, schema) if _kinds(parsed) & types else value
        return _converted(value, types)

    def _branches(self, schema: Any) -> list[Mapping[str, Any]]:
        """Return the alternatives of a schema, or the schema itself if it has a type."""
        target = self._target(schema)
        only = target.get("allOf")
        if "type" not in target and isinstance(only, list) and len(only) == 1:
            target = self._target(only[0])  # a model of Pydantic 1 with a description
        alternatives = target.get("anyOf", target.get("oneOf"))
        if "type" in target or not isinstance(alternatives, list):
            return [target]
        return [self._target(each) for each in alternatives]

    def _target(self, schema: Any) -> Mapping[str, Any]:
        """Resolve references within this document. Return an empty schema if that fails."""
        for _ in range(MAX_HOPS):
            if not isinstance(schema, Mapping):
                break
            reference = schema.get("$ref")
            if reference is None:
                return schema
            schema = self._look_up(reference)
        return {}

    def _look_up(self, reference: object) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        found: Any = self.root
        for part in reference.split("/")[1:]:
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        return found

    def _inside(self, value: Any, schema: Mapping[str, Any]) -> Any:
        if isinstance(value, Mapping):
            known = schema.get("properties")
            known = known if isinstance(known, Mapping) else {}
            required = schema.get("required")
            other = schema.get("additionalProperties")
            return {
                name: self.bring(each, known.get(name, other))
                for name, each in value.items()
                if not (each is None and name in known and self._is_left_out(name, known[name], required))
            }
        if isinstance(value, list):
            first = schema.get("prefixItems")
            first = first if isinstance(first, list) else []
            rest = schema.get("items")
            return [self.bring(each, first[n] if n < len(first) else rest) for n, each in enumerate(value)]
        return value

    def _is_left_out(self, name: str, schema: Any, required: object) -> bool:
        """Whether null for this property can only mean that it is left out."""
        is_optional = not isinstance(required, list) or name not in required
        return is_optional and not any(map(_may_be_null, self._branches(schema)))


def _types(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the types that the schema allows; empty if it does not say."""
    said = schema.get("type")
    match said:
        case str():
            return frozenset({said})
        case list():
            return frozenset(each for each in said if isinstance(each, str))
        case _:
            return frozenset()


def _may_be_null(schema: Mapping[str, Any]) -> bool:
    listed = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(listed, list) and None not in listed:
        return False
    types = _types(schema)
    return not types or "null" in types or schema.get("nullable") is True


def _kinds(value: Any) -> frozenset[str]:
    """Return the JSON types of a value."""
    match value:
        case None:
            return frozenset({"null"})
        case bool():
            return frozenset({"boolean"})
        case int():
            return frozenset({"integer", "number"})
        case float():
            return frozenset({"integer", "number"}) if value.is_integer() else frozenset({"number"})
        case str():
            return frozenset({"string"})
        case Mapping():
            return frozenset({"object"})
        case _:
            return frozenset({"array"})


def _converted(value: Any, types: frozenset[str]) -> Any:
    match value:
        case bool() if "string" in types:
            return "true" if value else "false"
        case int() if "string" in types:
            return str(value) if abs(value) < 10**MAX_DIGITS else value
        case float() if "string" in types and math.isfinite(value):
            return f"{value:.0f}" if value.is_integer() else repr(value)
        case str() if "boolean" in types and value in _BOOLEANS:
            return _BOOLEANS[value]
        case str() if len(value) <= MAX_DIGITS:
            return _number(value, types)
        case _:
            return value


def _parsed(text: str) -> Any:
    """The value of a JSON text; the text itself if it is none."""
    try:
        return load_provider(text)
    except ValueError:
        return text


def _number(text: str, types: frozenset[str]) -> Any:
    if types & {"integer", "number"} and _INTEGER.fullmatch(text):
        return int(text)
    if "number" in types and _NUMBER.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) else text
    return text


# ----------------------------------------------------------------- a call's arguments

log = logging.getLogger("stopgo.tools")

KEPT = 1000
"""Maximum number of tools with a prepared schema."""


@attrs.frozen
class Unfit:
    """Arguments that do not match the schema of the tool, or that cannot be checked."""

    mistakes: tuple[str, ...]
    """The mistakes, each with its position."""


@attrs.define
class _Ready:
    """The prepared schema of one tool."""

    checker: Checker | None = None
    """None if its schema cannot be applied."""
    empty_fits: bool = False
    """Whether a call without arguments is known to be valid, so that it need not be checked again."""


@attrs.define(eq=False)
class CheckedArguments:
    """Checks the arguments of an agent's calls.

    1. Arguments that cannot be checked are refused: a model chooses them, and could choose such that exceed
       the time or the depth of a check. The next arguments of the tool are checked as before.
    2. If the schema cannot be applied even to empty arguments, it is the schema that is broken. Its server
       could as well have sent none: all arguments pass, and the server checks them itself.
    """

    _kept: OrderedDict[str, _Ready] = attrs.field(factory=OrderedDict)
    """The prepared schemas by fingerprint of the tool, most recently used last."""

    async def fit(self, tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any] | Unfit:
        """Return the arguments to use from now on, or `Unfit`."""
        ready = self._kept.get(tool.fingerprint) or self._prepare(tool)
        self._kept.move_to_end(tool.fingerprint)
        if ready.checker is None or (ready.empty_fits and not arguments):
            return arguments
        try:
            mistakes = await find_mistakes(arguments, ready.checker)
            if mistakes and (brought := coerce(arguments, ready.checker.schema)) != arguments:
                arguments, mistakes = brought, await find_mistakes(brought, ready.checker)
        except Uncheckable as error:
            if isinstance(error, Unfinished) or await _is_applicable(ready.checker):
                return Unfit((f"they cannot be checked against the schema of the tool: {error}",))
            ready.checker = None
            _warn(tool, error)
            return arguments
        if mistakes:
            return Unfit(tuple(mistakes))
        ready.empty_fits = ready.empty_fits or not arguments
        return arguments

    def _prepare(self, tool: Tool) -> _Ready:
        ready = self._kept[tool.fingerprint] = _Ready()
        try:
            ready.checker = Checker(tool.input_schema)
            if ready.checker.lost:
                log.warning(
                    'parts of the schema of tool "%s" of server "%s" are invalid and are not checked: %s',
                    tool.name,
                    tool.server,
                    ", ".join(joined(at, name) for at, lost in ready.checker.lost.items() for name in lost)[
                        :MAX_MISTAKE
                    ],
                )
        except Uncheckable as error:
            _warn(tool, error)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return ready


async def _is_applicable(checker: Checker) -> bool:
    """Whether the schema can be applied to empty arguments."""
    try:
        await find_mistakes({}, checker)
    except Unfinished:
        return True
    except Uncheckable:
        return False
    return True


def _warn(tool: Tool, error: Uncheckable) -> None:
    log.warning(
        'arguments of tool "%s" of server "%s" are not checked, because its schema cannot be applied: %s',
        tool.name,
        tool.server,
        error,
    )
