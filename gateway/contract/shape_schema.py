"""JSON Schema (2020-12) of the shapes and of their fields' types. Pure."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import attrs

from ...config.described.shape import about_of, without_none
from .declaration import SHAPES, Shape, fixed_type, is_optional

Schema: TypeAlias = dict[str, Any]

_PLAIN: Mapping[Any, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "minimum": 0},
    float: {"type": "number"},
    Any: {},
}


@cache
def components() -> Mapping[str, Schema]:
    """The schema of every shape, by name."""
    return {name: _shape(cls) for name, cls in SHAPES.items()}


def _shape(cls: type[Shape]) -> Schema:
    hints = get_type_hints(cls, include_extras=True)
    properties: Schema = {}
    if (word := fixed_type(cls)) is not None:
        properties["type"] = {"const": word}
    required = list(properties)
    for field in attrs.fields(cls):
        hint = hints[field.name]
        if is_optional(field):
            hint = without_none(hint)
        else:
            required.append(field.name)
        described = about_of(field)
        properties[field.name] = {"description": plain(described.text), **schema(hint), **described.schema}
    whole: Schema = {"description": plain(about_shape(cls)), "type": "object", "properties": properties}
    if required:
        whole["required"] = required
    return {**whole, **cls.SCHEMA}


def is_never_empty(cls: type[Shape]) -> bool:
    """Whether the object has at least one key."""
    return "minProperties" in cls.SCHEMA or not all(map(is_optional, attrs.fields(cls)))


def about_shape(cls: type[Shape]) -> str:
    """The docstring, each paragraph on one line."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(cls.__doc__ or ""))


def plain(text: str) -> str:
    """The text without links, which work only in the reference pages."""
    return re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text)


def schema(hint: Any) -> Schema:
    """The schema of a type; for a shape, a reference to its component."""
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return {**schema(arguments[0]), **arguments[1].schema}
    if origin is Literal:
        return {"type": "string", "enum": [*arguments]}
    if origin is Sequence:
        return {"type": "array", "items": schema(arguments[0])}
    if origin is Mapping:
        values = schema(arguments[1])
        return {"type": "object", "additionalProperties": values} if values else {"type": "object"}
    if origin in (Union, types.UnionType):
        return _union(arguments)
    if isinstance(hint, type) and issubclass(hint, Shape):
        return {"$ref": f"#/components/schemas/{hint.__name__}"}
    raise TypeError(f"no schema for the type {hint!r}")


def _union(members: tuple[Any, ...]) -> Schema:
    schemas = [schema(each) for each in members if each is not types.NoneType]
    if len(schemas) == len(members):
        return {"oneOf": schemas}
    [only] = schemas
    return {**only, "type": [only["type"], "null"]}
