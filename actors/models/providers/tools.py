"""What providers demand of tools: their names, and the ids of calls. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping

from stopgo.actors.models.messages import ModelTool
from stopgo.actors.tools.names import hashed, plain_name

ANY_ID = re.compile(r".*", re.DOTALL)
"""For who tells no ids of ours."""


def wire_name(name: str) -> str:
    """The name if every provider takes it, else one made of it that differs from all others."""
    taken = plain_name(name)
    return name if taken == name else hashed(taken, name)


def own_names(tools: Iterable[ModelTool]) -> Mapping[str, str]:
    """From the names a provider was told to the tools' own, where they differ."""
    return {wire_name(tool.name): tool.name for tool in tools if wire_name(tool.name) != tool.name}


class CallIds:
    """Gives every call of a history an id that its provider takes and that no other call has.

    The same history gets the same ids each time it is sent, also when more has followed.
    """

    def __init__(self, valid: re.Pattern[str]) -> None:
        self._valid = valid
        self._given: set[str] = set()

    def give(self, id: str) -> str:
        number = len(self._given)
        while not self._valid.fullmatch(id) or id in self._given:
            # Nine letters and digits are what the strictest of them wants.
            id = hashlib.sha256(f"{number} {id}".encode(errors="replace")).hexdigest()[:9]
        self._given.add(id)
        return id
