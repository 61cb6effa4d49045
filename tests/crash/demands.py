"""What a server wants for a call: a token that is good for it, and answers, before the call or amid it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import attrs
import trio

from stopgo.actors.tools.tool import (
    CallTool,
    Elicitation,
    ElicitationAnswer,
    ToolAuthRequired,
    ToolInputRequired,
)

WEAK, GOOD, FRESH = "token-weak", "token-good", "token-fresh"

FORM = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "how": {"type": "string", "default": "kindly"}},
    "required": ["to"],
}
"""Whoever answers says to which question, so that an answer to another one is noticed."""

IMPATIENCE = 30.0
"""Seconds."""

NUMBER = re.compile(r" \(question \d+\)")
"""Tells the questions about one call apart."""


class Asker(Protocol):
    wrongs: list[str]
    asked: Counter[str]
    visited: set[str]


@attrs.frozen
class Demands:
    """By labels of calls."""

    tokens: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    """The token without which a call is refused, and the one it takes once its server has asked something."""
    locked: bool = False
    """The server lists its tools to nobody who has not shown a token."""
    first: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    """What is asked before anything is done: the names of the questions."""
    visits: frozenset[str] = frozenset()
    """Calls that are done only after people have visited an address."""
    amid: frozenset[str] = frozenset()
    """Calls in the middle of which something is asked; what they do they do after that."""
    impatient: frozenset[str] = frozenset()
    """Those of them that do not wait longer than `IMPATIENCE` for the answer."""

    @property
    def any_tokens(self) -> bool:
        return bool(self.tokens) or self.locked

    def check_token(self, asker: Asker, label: str, message: CallTool) -> None:
        """Raises ToolAuthRequired for any but the token that is good now."""
        if label not in self.tokens:
            return
        good = self.tokens[label][-1 if asker.asked[label] else 0]
        if message.bearer != good:
            raise ToolAuthRequired("refused", status=401 if message.bearer is None else 403)

    def check_answers(self, asker: Asker, label: str, message: CallTool) -> bool:
        """Whether people have agreed to what was asked first. Raises ToolInputRequired while they were not
        asked."""
        if label in self.visits and label not in asker.visited:
            address = Elicitation(self._say(asker, label), url="https://server.test/visit")
            raise ToolInputRequired({"visit": address}, state=str(asker.asked[label]), answers=False)
        if label not in self.first:
            return True
        if message.answers is None:
            text = self._say(asker, label)
            requests = {name: Elicitation(f"{name} {text}", FORM) for name in self.first[label]}
            raise ToolInputRequired(requests, state=text)
        if message.answers.keys() != set(self.first[label]):
            asker.wrongs.append(f"{label}: answers to {list(message.answers)}")
        agreed = [
            self._agreed(asker, f"{name} {message.state}", answer) for name, answer in message.answers.items()
        ]
        return all(agreed)

    async def ask(self, asker: Asker, label: str, message: CallTool) -> bool:
        """Whether people agree to what is asked in the middle of a call."""
        assert message.on_elicitation is not None
        text = self._say(asker, label)
        with trio.move_on_after(IMPATIENCE if label in self.impatient else math.inf):
            return self._agreed(asker, text, await message.on_elicitation(Elicitation(text, FORM)))
        return False

    def _say(self, asker: Asker, label: str) -> str:
        asker.asked[label] += 1
        return f"what of {label}? (question {asker.asked[label]})"

    def _agreed(self, asker: Asker, text: str, answer: ElicitationAnswer) -> bool:
        if answer.action == "accept" and answer.content != {"to": text, "how": "kindly"}:
            asker.wrongs.append(f"{text!r} was answered with {answer.content}")
        return answer.action == "accept"


def acceptance(text: str) -> dict[str, Any]:
    """A yes to the question with this text."""
    return {"action": "accept", "content": {"to": text}}
