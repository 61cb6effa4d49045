"""MCP's tools, results, progress and questions to ours, and answers back. Pure, without I/O."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import attrs
from pydantic import ValidationError
from pydantic_core import to_json

from ..tools.tool import (
    Elicitation,
    ElicitationAnswer,
    Hints,
    Progress,
    Tool,
    ToolInputRequired,
    ToolResult,
)
from .failures import InvalidResult
from .sdk import ElicitRequestURLParams, types

EMPTY_RESULT = "(empty result)"
BLOCKS: Mapping[str, tuple[str, ...]] = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
    "resource": (),
}
"""Kinds of content blocks, and the texts that each must have (MCP 2025-11-25, "Tool Result"); a resource has
its own inside."""
MAX_PROGRESS_MESSAGE = 500
"""Characters of one."""
MAX_DEFINITION = 256 * 1024
"""Bytes of the definition of a tool, as JSON: models are sent it with every request."""
MAX_PROBLEMS = 20
"""Tools that are named of those that a page is without."""
MAX_LABEL = 100
"""Characters of a name that is not checked yet."""


def tool_from_wire(tool: types.Tool, server: str) -> Tool:
    """One entry of `tools/list`, offered by the server of that name."""
    notes = tool.annotations
    if notes is None:
        hints, title = Hints(), tool.title
    else:
        hints = Hints(
            read_only=notes.read_only_hint,
            destructive=notes.destructive_hint,
            idempotent=notes.idempotent_hint,
            open_world=notes.open_world_hint,
        )
        title = tool.title or notes.title
    return Tool(
        name=tool.name,
        description=tool.description or "",
        input_schema=tool.input_schema,
        server=server,
        title=title,
        hints=hints,
        output_schema=tool.output_schema,
    )


def result_from_wire(result: Mapping[str, Any]) -> ToolResult:
    """A result, with text for each block, so that the model knows of every one; its structured content is
    there too, when no block says it in words.

    What a call did has happened, so what it says must not be lost for a block of a kind that is not known
    yet, or for want of any block.

    Raises:
        InvalidResult: it is not one all the same.
    """
    blocks = _blocks(result)
    texts = [_text_of(block) for block in blocks]
    structured = result.get("structuredContent")
    lines = [text or _name_of(block) for text, block in zip(texts, blocks, strict=True)]
    if structured is not None and not any(texts):
        lines.append(json.dumps(structured, ensure_ascii=False))
    is_error = result.get("isError")
    if is_error is None:
        is_error = False
    if not isinstance(is_error, bool):
        raise InvalidResult("isError: Input should be a valid boolean")
    return ToolResult(
        content="\n".join(filter(None, lines)) or EMPTY_RESULT,
        is_error=is_error,
        parts=tuple(blocks),
        structured=structured,
    )


def _blocks(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    content: object = result.get("content")
    if isinstance(content, list):
        return [_block(position, block) for position, block in enumerate(content)]
    if content is None and result.get("structuredContent") is not None:
        return []
    if "content" not in result:
        raise InvalidResult("content: Field required")
    raise InvalidResult("content: Input should be a valid list")


def _block(position: int, block: object) -> dict[str, Any]:
    if not isinstance(block, dict) or str(block.get("type")) not in BLOCKS:
        text = block if isinstance(block, str) else json.dumps(block, ensure_ascii=False)
        return {"type": "text", "text": text}
    holder: Any = block
    path, texts = f"content.{position}", BLOCKS[block["type"]]
    if block["type"] == "resource":
        path, holder = f"{path}.resource", block.get("resource")
        if not isinstance(holder, dict):
            raise InvalidResult(f"{path}: Input should be a valid dictionary")
        texts = ("uri", "blob" if isinstance(holder.get("blob"), str) else "text")
    for name in texts:
        if not isinstance(holder.get(name), str):
            raise InvalidResult(f"{path}.{name}: Input should be a valid string")
    return block


def progress_from_wire(params: Mapping[str, Any]) -> Progress | None:
    """How far a call is, out of a progress notification; None when that does not say. A message goes as far
    as somebody may want to read while it lasts."""
    progress, message = params.get("progress"), params.get("message")
    if not _is_number(progress):
        return None
    text = message[:MAX_PROGRESS_MESSAGE] if isinstance(message, str) else None
    return Progress(_number(progress) or 0.0, _number(params.get("total")), text)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any) -> float | None:
    """The number that it is; None when it is none that JSON has, or too large."""
    try:
        return float(value) if _is_number(value) else None
    except OverflowError:
        return None


def error_result(text: str) -> ToolResult:
    """An answer that says the call failed, for the model to read."""
    return ToolResult(content=text, is_error=True, parts=({"type": "text", "text": text},))


def validation_text(error: ValidationError, *, skip: int = 0) -> str:
    """The first thing that is wrong, without the value: where (less `skip` outer levels) and what."""
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in first['loc'][skip:])}: {first['msg']}"


def _text_of(block: Mapping[str, Any]) -> str:
    """What a block says in words."""
    match block:
        case {"type": "text", "text": str() as text} | {
            "type": "resource",
            "resource": {"text": str() as text},
        }:
            return text
        case _:
            return ""


def _name_of(block: Mapping[str, Any]) -> str:
    """What else a block is, in a line."""
    match block["type"]:
        case "image" | "audio":
            return f"[{block['type']}: {block['mimeType']}, {_size(block['data'])}]"
        case "resource_link":
            return _resource(block["name"], block["uri"], block.get("mimeType"))
        case "resource":
            resource = block["resource"]
            size = _size(resource["blob"]) if isinstance(resource.get("blob"), str) else None
            return _resource(resource["uri"], resource.get("mimeType"), size)
        case _:
            return ""


def _resource(*facts: object) -> str:
    return f"[resource: {', '.join(str(fact) for fact in facts if fact)}]"


def _size(base64: str) -> str:
    return f"{len(base64) * 3 // 4 - base64[-2:].count('=')} bytes"


def repair_listing(
    page: dict[str, Any], problem_with: Callable[[Mapping[str, Any]], str | None]
) -> list[str]:
    """Drop what is not a tool, and what is too long, from a page of `tools/list`, in place, and say what was
    dropped.

    One malformed tool would otherwise make the whole page invalid. A schema that does not say its
    type gets `object`, the only one there is for arguments. A malformed schema of results is no loss.

    Args:
        page: the result as it came; left alone when it holds no list of tools.
        problem_with: why a tool is not valid, or None.
    """
    tools: object = page.get("tools")
    if not isinstance(tools, list):
        return []
    kept: list[dict[str, Any]] = []
    problems = _Problems()
    for position, tool in enumerate(tools):
        if not isinstance(tool, dict):
            problems.add(f"tool {position}: not an object")
            continue
        label = f"tool {position} ({str(tool.get('name', 'nameless'))[:MAX_LABEL]})"
        size = len(to_json(tool, inf_nan_mode="null"))
        if size > MAX_DEFINITION:
            problems.add(f"{label}: its definition has {size} bytes, more than {MAX_DEFINITION}")
            continue
        schema = tool.get("inputSchema") or {}
        if isinstance(schema, dict):
            tool = {**tool, "inputSchema": {"type": "object", **schema}}
        problem = problem_with(tool)
        if problem is not None and tool.pop("outputSchema", None) is not None:
            problem = problem_with(tool)
        if problem is None:
            kept.append(tool)
        else:
            problems.add(f"{label}: {problem}")
    page["tools"] = kept
    return problems.told()


@attrs.define(eq=False)
class _Problems:
    _told: list[str] = attrs.field(factory=list)
    _others: int = 0

    def add(self, problem: str) -> None:
        if len(self._told) < MAX_PROBLEMS:
            self._told.append(problem)
        else:
            self._others += 1

    def told(self) -> list[str]:
        return [*self._told, *([f"{self._others} others"] if self._others else [])]


# ----------------------------------------------------------------- questions

MAX_QUESTIONS = 16
"""Questions a server may ask at once."""


class NotOffered(Exception):
    """The server wants what this client does not offer; the text says what, for the model to read."""


def question_from_wire(params: types.ElicitRequestParams) -> Elicitation:
    """A form, or an address to visit (MCP 2025-11-25, "Elicitation")."""
    if params.mode == "url":
        return Elicitation(params.message, url=params.url)
    return Elicitation(params.message, schema=dict(params.requested_schema))


def answer_to_wire(answer: ElicitationAnswer) -> types.ElicitResult:
    """The answer; what is in no field of a form is for the person who asked to have checked."""

    content: Any = None if answer.content is None else dict(answer.content)
    return types.ElicitResult(action=answer.action, content=content)


def input_required(result: types.InputRequiredResult) -> ToolInputRequired:
    """What a server wants before it goes on with a call (MCP 2026-07-28, `InputRequiredResult`).

    Raises:
        NotOffered: it wants something else than answers of people, or too many of them.
    """
    requests = result.input_requests or {}
    others = sorted({request.method for request in requests.values()} - {"elicitation/create"})
    if others:
        raise NotOffered(f"the server asks for {', '.join(others)}, which this client does not offer")
    if len(requests) > MAX_QUESTIONS:
        raise NotOffered(f"the server asks {len(requests)} questions at once; {MAX_QUESTIONS} are answered")
    found = {
        name: question_from_wire(request.params)
        for name, request in requests.items()
        if request.method == "elicitation/create"
    }
    return ToolInputRequired(found, state=result.request_state)


def addresses_required(data: object) -> ToolInputRequired | None:
    """The addresses to visit before a call can be made, out of the error -32042 (MCP 2025-11-25).

    None when it names none, and so is an error like any other.
    """

    listed = data.get("elicitations") if isinstance(data, Mapping) else None
    if not isinstance(listed, list) or not 0 < len(listed) <= MAX_QUESTIONS:
        return None
    try:
        found = [ElicitRequestURLParams.model_validate(each) for each in listed]
    except ValidationError:
        return None
    asked = {str(number): question_from_wire(params) for number, params in enumerate(found)}
    return ToolInputRequired(asked, answers=False)
