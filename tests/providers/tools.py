"""The tools of the main story, as the resource server offers them."""

from __future__ import annotations

from typing import Any, Final

TOOLS: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    (
        "resources_add",
        "Add a new resource with a name and value",
        {
            "type": "object",
            "properties": {"name": {"type": "string"}, "value": {"type": ["integer", "string"]}},
            "required": ["name", "value"],
        },
    ),
    (
        "resources_remove",
        "Remove resources by ID or by name pattern (regex)",
        {"type": "object", "properties": {"id": {"type": "string"}, "pattern": {"type": "string"}}},
    ),
    (
        "resources_list",
        "List resources, optionally filtered by name pattern (regex)",
        {"type": "object", "properties": {"pattern": {"type": "string"}}},
    ),
)
"""Name, description and schema."""
