"""The model `offline:rules`: one tool call for one simple sentence.

A sentence is a verb, words that name a tool, and values. The model works in four steps:

1. `split` makes words of the sentence; its first verb counts.
2. Each tool whose name or description offers this verb gets an `Understanding`: the arguments that the words
   could be, and the words that are left over.
3. The one with the best score wins. A tie becomes a question to the user.
4. A missing argument, a second verb or a leftover value becomes a question as well. A call that changes
   something is made only if every word of the sentence is accounted for.

After a call, the reply is its result in words (`result_summary.py`).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import attrs
import trio

from ..messages.argument_schema import accepted_types, parse_number, properties, required
from ..messages.messages import Emit, ModelReply, ModelRequest, ModelTool, ToolCall
from . import vocabulary
from .result_summary import summarise
from .vocabulary import Word, doubt, kinds, name_words, noun, split

_ID_SHAPE = re.compile(r"[0-9]{6,}")
_MARK = re.compile(r"\[MCP:[^]]*\] ")
"""Before the description that the tool's server gives."""
_BY_POSITION = ("pattern", "name", "query")
"""Optional arguments that take a value without a word that announces it."""
_NO_VALUES = vocabulary.FILLERS | vocabulary.MATCHING
_TOOLS_SHOWN = 30


class Understanding:
    """The meaning of a sentence under the assumption that it asks for this tool."""

    def __init__(self, tool: ModelTool, verb: str, words: list[Word]) -> None:
        self.tool = tool
        self.verb = verb
        self.changes = not kinds(verb) <= vocabulary.READING
        self.parameters = properties(tool.input_schema)
        self.arguments: dict[str, Any] = {}
        self.mentioned: set[str] = set()
        """Words of the sentence that are in the tool's name or description."""
        self.conflicts: list[str] = []
        """Further verbs, of another kind."""
        self.free: list[Word] = []
        """Words without a meaning so far."""
        self._names = name_words(tool.name)
        self._nouns = {noun(word) for word in self._names if not kinds(word)} - vocabulary.FILLERS
        described = {noun(word) for word in re.findall(r"\w+", _description(tool).casefold())}
        self._described = described - vocabulary.NOUNS.keys() - self._nouns
        strange = self._sort(words)
        self._bind_required()
        self._bind_optional()
        self.free += strange

    @property
    def missing(self) -> list[str]:
        return [name for name in required(self.tool.input_schema) if name not in self.arguments]

    @property
    def is_vague(self) -> bool:
        """Whether the sentence may be about something other than the tool."""
        if not self.verb:
            return bool(self.free) or not self.mentioned
        unsure = self.free or self.verb in vocabulary.ASKING
        return bool(unsure) and not self.mentioned and not self.changes

    def score(self) -> int:
        """How much of the sentence and of the tool's name this reading explains."""
        named = any(kinds(word) & kinds(self.verb) for word in self._names)
        score = 3 if self.verb in self._names else 2 if named else 1
        heads = {noun(word) for word in self.mentioned}
        score += 2 * len(heads & self._nouns) + len(self.mentioned & set(self._names))
        score += len(heads & self._described) - len(self._nouns - heads)
        return score - 2 * sum(word.is_value for word in self.free)

    def _sort(self, words: list[Word]) -> list[Word]:
        """Sort the words by their meaning. A value that the name of an argument announces is bound at once.

        Returns the words that cannot be values: they name other things than the tool manages, or announce
        a value that does not follow.
        """
        announced = vocabulary.markers(self.parameters)
        strange: list[Word] = []
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word.key in announced and self._bind_announced(announced, word.key, rest):
                continue
            if word.key in vocabulary.VALUED and word.key not in announced and rest and rest[0].is_value:
                strange += [word, rest.pop(0)]
                continue
            if word.key in vocabulary.FILLERS or word.key == self.verb:
                continue
            if not word.is_value and (
                word.key in self._names or noun(word.key) in self._nouns | self._described
            ):
                self.mentioned.add(word.key)
            elif not self.changes and vocabulary.is_inflected(word.key):
                self.conflicts.append(word.key)
            elif not kinds(word.key):
                is_strange = noun(word.key) in vocabulary.NOUNS or word.key in announced
                (strange if is_strange else self.free).append(word)
            elif not kinds(word.key) & kinds(self.verb):
                self.conflicts.append(word.key)
        return strange

    def _bind_announced(self, announced: Mapping[str, str], marker: str, rest: list[Word]) -> bool:
        name = announced[marker]
        at = next((index for index, word in enumerate(rest) if word.key not in vocabulary.LINKS), None)
        if at is None or name in self.arguments or rest[at].key in _NO_VALUES | announced.keys():
            return False
        bound = self._bind(name, rest[at], literal=marker in vocabulary.NAMING)
        if bound:
            del rest[: at + 1]
        return bound

    def _bind_required(self) -> None:
        texts = 0
        for name in self.missing:
            numeric = bool(accepted_types(self.parameters.get(name, {})) & {"integer", "number"})
            fitting = [word for word in self.free if self._fits(name, word, numeric)]
            # A call that changes something must not guess which of two texts is the path.
            if not fitting or (self.changes and not numeric and texts):
                continue
            word = fitting[0] if numeric else min(fitting, key=partial(_unlikeliness, name))
            self._bind(name, word, literal=True)
            self.free.remove(word)
            texts += not numeric

    def _bind_optional(self) -> None:
        # Words that look like values come first, because the others may still have another meaning.
        open_words = [word for word in self.free if _may_be_value(word, self.changes)]
        for word in sorted(open_words, key=lambda word: not word.is_value):
            is_id = "id" in self.parameters and _ID_SHAPE.fullmatch(word.text)
            for name in ("id",) if is_id else _BY_POSITION:
                open_to_it = name in self.parameters and name not in self.arguments
                if open_to_it and self._bind(name, word, literal=True):
                    self.free.remove(word)
                    break

    def _fits(self, name: str, word: Word, numeric: bool) -> bool:
        value = _convert(word, self.parameters.get(name, {}))
        meant = _may_be_value(word, self.changes or bool(self.mentioned))
        return meant and isinstance(value, int | float if numeric else str)

    def _bind(self, name: str, word: Word, *, literal: bool) -> bool:
        """Use a word as an argument if its type fits. `literal`: a pattern matches only this text."""
        schema = self.parameters.get(name, {})
        value = _convert(word, schema)
        regex = self.changes or "regex" in f"{self.tool.description} {schema.get('description')}"
        if literal and name == "pattern" and regex and isinstance(value, str):
            value = f"^{re.escape(value)}$"
        if value is not None:
            self.arguments[name] = value
        return value is not None


@attrs.frozen
class RulesModel:
    """The `Model` `offline:rules`."""

    async def complete(self, request: ModelRequest, emit: Emit) -> ModelReply:
        """Reply with a call, a question to the user, or results in words. Never fails."""
        await trio.lowlevel.checkpoint()
        if request.results:
            return ModelReply(summarise(request.results))
        decision = decide(request.user, request.tools)
        if isinstance(decision, str):
            return ModelReply(decision)
        name, arguments = decision
        return ModelReply(
            tool_calls=(ToolCall(f"call_{request.call}_0", name, arguments),), stop="tool_calls"
        )


def decide(text: str, tools: tuple[ModelTool, ...]) -> tuple[str, dict[str, Any]] | str:
    """The name and the arguments of the call that a sentence asks for, or a text to reply with instead."""
    words = split(text, [tool.name for tool in tools])
    verb = next((word.key for word in words if kinds(word.key)), "")
    readings = [Understanding(tool, verb, words) for tool in tools if _offers(tool, verb)]
    readings = [reading for reading in readings if not reading.is_vague]
    best = max((reading.score() for reading in readings), default=0)
    leading = [reading for reading in readings if reading.score() == best]
    if len(leading) > 1:
        names = " or ".join(reading.tool.name for reading in leading)
        return f"Did you mean {names}? Please say it again with the name of the tool."
    if not leading:
        return _help(tools)
    reading = leading[0]
    return _question(reading, words) or (reading.tool.name, reading.arguments)


def _offers(tool: ModelTool, verb: str) -> bool:
    """Whether the tool's name, or the first word of its description, is a verb of the same kind.

    Without a verb, any tool without a changing verb in its name qualifies.
    """
    named = name_words(tool.name)
    if not verb:
        return all(kinds(word) <= vocabulary.READING for word in named)
    begins = [noun(word) for word in _description(tool).casefold().split()[:1]]
    return any(kinds(word) & kinds(verb) for word in [*named, *begins])


def _question(reading: Understanding, words: list[Word]) -> str | None:
    """The question to the user that must be answered before the call; None: there is none."""
    call = _signature(reading.tool)
    unsure = doubt(words, reading.verb) if reading.changes else None
    # After `and`, a word that is not understood may be another verb.
    second = {after.key for word, after in pairwise(words) if word.key in ("and", "then")}
    telling = vocabulary.MATCHING | vocabulary.PARTICLES | second
    heavy = [word for word in reading.free if word.is_value or word.key in telling]
    unclear = [repr(word.text) for word in (reading.free if reading.changes else heavy)]
    nothing_said = reading.changes and reading.parameters and not reading.arguments
    if reading.conflicts:
        return f"One thing at a time, please: did you mean {call}, or to {reading.conflicts[0]}?"
    if unsure is not None:
        return f"I am not sure about {call}: you said '{unsure}'. Please say what to do, names in quotes."
    if reading.missing or nothing_said:
        needed = " and ".join(reading.missing) or " or ".join(reading.parameters)
        return f"To call {call} I need {needed}. Please say all of it in one sentence."
    if unclear:
        words_left = ", ".join(unclear)
        return (
            f"I would call {call}, but what about {words_left}? One thing at a time, long values in quotes."
        )
    return None


def _may_be_value(word: Word, any_word: bool) -> bool:
    """Whether a word can be an argument. `any_word`: also one that does not look like a value."""
    return word.is_value or (any_word and word.key not in vocabulary.MATCHING)


def _unlikeliness(name: str, word: Word) -> tuple[bool, bool]:
    """A sort key for the words that an argument could be: numbers last, paths first for a path."""
    return word.text.isdecimal(), ("/" in word.text) != ("path" in name)


def _convert(word: Word, schema: Mapping[str, Any]) -> Any:
    """The word as a value that the schema accepts; None: it is not one."""
    types = accepted_types(schema)
    number = None if word.quoted and "string" in types else parse_number(word.text, types)
    if number is not None:
        return number
    if "boolean" in types and word.key in vocabulary.TRUTHS:
        return vocabulary.TRUTHS[word.key]
    allowed = schema.get("enum")
    is_text = not types or "string" in types
    return word.text if is_text and (not isinstance(allowed, list) or word.text in allowed) else None


def _description(tool: ModelTool) -> str:
    return _MARK.sub("", tool.description, count=1)


def _signature(tool: ModelTool) -> str:
    return f"{tool.name}({', '.join(properties(tool.input_schema))})"


def _help(tools: tuple[ModelTool, ...]) -> str:
    intro = "I am not a language model, only rules for simple sentences, and I did not understand this one."
    shown = [(_signature(tool), textwrap.shorten(_description(tool), 120)) for tool in tools[:_TOOLS_SHOWN]]
    lines = [f"- {signature}: {description}" for signature, description in shown]
    more = [f"- and {len(tools) - _TOOLS_SHOWN} more"] if len(tools) > _TOOLS_SHOWN else []
    return "\n".join([f"{intro} {'I can call:' if tools else 'No tools are connected.'}", *lines, *more])
