"""Declaration of shapes, and the generated code that turns them into JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any, ClassVar, dataclass_transform

import attrs

from ...config.described import shape

SHAPES: dict[str, type[Shape]] = {}
"""Every shape by name, in order of declaration."""


class With:
    """Keywords for the schema of a type, as the annotation in `Annotated`."""

    def __init__(self, **schema: Any) -> None:
        self.schema = schema


def about(text: str, **schema: Any) -> Any:
    """A required field. `text` is its description; `schema` adds keywords to its schema."""
    return attrs.field(metadata=shape.about(text, schema=schema))


def maybe(text: str, **schema: Any) -> Any:
    """An optional field: absent from the JSON while it is None."""
    return shape.default(None, text, schema=schema)


def is_optional(field: attrs.Attribute[Any]) -> bool:
    return field.default is None


# Frozen for type checkers only, because freezing at run time doubles the time that it takes to make a shape.
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(about,))
class Shape:
    """An object of the contract. Its docstring describes it to clients, its fields are the keys in JSON.

    A class variable `type` becomes the first key, with that value. `SCHEMA` adds keywords to the schema. A
    class with an underscore before its name is only a base of others, and no shape of the contract.
    """

    SCHEMA: ClassVar[Mapping[str, Any]] = {}
    __attrs_attrs__: ClassVar[Any]

    def to_json(self) -> dict[str, Any]:
        """The object as JSON. Nested shapes stay shapes, because the encoder calls their `to_json`."""
        raise NotImplementedError

    def __init_subclass__(cls) -> None:
        # Without what takes long to make: slots would create a second class.
        attrs.define(cls, slots=False, kw_only=True, eq=False, repr=False)
        if not cls.__name__.startswith("_"):
            SHAPES[cls.__name__] = cls
        cls.to_json = _to_json(cls)  # type: ignore[method-assign]


def fixed_type(cls: type[Shape]) -> str | None:
    """The constant value of a shape's key `type`, if it has one."""
    value = getattr(cls, "type", None)
    return value if isinstance(value, str) else None


def _to_json(cls: type[Shape]) -> Any:
    """Generate a function that names every field. A loop over the fields would be several times slower."""
    fields = attrs.fields(cls)
    first = list(takewhile(lambda field: not is_optional(field), fields))
    items = [f"{field.name!r}: self.{field.name}" for field in first]
    if (type_ := fixed_type(cls)) is not None:
        items.insert(0, f"'type': {type_!r}")
    lines = [f"json = {{{', '.join(items)}}}"]
    for field in fields[len(first) :]:
        condition = f"if self.{field.name} is not None: " if is_optional(field) else ""
        lines.append(f"{condition}json[{field.name!r}] = self.{field.name}")
    source = "\n    ".join(["def to_json(self):", *lines, "return json"])
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    return namespace["to_json"]
