"""Converts MCP's tools, results, progress and questions to ours, and answers back. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from pydantic import ValidationError
from pydantic_core import to_json

from ....config.sections.mcp import StructuredText
from ....runtime.json_text import load_mcp
from ...tools.tool import (
    Elicitation,
    ElicitationAnswer,
    Hints,
    Progress,
    Tool,
    ToolInputRequired,
    ToolResult,
)
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
_RESULT_MEMBERS = ("content", "structuredContent", "isError", "_meta", "resultType")
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


def result_from_wire(result: Mapping[str, Any], structured: StructuredText = "append") -> ToolResult:
    """Convert a result. Its content has a line for each block, so that the model knows of every block.

    The call has happened, so everything of its result that can be read is kept, and it has failed only if the
    server says so:

    | the server sent | it counts as |
    |---|---|
    | one block, or a text, instead of a list | a list of it |
    | no content and no structured content | its other members, as text |
    | a block that is no object, or of an unknown type | a text |
    | a block without a member that it must have | a text with a note |
    | `isError` as a text or a number | what that says; anything unclear is no error |

    Args:
        structured: how structured content is shown beside text; see `McpServerConfig.structured`.
    """
    blocks = _blocks(result)
    texts = [_text_of(block) for block in blocks]
    is_error, data = _says_yes(result.get("isError")), result.get("structuredContent")
    if data is not None and structured == "only" and not is_error:
        texts = [""] * len(texts)
    lines = [text or _name_of(block) for text, block in zip(texts, blocks, strict=True)]
    said = [text for text in texts if text]
    if data is not None and not (said and (structured == "off" or _repeats(said, data))):
        lines.append(json.dumps(data, ensure_ascii=False))
    return ToolResult(
        content="\n".join(filter(None, lines)) or EMPTY_RESULT,
        is_error=is_error,
        parts=tuple(blocks),
        structured=data,
    )


def _says_yes(value: object) -> bool:
    return value == 1 or (isinstance(value, str) and value.strip().lower() in ("true", "yes", "1"))


def _repeats(texts: Sequence[str], data: Any) -> bool:
    """Whether a text is the same data, or each text is an item of it, as JSON or plainly.

    Servers wrap values that are no objects: FastMCP as `{"result": 5}`, the filesystem server as `content`.
    """
    values = [data, *data.values()] if isinstance(data, dict) and len(data) == 1 else [data]
    read = [(text, _from_json(text)) for text in texts]
    return any(
        any(value in forms for forms in read)
        or (
            isinstance(value, list)
            and len(value) == len(read)
            and all(item in forms for item, forms in zip(value, read, strict=True))
        )
        for value in values
    )


def _from_json(text: str) -> object:
    try:
        return load_mcp(text)
    except ValueError:
        return text


def _blocks(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    content: object = result.get("content")
    if content is None:
        others = {name: value for name, value in result.items() if name not in _RESULT_MEMBERS}
        content = [others] if others else []
    return [_block(block) for block in (content if isinstance(content, list) else [content])]


def _block(block: object) -> dict[str, Any]:
    if not isinstance(block, dict) or str(block.get("type")) not in BLOCKS:
        text = block if isinstance(block, str) else json.dumps(block, ensure_ascii=False)
        return {"type": "text", "text": text}
    content: Any = block
    names = BLOCKS[block["type"]]
    if block["type"] == "resource":
        content = block.get("resource")
        if not isinstance(content, dict):
            return _noted(block, "resource")
        names = ("uri", "blob" if isinstance(content.get("blob"), str) else "text")
    for name in names:
        if not isinstance(content.get(name), str):
            return _noted(block, name)
    return block


def _noted(block: Mapping[str, Any], member: str) -> dict[str, Any]:
    """Return a text in place of a block that lacks this member."""
    readable = json.dumps(_without_bytes(block), ensure_ascii=False)
    problem = f'a block of the type "{block["type"]}" without a valid "{member}"'
    return {"type": "text", "text": f"[Note: the server sent {problem}: {readable}]"}


def _without_bytes(value: object) -> object:
    """Return a block with the size of its bytes in their place."""
    if not isinstance(value, Mapping):
        return value
    return {
        name: _size(each) if name in ("data", "blob") and isinstance(each, str) else _without_bytes(each)
        for name, each in value.items()
    }


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
    only possible one. A tool is kept if it is valid without its output schema, or after `_mended`.

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
        if problem is not None and problem_with(mended := _mended(tool)) is None:
            tool, problem = mended, None
        if problem is None:
            kept.append(tool)
        else:
            problems.add(f"{label}: {problem}")
    page["tools"] = kept
    return problems.lines()


_OBJECTS = ("object", "dict", "map", "struct")
"""Words for an object, of servers in other languages."""
_SCHEMA_MEMBERS: Mapping[str, type] = {
    "properties": dict,
    "required": list,
    "$defs": dict,
    "definitions": dict,
}


def _mended(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool that is not valid with what its server must have meant.

    * PHP writes an empty object as a list (php.net, `json_encode`).
    * The type of the arguments may be null, a list that has `object`, or another word for it.
    * A member of the schema of another type counts as absent; the other arguments stay declared.
    """
    mended = {name: value for name, value in tool.items() if value != [] or name == "inputSchema"}
    schema = tool.get("inputSchema")
    if schema is True:
        schema = {}
    if isinstance(schema, dict):
        kinds = schema.get("type")
        words = [str(each).lower() for each in (kinds if isinstance(kinds, list) else [kinds])]
        if kinds is None or set(words) & {*_OBJECTS}:
            schema = {**schema, "type": "object"}
        schema = {
            name: value
            for name, value in schema.items()
            if isinstance(value, _SCHEMA_MEMBERS.get(name, object))
        }
    return {**mended, "inputSchema": schema}


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
