"""Converts MCP's tools, results, progress and questions to ours, and answers back. Pure."""

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
"""The types of content blocks, with the string members that each must have (MCP 2025-11-25, "Tool Result").
The members of a resource are nested."""
MAX_PROGRESS_MESSAGE = 500
"""Characters of a progress message that are kept."""
MAX_DEFINITION = 256 * 1024
"""Bytes of a tool's definition, as JSON, because models get it with every request."""
MAX_PROBLEMS = 20
"""Dropped tools of a page that are named; the others are counted."""
MAX_LABEL = 100
"""Characters of a tool's name in a message, because the name is not validated yet."""


def tool_from_wire(tool: types.Tool, server: str) -> Tool:
    """Convert an entry of `tools/list` of the server with this name."""
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
    """Convert a result. Its content has a line for each block, so that the model knows of every block.

    Structured content is added as JSON if no block has text. A block of an unknown type becomes text, and a
    result with structured content needs no blocks, because the call has happened and its result must not be
    lost.

    Raises:
        InvalidResult: the result is not valid in another way.
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
    """Convert the parameters of a progress notification; None if they contain no progress. A long message is
    shortened."""
    progress, message = params.get("progress"), params.get("message")
    if not _is_number(progress):
        return None
    text = message[:MAX_PROGRESS_MESSAGE] if isinstance(message, str) else None
    return Progress(_number(progress) or 0.0, _number(params.get("total")), text)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any) -> float | None:
    """Return the value as a float; None if it is not a number, or too large."""
    try:
        return float(value) if _is_number(value) else None
    except OverflowError:
        return None


def error_result(text: str) -> ToolResult:
    """Return a result that tells the model that the call failed."""
    return ToolResult(content=text, is_error=True, parts=({"type": "text", "text": text},))


def validation_text(error: ValidationError, *, skip: int = 0) -> str:
    """Return place and text of the first problem, without the value. `skip`: outer levels to omit."""
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in first['loc'][skip:])}: {first['msg']}"


def _text_of(block: Mapping[str, Any]) -> str:
    """Return the text of a block; empty if it has none."""
    match block:
        case {"type": "text", "text": str() as text} | {
            "type": "resource",
            "resource": {"text": str() as text},
        }:
            return text
        case _:
            return ""


def _name_of(block: Mapping[str, Any]) -> str:
    """Return a line that describes a block without text."""
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
    """Remove malformed and overlong tools from a page of `tools/list`, in place; return the reasons.

    One malformed tool would make the whole page invalid. An input schema without a type gets `object`, the
    only possible one. A malformed output schema is removed, and the tool is kept.

    Args:
        page: the result as it arrived; unchanged if it contains no list of tools.
        problem_with: returns why a tool is not valid, or None.
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
    return problems.lines()


@attrs.define(eq=False)
class _Problems:
    _named: list[str] = attrs.field(factory=list)
    _others: int = 0

    def add(self, problem: str) -> None:
        if len(self._named) < MAX_PROBLEMS:
            self._named.append(problem)
        else:
            self._others += 1

    def lines(self) -> list[str]:
        return [*self._named, *([f"{self._others} others"] if self._others else [])]


# ----------------------------------------------------------------- questions

MAX_QUESTIONS = 16
"""Questions that a server may ask at a time."""


class NotOffered(Exception):
    """The server wants something that this client does not offer; the text tells the model what."""


def question_from_wire(params: types.ElicitRequestParams) -> Elicitation:
    """Convert a question: a form, or a URL to visit (MCP 2025-11-25, "Elicitation")."""
    if params.mode == "url":
        return Elicitation(params.message, url=params.url)
    return Elicitation(params.message, schema=dict(params.requested_schema))


def answer_to_wire(answer: ElicitationAnswer) -> types.ElicitResult:
    """Convert an answer. Its content is not checked against the form here."""

    content: Any = None if answer.content is None else dict(answer.content)
    return types.ElicitResult(action=answer.action, content=content)


def input_required(result: types.InputRequiredResult) -> ToolInputRequired:
    """Convert the prerequisites of a call (MCP 2026-07-28, `InputRequiredResult`).

    Raises:
        NotOffered: the server wants something other than answers of people, or too many of them.
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
    """Convert the data of error -32042 (MCP 2025-11-25): the URLs to visit before the call can be made.

    None if it names no valid URLs; then the error is like any other.
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
