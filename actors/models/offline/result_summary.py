"""Tool results in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ....runtime.json_text import load_provider
from ..messages.messages import ToolMessage
from .vocabulary import kinds, name_words, singular

_REJECTED = "Operation rejected"
"""The beginning of the result of a rejected call."""
_ITEMS_SHOWN = 100


def summarise(results: tuple[ToolMessage, ...]) -> str:
    return "\n".join(_in_words(result) for result in results)


def _in_words(result: ToolMessage) -> str:
    if result.is_error and result.content.startswith(_REJECTED):
        _, _, reason = result.content.partition(": ")
        return f"{result.name} was rejected: nothing was changed.{f' Reason: {reason}' if reason else ''}"
    if result.is_error:
        return f"{result.name} failed: {result.content}"
    try:
        data = load_provider(result.content)
    except ValueError:
        return result.content
    return _object_in_words(result.name, data) or result.content if isinstance(data, dict) else result.content


def _object_in_words(tool: str, data: Mapping[str, Any]) -> str | None:
    """The words for a shape that is common for tools that manage things; None for any other shape."""
    for key, value in data.items():
        if key.endswith("ed_count") and isinstance(value, int):
            things = [word for word in name_words(tool) if not kinds(word)] or ["items"]
            return f"{key.removesuffix('_count').capitalize()} {_counted(value, things[-1])}."
    if "name" in data:
        added = any("add" in kinds(word) for word in name_words(tool))
        return f"Added {_item(data)}." if added else f"{_item(data)}."
    content = {key: value for key, value in data.items() if key != "count"}
    if len(content) == 1:
        ((key, value),) = content.items()
        if isinstance(value, list) or (value is None and data.get("count") == 0):
            return _list_in_words(key, value or [])
    return None


def _list_in_words(things: str, items: list[Any]) -> str:
    title = _counted(len(items), things).capitalize()
    lines = [f"- {_item(item)}" for item in items[:_ITEMS_SHOWN]]
    if len(items) > _ITEMS_SHOWN:
        lines.append(f"- and {len(items) - _ITEMS_SHOWN} more")
    return "\n".join([f"{title}:", *lines]) if items else f"{title}."


def _counted(count: int, things: str) -> str:
    return f"1 {singular(things)}" if count == 1 else f"{count or 'no'} {things}"


def _item(item: Any) -> str:
    """`name = value (id 7, size 3)`, without the times of its creation and its last change."""
    if not isinstance(item, dict) or "name" not in item:
        return _text(item)
    value = f" = {_text(item['value'])}" if "value" in item else ""
    shown = {
        key: each for key, each in item.items() if key not in {"name", "value"} and not key.endswith("_at")
    }
    details = ", ".join(f"{key} {_text(each)}" for key, each in shown.items())
    return f"{_text(item['name'])}{value}{f' ({details})' if details else ''}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
