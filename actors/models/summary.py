"""Results of tools, told in words by a model that has no language."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stopgo.actors.models.messages import ToolMessage
from stopgo.actors.models.vocabulary import kinds, name_words, noun

_REJECTED = "Operation rejected"
"""How the result of a call begins that a human said no to."""
_ITEMS_SHOWN = 100


def summarise(results: tuple[ToolMessage, ...]) -> str:
    return "\n".join(_tell(result) for result in results)


def _tell(result: ToolMessage) -> str:
    if result.is_error and result.content.startswith(_REJECTED):
        return f"Nothing was changed. {result.content}"
    if result.is_error:
        return f"{result.name} failed: {result.content}"
    try:
        data = json.loads(result.content)
    except (ValueError, RecursionError):
        return result.content
    return _tell_object(result.name, data) or result.content if isinstance(data, dict) else result.content


def _tell_object(tool: str, data: Mapping[str, Any]) -> str | None:
    """One of the shapes that tools that manage things answer with; None for any other."""
    for key, value in data.items():
        if key.endswith("_count") and isinstance(value, int):
            verb = key.removesuffix("_count").capitalize()
            return f"{verb} {_counted(tool, value)}."
    lists = [value for value in data.values() if isinstance(value, list)]
    if len(lists) == 1 or (not lists and data.get("count") == 0):
        return _tell_items(tool, lists[0] if lists else [])
    if "name" in data:
        added = any("add" in kinds(word) for word in name_words(tool))
        return f"Added {_item(data)}." if added else f"{_item(data)}."
    return None


def _tell_items(tool: str, items: list[Any]) -> str:
    lines = [f"- {_item(item)}" for item in items[:_ITEMS_SHOWN]]
    if len(items) > _ITEMS_SHOWN:
        lines.append(f"- and {len(items) - _ITEMS_SHOWN} more")
    return "\n".join([f"{_counted(tool, len(items))}:", *lines] if items else [f"{_counted(tool, 0)}."])


def _counted(tool: str, count: int) -> str:
    """`2 resources`, after the noun in the tool's name."""
    nouns = [noun(word) for word in name_words(tool) if not kinds(word)]
    thing = nouns[-1] if nouns else "item"
    plural = thing[:-1] + "ies" if thing.endswith("y") else thing + "s"
    return f"{count or 'no'} {thing if count == 1 else plural}"


def _item(item: Any) -> str:
    if not isinstance(item, dict) or "name" not in item:
        return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
    value = f" = {item['value']}" if "value" in item else ""
    identifier = f" (id {item['id']})" if "id" in item else ""
    return f"{item['name']}{value}{identifier}"
