"""The generated parts of the reference: `make reference` writes them, `test_reference` compares them.

In a page, such a part stands between `<!-- generated: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from stopgo.gateway.openapi import document
from stopgo.gateway.operations import OPERATIONS
from stopgo.gateway.wire.declaration import SHAPES, Shape, is_optional, meaning
from stopgo.gateway.wire.frame_shapes import Frame
from stopgo.gateway.wire.shape_schema import about_shape, components, schema
from tests import python_reference

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
PAGES = ("http-api.md", "events.md", "python.md")
PART = re.compile(r"(?<=<!-- generated: )(\w+) -->\n.*?(?=<!-- end -->)", re.DOTALL)

WORDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}
COMPONENTS = components()


def generated(page: str) -> str:
    """The page with its generated parts as they follow from the code."""
    return PART.sub(lambda part: f"{part[1]} -->\n\n{PARTS[part[1]]}\n", page)


def table(head: str, rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(cells)} |\n" for cells in rows]
    return f"{head}\n|{'---|' * (head.count('|') - 1)}\n" + "".join(lines)


def kind(of: Mapping[str, Any]) -> str:
    """What a field holds, in words."""
    match of:
        case {"$ref": reference}:
            name = reference.rpartition("/")[2]
            return f"[{name}](#{name.lower()})"
        case {"enum": words}:
            return ", ".join(f"`{word}`" for word in words)
        case {"const": word}:
            return f"`{word}`"
        case {"type": "array", "items": items}:
            return f"list: {kind(items)}"
        case {"type": "object", "additionalProperties": values}:
            return f"map: {kind(values)}"
        case {"type": [type_, "null"]}:
            return f"{WORDS[type_]} or null"
        case {"format": "date-time"}:
            return "time"
    return WORDS.get(of["type"], str(of["type"]))


def section(cls: type[Shape]) -> str:
    """Heading, description and fields of a shape."""
    properties = COMPONENTS[cls.__name__]["properties"]
    said = {
        field.name: f"{'Optional. ' if is_optional(field) else ''}{meaning(field)}"
        for field in attrs.fields(cls)
    }
    rows = (
        (f"`{key}`", kind(of), said.get(key, "Says which frame it is.")) for key, of in properties.items()
    )
    description = about_shape(cls)
    return f"### {cls.__name__}\n\n{description}\n\n{table('| field | type | meaning |', rows)}"


def named(text: str) -> list[str]:
    """The shapes that a schema names, and those that these name."""
    found: dict[str, None] = {}
    left = re.findall(r"#/components/schemas/(\w+)", text)
    while left:
        if (name := left.pop(0)) not in found:
            found[name] = None
            left[:0] = re.findall(r"#/components/schemas/(\w+)", str(COMPONENTS[name]))
    return list(found)


FRAMES = named(str(schema(Frame)))
BODIES = [name for name in named(str(json.loads(document("", ""))["paths"])) if name not in FRAMES]

PARTS = {
    "routes": table("| route | what it does |", ((f"`{each.route}`", each.summary) for each in OPERATIONS)),
    "shapes": "\n".join(section(SHAPES[name]) for name in BODIES),
    "frames": "\n".join(section(SHAPES[name]) for name in FRAMES),
    "python": python_reference.page(),
}


def main() -> None:
    for name in PAGES:
        page = REFERENCE / name
        page.write_text(generated(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
