"""The tools that a provider refuses: which ones an error names, and what is remembered of them.

The rules:

* Only the statuses 400 and 422 refuse a request for what is in it.
* A tool is named by its place in the request (`tools.3.custom.input_schema`, `tools[3].function`,
  `function_declarations[3]`, the `loc` of a validation error), or else by its name in a sentence about
  schemas.
* `model.py` sends the request again without the named tools. If that succeeds, the model gets no such tool
  any more until the tool changes.

Sources, read on 2026-11-28: github.com/anthropics/claude-code/issues/63673 (Anthropic),
github.com/ogx-ai/ogx/issues/3004 (OpenAI), github.com/decolua/9router/pull/3018 and
github.com/vercel/ai/pull/19000 (Gemini), github.com/duolahypercho/codex-router/issues/219 (xAI).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from ....runtime.json_text import load_provider
from ..codecs.codec import wire_name
from ..messages.messages import ModelFailed, ModelRequest, ModelTool

MAX_ROUNDS = 8
"""How often one call is tried without tools that were refused. OpenAI names one tool at a time."""
_STATUSES = (400, 422)
_MAX_NESTED = 3
"""Errors within errors, as gateways pass them on."""
_PLACE = re.compile(
    r"function_?declarations\[(\d+)\]|\btools\.(\d+)\b|\btools\[(\d+)\](?!\.function_?declarations)",
    re.IGNORECASE,
)
_ABOUT_SCHEMAS = re.compile(r"schema|function_?\s?declaration|parameters", re.IGNORECASE)


def named_tools(failure: ModelFailed, tools: Sequence[ModelTool]) -> tuple[ModelTool, ...]:
    """The tools that a provider's refusal names, in their order. `tools` are those of the request."""
    if failure.status not in _STATUSES:
        return ()
    sentences = list(_sentences(failure.answer, _MAX_NESTED))
    places = {
        int(number) for each in sentences for found in _PLACE.findall(each) for number in found if number
    }
    named = {n for n in places if n < len(tools)}
    if not named:
        about = [each for each in sentences if _ABOUT_SCHEMAS.search(each)]
        named = {n for n, tool in enumerate(tools) if any(_names(tool, each) for each in about)}
    return tuple(tools[n] for n in sorted(named))


def _names(tool: ModelTool, sentence: str) -> bool:
    name = re.escape(wire_name(tool.name))
    return re.search(rf"""['"`“‘]{name}['"`”’]|(?:function|tool|\]) {name}:""", sentence) is not None


def _sentences(answer: Any, nested: int) -> Iterator[str]:
    """The texts of an answer, which may be JSON, and JSON within JSON."""
    match answer:
        case str():
            if nested and answer.lstrip()[:1] in ("{", "["):
                try:
                    yield from _sentences(load_provider(answer), nested - 1)
                except ValueError:
                    yield answer
            else:
                yield answer
        case list():
            yield ".".join(str(each) for each in answer if isinstance(each, str | int))
            for each in answer:
                if isinstance(each, dict | list):
                    yield from _sentences(each, nested)
        case dict():
            for each in answer.values():
                yield from _sentences(each, nested)


@attrs.define(eq=False)
class RefusedTools:
    """The refused tools of one model, while its actor runs."""

    model: str = ""
    """The name of the model."""
    _tools: dict[str, ModelTool] = attrs.field(factory=dict)

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warning(tool) for tool in self._tools.values())

    def _warning(self, tool: ModelTool) -> str:
        return (
            f'model "{self.model}" does not get the tool "{tool.name}", because its provider refuses the '
            "tool's definition"
        )

    def remember(self, tools: Sequence[ModelTool]) -> None:
        self._tools |= {tool.name: tool for tool in tools}

    def without(self, request: ModelRequest) -> ModelRequest:
        """The request without the refused tools. A tool that has changed is no longer refused."""
        if not self._tools:
            return request
        for tool in request.tools:
            if self._tools.get(tool.name, tool) != tool:
                del self._tools[tool.name]
        return without_tools(request, tuple(self._tools.values()))


def without_tools(request: ModelRequest, tools: Sequence[ModelTool]) -> ModelRequest:
    names = {tool.name for tool in tools}
    return attrs.evolve(request, tools=tuple(tool for tool in request.tools if tool.name not in names))
