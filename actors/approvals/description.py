"""A tool call as people are shown it, in Markdown or in a line. Pure.

The arguments are a model's words: they are shown as they are, never as formatting, on one line each, and a
long one is cut to its head and its tail: a harmless beginning must not hide how it ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

MAX_VALUE = 300
"""Characters of one argument."""
MAX_ARGUMENTS = 3000
"""Characters of all of them."""
MAX_LINE = 160
"""Characters of a line."""
MAX_IN_LINE = 40
"""Characters of an argument in a line."""

# An underscore inside a word is no emphasis.
_FORMATTING = re.compile(r"[`*\[\]<>\\~&]|(?<!\w)_|_(?!\w)|://|^\s|\s$")


def describe(tool: str, arguments: Mapping[str, Any]) -> str:
    """What a human is asked about. The full arguments are for whoever looks closer."""
    given = {name: value for name, value in arguments.items() if value not in (None, "")}
    # Only what these say in full is said their way: nothing may go unmentioned.
    match tool, sorted(given):
        case "resources_add", ["name", "value"]:
            return f"**ADD Resource**\n\nName: {_shown(given['name'])}\nValue: {_shown(given['value'])}"
        case "resources_remove", ["id"]:
            return f"**REMOVE Resource**\n\nID: {_shown(given['id'])}"
        case "resources_remove", ["pattern"]:
            warning = "This removes every resource whose name matches."
            return f"**REMOVE Resources**\n\nPattern: {_shown(given['pattern'])}\n\n{warning}"
        case _:
            short = _cut_texts(arguments)
            text = json.dumps(short, ensure_ascii=False, sort_keys=True)
            return f"**{_line(tool.upper(), MAX_VALUE)}**\n\nArgs: {_line(text, MAX_ARGUMENTS)}"


def call_text(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call as one would write it down."""
    shown = (
        f"{name}={shortened(json.dumps(value, ensure_ascii=False), MAX_IN_LINE)}"
        for name, value in arguments.items()
    )
    return shortened(f"{tool}({', '.join(shown)})")


def shortened(text: str, limit: int = MAX_LINE) -> str:
    """On one line, and not too long."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def describe_elicitation(server: str, message: str, url: str | None) -> str:
    """What a human is told that a server asks, in its words."""
    head = f'**QUESTION**\n\nMCP server "{_line(server, MAX_VALUE)}" asks: {_line(message, MAX_ARGUMENTS)}'
    if url is None:
        return head
    # In full, and not as a link: people shall see where they are sent.
    return f"{head}\n\nIt wants you to visit {_line(url, len(url))} and to come back."


def describe_delegation(agent: str, message: str) -> str:
    """The question before another agent gets work."""
    return f"**DELEGATE to A2A Agent: {_line(agent, MAX_VALUE)}**\n\nMessage: {_line(message, MAX_ARGUMENTS)}"


def describe_proxy(agents: Sequence[str], question: str, refusal: str | None) -> str:
    """The question of another agent. `agents` are those on the way to the one that asks, the
    `question` is in Markdown; `refusal` says why an answer that was given before was not taken."""
    path = " -> ".join(_line(each, MAX_VALUE) for each in agents)
    again = "" if refusal is None else f"\n\nIt did not take the last answer: {_line(refusal, MAX_VALUE)}"
    return f"**PROXY APPROVAL — A2A Agent: {path}**{again}\n\n{question}"


def quoted(text: str) -> str:
    """The words of another agent: shown as they are, never as formatting."""
    return "\n".join(f"> {_line(line, MAX_ARGUMENTS)}" for line in text.splitlines() if line.strip())


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return _line(text, MAX_VALUE)


def _cut_texts(value: Any) -> Any:
    """The same with every long text in it cut, so that one cannot push the others out of sight."""
    match value:
        case str():
            return _cut(value, MAX_VALUE)
        case Mapping():
            return {_cut(str(name), MAX_VALUE): _cut_texts(item) for name, item in value.items()}
        case list() | tuple():
            return [_cut_texts(item) for item in value]
        case _:
            return value


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    return f"{text[:head]}… ({len(text):,} characters; see tool_args) …{text[-tail:]}"


def _line(text: str, limit: int) -> str:
    """A text as it is, on one line: in a code span when it could be taken for Markdown."""
    cut = _cut(text, limit)
    line = "".join(char if char.isprintable() else _escaped(char) for char in cut)
    if not _FORMATTING.search(line):
        return line
    # The fence has to be longer than any run of backticks inside.
    fence = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    return f"{fence} {line} {fence}" if "`" in line or line != line.strip() else f"{fence}{line}{fence}"


def _escaped(char: str) -> str:
    """What cannot be seen, or turns the text around it, as JSON writes it."""
    return "\\u007f" if char == "\x7f" else json.dumps(char)[1:-1]
