"""Descriptions of tool calls for people, in Markdown or in one line. Pure.

The arguments come from a model, so they are shown verbatim, never as formatting, each on one line. A long
argument is shortened in the middle, so that a harmless beginning cannot hide its end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...runtime.visible_text import is_hidden, visible
from ..tools.names import PREFIX, prefix_of

MAX_VALUE = 300
"""Maximum length of one argument, in characters."""
MAX_ARGUMENTS = 3000
"""Maximum length of all arguments together, in characters."""
MAX_LINE = 160
"""Maximum length of a line, in characters."""
MAX_IN_LINE = 40
"""Maximum length of an argument in a line, in characters."""
_MISSING = object()
_CUT_NOTE = "characters; see tool_args) …"

# Except an underscore inside a word, which is not emphasis in Markdown.
_FORMATTING = re.compile(r"[`*\[\]<>\\~&]|(?<!\w)_|_(?!\w)|://|^\s|\s$")


def describe_call(tool: str, server: str, facade: str | None, arguments: Mapping[str, Any]) -> str:
    """Describe a call of a tool server for approval. `tool` is the name that models see.

    The server is named if its name is needed to tell the tool from that of another server: below a server
    facade, and if the tool has a prefixed name, which may be shortened.
    """
    prefix = prefix_of(server)
    own = tool.removeprefix(prefix)
    described = describe(own, arguments)
    if facade is None and own == tool and not tool.startswith(PREFIX):
        return described
    return f"{described}\n\nServer: {_line(server, MAX_VALUE)}"


def describe(tool: str, arguments: Mapping[str, Any]) -> str:
    """Describe a call for approval. The approval also has the full arguments."""
    # An empty pattern is no absent one: it matches everything.
    given = {
        name: value for name, value in arguments.items() if value is not None and (name, value) != ("id", "")
    }
    # Only calls with exactly these arguments, because no argument may be left out.
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
    """Describe a call in one line, as `tool(name=value)`."""
    shown = (
        f"{name}={shortened(json.dumps(value, ensure_ascii=False), MAX_IN_LINE)}"
        for name, value in arguments.items()
    )
    return shortened(f"{tool}({', '.join(shown)})")


def edits_text(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Describe the changes of arguments in one line, as `value=3 -> 4`."""

    def shown(arguments: Mapping[str, Any], name: str) -> str:
        if name not in arguments:
            return "(not set)"
        return shortened(json.dumps(arguments[name], ensure_ascii=False), MAX_IN_LINE)

    changed = [
        f"{name}={shown(before, name)} -> {shown(after, name)}"
        for name in dict.fromkeys((*before, *after))
        if before.get(name, _MISSING) != after.get(name, _MISSING)
    ]
    return shortened(", ".join(changed))


def shortened(text: str, limit: int = MAX_LINE) -> str:
    """Return the text on one line, shortened to `limit` characters, without hidden characters."""
    line = " ".join(visible(text).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def describe_elicitation(server: str, message: str, url: str | None) -> str:
    """Describe an elicitation, with the message of the server."""
    head = f'**QUESTION**\n\nMCP server "{_line(server, MAX_VALUE)}" asks: {_line(message, MAX_ARGUMENTS)}'
    if url is None:
        # A form that asks for a secret in words that the runtime does not know is not declined.
        return f"{head}\n\nNever enter a password or a key: the answer is stored."
    # In full and not as a link, so that people see the address.
    return f"{head}\n\nIt wants you to visit {_line(url, len(url))} and to come back."


def is_shortened(description: str) -> bool:
    """Whether a description leaves out the middle of an argument or of a question."""
    return _CUT_NOTE in description


def describe_checkpoint(message: str, values: Mapping[str, str]) -> str:
    """Describe a checkpoint: the message of the agent file, and the values of its placeholders below it.

    The values are texts of models and people. Each has a block of its own, so that none can pass for a part
    of the question.
    """
    blocks = (f"{placeholder}:\n\n{_block(value)}" for placeholder, value in values.items())
    return "\n\n".join([visible(message), *blocks])


def describe_delegation(agent: str, message: str) -> str:
    """Describe a delegation to another agent for approval."""
    return f"**DELEGATE to A2A Agent: {_line(agent, MAX_VALUE)}**\n\nMessage: {_line(message, MAX_ARGUMENTS)}"


def describe_proxy(agents: Sequence[str], question: str, refusal: str | None, unshown: str = "") -> str:
    """Describe the question of another agent. `agents` is the path to the agent that asks, `question` its
    Markdown text, `refusal` the reason why it refused an earlier answer, `unshown` the reason why it cannot
    be approved."""
    path = " -> ".join(_line(each, MAX_VALUE) for each in agents)
    again = "" if refusal is None else f"\n\nIt did not take the last answer: {_line(refusal, MAX_VALUE)}"
    never = f"\n\nThe question cannot be approved: {unshown}." if unshown else ""
    return f"**PROXY APPROVAL — A2A Agent: {path}**{again}{never}\n\n{question}"


def quoted(text: str) -> str:
    """Quote the text of another agent whole and verbatim, without formatting."""
    return "\n".join(f"> {_line(line, len(line))}" for line in text.splitlines() if line.strip())


def _block(text: str) -> str:
    """Return a text whole and verbatim, as a code block."""
    fence = _fence(text, 3)
    return f"{fence}\n{visible(text)}\n{fence}" if text.strip() else "(empty)"


def _fence(text: str, shortest: int) -> str:
    """Backticks that are more than any run of them in a text."""
    return "`" * max(shortest, 1 + max(map(len, re.findall("`+", text)), default=0))


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return _line(text, MAX_VALUE)


def _cut_texts(value: Any) -> Any:
    """Shorten every long text inside a value, so that none pushes the others out of view."""
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
    return f"{text[:head]}… ({len(text):,} {_CUT_NOTE}{text[-tail:]}"


def _line(text: str, limit: int) -> str:
    """Return a text verbatim on one line, in a code span if it contains Markdown."""
    cut = _cut(text, limit)
    line = "".join(
        _escaped(char) if is_hidden(cut, at) or not char.isprintable() else char
        for at, char in enumerate(cut)
    )
    if not _FORMATTING.search(line):
        return line
    fence = _fence(line, 1)
    return f"{fence} {line} {fence}" if "`" in line or line != line.strip() else f"{fence}{line}{fence}"


def _escaped(char: str) -> str:
    """Escape a character as in JSON."""
    return "\\u007f" if char == "\x7f" else json.dumps(char)[1:-1]
