"""Convert another agent's task to questions for people, and to the result of a call. Pure.

Every part has a bound, because another agent writes it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, assert_never

import attrs

from ...runtime.json_text import MAX_DEPTH, depth
from ..tools.delegation import Delegated, RemoteItem
from ..tools.tool import ToolResult
from .foreign_questions import foreign_items
from .wire.task import Data, File, Link, Message, Part, State, Task, Text

MOST_ITEMS = 32
"""Maximum number of questions of one task. The first ones are asked."""
LONGEST_NAME = 512
"""Maximum characters of an id, or of the name of a tool or an agent."""
MOST_ARGUMENTS = 64 * 1024
"""Maximum bytes of the arguments, or of the schema, in a question."""
LONGEST_TEXT = MOST_ARGUMENTS + 4000
"""Maximum characters of the text of a question. Some agents repeat the arguments in it."""
MOST_AGENTS = 16
"""Maximum number of agents on the path to the asking agent."""
MOST_PARTS = 1000
"""Maximum number of parts of a result."""
EMPTY = "(empty answer)"

# --------------------------------------------------------------------------- questions


def items_of(task: Task) -> tuple[RemoteItem, ...]:
    """The questions that the task waits for: those in its status message, else the message as one
    question."""
    message = task.status.message
    if message is None:
        return (RemoteItem(message="", description="The agent needs an answer."),)
    for items in (_named(message), foreign_items(message)):
        if named := tuple(islice(_bounded_items(items), MOST_ITEMS)):
            return named
    description = _words(message) or "The agent needs an answer."
    item = RemoteItem(message=_id_of(message, description), description=description)
    return (_bounded(item),)


def _id_of(message: Message, description: str) -> str:
    """The id of a message. A message of the older dialect has none and is identified by its text."""
    return (
        message.id[:LONGEST_NAME] or hashlib.sha256(description.encode("utf-8", "replace")).hexdigest()[:16]
    )


def _named(message: Message) -> Iterator[RemoteItem]:
    """The questions in a data part ``{"pending": [{"id", "kind", "tool", "arguments", "description",
    ...}]}``."""
    for part in message.parts:
        if isinstance(part, Data) and isinstance(part.data, Mapping):
            pending = part.data.get("pending")
            for each in pending if isinstance(pending, list) else ():
                if (item := _item(message, each)) is not None:
                    yield item


def _bounded_items(items: Iterable[RemoteItem]) -> Iterator[RemoteItem]:
    """The questions that have an id, each once, within bounds."""
    seen: set[str] = set()
    for item in items:
        if item.id is not None and 0 < len(item.id) <= LONGEST_NAME and item.id not in seen:
            seen.add(item.id)
            yield _bounded(item)


def _item(message: Message, said: object) -> RemoteItem | None:
    match said:
        case {"id": str(id), **rest}:
            arguments, schema, path = rest.get("arguments"), rest.get("input_schema"), rest.get("path")
            tool, text = rest.get("tool"), rest.get("description")
            odd = [
                name
                for name, is_as_expected in (
                    ("tool", isinstance(tool, str | None)),
                    ("arguments", isinstance(arguments, Mapping | None)),
                    ("description", isinstance(text, str | None)),
                )
                if not is_as_expected
            ]
            return RemoteItem(
                message=message.id,
                id=id,
                kind=_text(rest.get("kind"))[:LONGEST_NAME],
                tool=_text(tool),
                arguments=arguments if isinstance(arguments, Mapping) else {},
                description=_text(text) if tool or text else _texts(message),
                schema=schema if isinstance(schema, Mapping) else None,
                agents=tuple(name for name in path if isinstance(name, str))
                if isinstance(path, list)
                else (),
                unshown=_unshown(odd),
            )
        case _:
            return None


def _bounded(item: RemoteItem) -> RemoteItem:
    """The question within bounds. A part that is over its bound is not shown, or not whole, and then the
    question cannot be approved."""
    cut = {
        "tool": len(item.tool) > LONGEST_NAME,
        "arguments": not _fits(item.arguments),
        "description": len(item.description) > LONGEST_TEXT,
        "form": item.is_form and not _fits(item.schema),
    }
    return attrs.evolve(
        item,
        message=item.message[:LONGEST_NAME],
        tool=_cut(item.tool, LONGEST_NAME),
        arguments={} if cut["arguments"] else item.arguments,
        description=_cut(item.description, LONGEST_TEXT),
        schema=item.schema if _fits(item.schema) else None,
        agents=tuple(name[:LONGEST_NAME] for name in item.agents[:MOST_AGENTS]),
        unshown=item.unshown or _unshown([name for name, is_cut in cut.items() if is_cut]),
    )


def _unshown(parts: Sequence[str]) -> str:
    return f"it cannot be shown whole ({', '.join(parts)})" if parts else ""


def _fits(value: object) -> bool:
    return depth(value) <= MAX_DEPTH // 2 and len(json.dumps(value)) <= MOST_ARGUMENTS


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _texts(message: Message) -> str:
    return "\n".join(part.text for part in spoken(message.parts) if isinstance(part, Text))


def _words(message: Message) -> str:
    """The parts of a message as a text. No part is left out, because a person may approve it."""
    return "\n".join(filter(None, map(_part_as_text, spoken(message.parts))))


def _part_as_text(part: Part) -> str:
    match part:
        case Text(text=text):
            return text
        case Data(data=data):
            return _as_json(data)
        case File() | Link():
            return _mention(part)
        case _:
            assert_never(part)


# ---------------------------------------------------------------------------- results


def delegated(task: Task, most: int) -> Delegated:
    """The result of an ended task. `most`: its maximum bytes."""
    state: State = task.status.state
    said = [part for artifact in task.artifacts for part in artifact.parts]
    about = list(task.status.message.parts) if task.status.message is not None else []
    if state == "completed":
        # With an artifact, the last status message only repeats it or adds nothing.
        sources = [said, about, _last_reply(task.history)]
        answers = (source for source in sources if any(map(_is_content, source)))
        parts = spoken(next(answers, next(filter(None, sources), [])))
    else:
        parts = [*spoken(about), *spoken(said)]
    result = result_of(parts, most, is_error=state != "completed", state=state)
    rejected = bool(task.metadata and task.metadata.get("rejected") is True)
    return Delegated(result, rejected)


def without_calls(end: Delegated, tools: Sequence[str]) -> Delegated:
    """The result, as an error if these tools were approved and not called."""
    if not tools or end.result.is_error:
        return end
    content = f"The agent ended without the approved call: {', '.join(tools)}\n{end.result.content}"
    return attrs.evolve(end, result=attrs.evolve(end.result, content=content, is_error=True))


def answered(message: Message, most: int) -> Delegated:
    """The result of a message that replaces a task."""
    return Delegated(result_of(spoken(message.parts), most))


def _last_reply(history: Sequence[Message]) -> list[Part]:
    replies = [message for message in history if message.role == "agent"]
    return list(replies[-1].parts) if replies else []


def _is_content(part: Part) -> bool:
    return not is_thought(part) and (not isinstance(part, Text) or bool(part.text.strip()))


def spoken(parts: Sequence[Part]) -> list[Part]:
    """The parts without the reasoning of a model; all parts if there is nothing else, because some agents
    mark whatever they say while they work (google/adk-python#3819)."""
    return [part for part in parts if not is_thought(part)] or list(parts)


def is_thought(part: Part) -> bool:
    """Whether a part is marked as reasoning: ``adk_thought`` of ADK, ``kagent_thought``, ``jiuwen_thought``
    and ``thought`` of others, ``{"type": "thinking"}`` of fasta2a."""
    marks = part.metadata or {}
    if marks.get("type") == "thinking":
        return True
    return any(
        value is True and (key == "thought" or key.endswith("_thought")) for key, value in marks.items()
    )


def result_of(
    parts: Sequence[Part], most: int, *, is_error: bool = False, state: State = "completed"
) -> ToolResult:
    """The parts as the result of a call: a text for models, and all parts as content blocks of MCP
    (2025-11-25, server/tools, "Tool Result"). Data is part of the text only if there are no text parts. A
    file is mentioned in the text unless the text names it already."""
    kept, notes = _within(parts, most)
    texts = [part.text for part in kept if isinstance(part, Text)]
    if not any(texts):
        texts = [_as_json(part.data) for part in kept if isinstance(part, Data)]
    said = "\n".join(filter(None, texts))
    files = [_mention(part) for part in kept if isinstance(part, File | Link)]
    lines = [said, *(mention for mention in files if mention not in said), *notes]
    text = "\n".join(filter(None, lines)) or (EMPTY if state == "completed" else f"The task is {state}.")
    if is_error and state != "failed" and kept:
        text = f"The agent's task is {state}: {text}"
    data = [part.data for part in kept if isinstance(part, Data)]
    return ToolResult(text, is_error, tuple(map(_block, kept)), data[0] if len(data) == 1 else None)


def _within(parts: Sequence[Part], most: int) -> tuple[list[Part], list[str]]:
    """The parts that fit, and a note about the others."""
    kept: list[Part] = []
    left, left_out = most, 0
    for part in parts:
        has_room = len(kept) < MOST_PARTS
        if (size := size_of(part)) <= left and has_room:
            kept.append(part)
            left -= size
            continue
        left_out += 1
        if isinstance(part, Text) and has_room and (beginning := _beginning(part, left)) is not None:
            kept.append(beginning)
            left = 0
    if not left_out:
        return kept, []
    return kept, [f"[cut here: the answer is longer than {most} bytes; parts left out or cut: {left_out}]"]


def size_of(part: Part) -> int:
    """The bytes of a part in the stored result."""
    return len(json.dumps(_block(part)))


def _beginning(part: Text, most: int) -> Text | None:
    """The beginning of a text, of at most `most` bytes in JSON; None: there is almost no room."""
    length = most
    while length > 100:
        cut = attrs.evolve(part, text=part.text[:length])
        if size_of(cut) <= most:
            return cut
        length //= 2
    return None


def _block(part: Part) -> dict[str, Any]:
    about = {} if part.media_type is None else {"mimeType": part.media_type}
    name = part.filename or "file"
    match part:
        case Text(text=text) if part.filename is None:
            return {"type": "text", "text": text}
        case Text(text=text):
            return {"type": "resource", "resource": {"uri": f"file:///{name}", "text": text, **about}}
        case File(content=content):
            return {"type": "resource", "resource": {"uri": f"file:///{name}", "blob": content, **about}}
        case Link(url=url):
            return {"type": "resource_link", "uri": url, "name": name, **about}
        case Data(data=data):
            return {"type": "text", "text": _as_json(data)}
        case _:
            assert_never(part)


def _mention(part: File | Link) -> str:
    if isinstance(part, Link):
        return f"[file at {part.url}]"
    kind = f", {part.media_type}" if part.media_type else ""
    return f"[file {part.filename or 'without a name'}{kind}]"


def _as_json(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False)
