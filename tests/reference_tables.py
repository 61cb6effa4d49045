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

from stopgo.actors.log.words.keys import FORMS
from stopgo.config.described.shape import about_of
from stopgo.config.reading.schema import json_schema
from stopgo.config.resources_config import ResourcesConfig
from stopgo.config.web_config import WebConfig
from stopgo.gateway.contract.declaration import SHAPES, Shape, is_optional
from stopgo.gateway.contract.frame_shapes import Frame
from stopgo.gateway.contract.operations import OPERATIONS
from stopgo.gateway.contract.shape_schema import about_shape, components, schema
from stopgo.gateway.rest.openapi import document
from stopgo.gateway.telemetry.metrics import DEFINITIONS, Definition
from tests import python_reference

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
PAGES = (
    "configuration.md",
    "http-api.md",
    "events.md",
    "python.md",
    "metrics.md",
    "../explanation/internals.md",
)
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
        field.name: f"{'Optional. ' if is_optional(field) else ''}{about_of(field).text}"
        for field in attrs.fields(cls)
    }
    rows = ((f"`{key}`", kind(of), said.get(key, "The type of the frame.")) for key, of in properties.items())
    description = about_shape(cls)
    return f"### {cls.__name__}\n\n{description}\n\n{table('| field | type | meaning |', rows)}"


def config_kind(schema: Mapping[str, Any]) -> str:
    """The values of a key of a configuration file, in words."""
    if not schema:
        return "JSON"
    if "anyOf" in schema:
        return config_kind(schema["anyOf"][0])
    if "$ref" in schema:
        return f"[{(name := schema['$ref'].rpartition('/')[2])}](#{name.lower()})"
    if "oneOf" in schema:
        return "a node"
    if "enum" in schema:
        return " or ".join(f"`{word}`" for word in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if isinstance(schema["type"], list):
        return "text, number, true or false"
    if schema["type"] == "array":
        return f"list: {config_kind(schema['items'])}"
    if schema["type"] == "object":
        return f"map: {config_kind(schema['additionalProperties'])}"
    limits = (("from", "minimum"), ("above", "exclusiveMinimum"), ("to", "maximum"))
    given = [f"{word} {schema[limit]:.12g}" for word, limit in limits if limit in schema]
    return " ".join([WORDS[schema["type"]], *given])


def config_section(schema: Mapping[str, Any]) -> str:
    """Description and keys of a section of a configuration file."""
    rows = []
    for key, value in schema["properties"].items():
        default = value.get("default")
        yaml = str(default).lower() if isinstance(default, bool) else default
        shown = (
            "required" if key in schema.get("required", ()) else "" if default in (None, "") else f"`{yaml}`"
        )
        rows.append((f"`{key}`", config_kind(value), shown, value.get("description", "Kind of the node.")))
    return f"{schema['description']}\n\n{table('| key | value | default | meaning |', rows)}"


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


def metric_row(metric: Definition) -> tuple[str, ...]:
    labels = ", ".join(f"`{each}`" for each in metric.labels)
    buckets = f" Buckets: {', '.join(f'{each:g}' for each in metric.buckets)}." if metric.buckets else ""
    return f"`{metric.full_name}`", metric.kind.__name__.lower(), labels, f"{metric.text}{buckets}"


PARTS = {
    "metrics": table("| metric | type | labels | meaning |", map(metric_row, DEFINITIONS)),
    "routes": table("| route | what it does |", ((f"`{each.route}`", each.summary) for each in OPERATIONS)),
    "shapes": "\n".join(section(SHAPES[name]) for name in BODIES),
    "frames": "\n".join(section(SHAPES[name]) for name in FRAMES),
    "python": python_reference.page(),
    "keys": table("| form | for example | meaning |", ((f"`{f}`", f"`{x}`", m) for f, x, m in FORMS)),
}
AGENT_FILE = json_schema()
PARTS |= {name: config_section(each) for name, each in AGENT_FILE["$defs"].items()}
PARTS |= {
    "AgentConfig": config_section(AGENT_FILE),
    "WebConfig": config_section(json_schema(WebConfig)),
    "ResourcesConfig": config_section(json_schema(ResourcesConfig)),
}


def main() -> None:
    for name in PAGES:
        page = REFERENCE / name
        page.write_text(generated(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
