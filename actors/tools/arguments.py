"""The arguments of calls: brought to the types that tools ask for, and checked, before anybody looks."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import attrs

from stopgo.actors.tools.coercion import coerce
from stopgo.actors.tools.json_schema import Checker, Uncheckable
from stopgo.actors.tools.schema_check import TooSlow, find_mistakes
from stopgo.actors.tools.tool import Tool

log = logging.getLogger("stopgo.tools")

KEPT = 1000
"""Tools whose schemas are kept ready."""


@attrs.frozen
class Unfit:
    """Arguments that are of no use to the tool."""

    mistakes: tuple[str, ...]
    """What is wrong, and where."""


@attrs.define
class _Ready:
    """What is kept of one tool."""

    checker: Checker | None = None
    """None: its schema is not to be applied."""
    warned: bool = False
    empty_fits: bool = False
    """Whether a call without arguments was found to fit: that need not be looked at for each such call."""


@attrs.define(eq=False)
class Arguments:
    """Checks the arguments of an agent's calls. A schema that cannot be applied lets all pass: that it is
    badly written makes the tool no less useful, and its server looks for itself."""

    _kept: OrderedDict[str, _Ready] = attrs.field(factory=OrderedDict)
    """By fingerprint of the tool, the most recently used last."""

    async def fit(self, tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any] | Unfit:
        """The arguments as they count from here on."""
        ready = self._kept.get(tool.fingerprint) or self._prepare(tool)
        self._kept.move_to_end(tool.fingerprint)
        if ready.checker is None or (ready.empty_fits and not arguments):
            return arguments
        try:
            mistakes = await find_mistakes(arguments, ready.checker)
            if mistakes and (brought := coerce(arguments, tool.input_schema)) != arguments:
                arguments, mistakes = brought, await find_mistakes(brought, ready.checker)
        except Uncheckable as error:
            if isinstance(error, TooSlow):  # the next one would take as long
                ready.checker = None
            _warn(tool, ready, error)
            return arguments
        if mistakes:
            return Unfit(tuple(mistakes))
        ready.empty_fits = ready.empty_fits or not arguments
        return arguments

    def _prepare(self, tool: Tool) -> _Ready:
        ready = self._kept[tool.fingerprint] = _Ready()
        try:
            ready.checker = Checker(tool.input_schema)
        except Uncheckable as error:
            _warn(tool, ready, error)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return ready


def _warn(tool: Tool, ready: _Ready, error: Uncheckable) -> None:
    if not ready.warned:
        ready.warned = True
        log.warning(
            'arguments of the tool "%s" of server "%s" pass unchecked, for its schema cannot be applied: %s',
            tool.name,
            tool.server,
            error,
        )
