"""What a person at the terminal has to see before a decision counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import pytest

from stopgo.actors.approvals.asked import Asked, Occasion
from stopgo.actors.approvals.description import describe, describe_elicitation
from stopgo.actors.approvals.elicitation_approval import ElicitationQuestion
from stopgo.actors.approvals.tool_approval import ToolQuestion
from stopgo.actors.common.errors import AgentError
from stopgo.gateway.cli.chat.deciding import ask_for_words, tell_refusal
from stopgo.gateway.cli.terminal.terminal import Style
from stopgo.runtime.journal.question import Question

LONG = "x" * 2000 + "; rm -rf /" + "x" * 2000
OCCASION = Occasion(id="q", question="q", key="k", node="n")


@attrs.define
class Typist:
    """Types these lines, and keeps what it is told."""

    lines: list[str]
    told: list[str] = attrs.field(factory=list)

    async def ask(self, prompt: str) -> str | None:
        return ""

    async def ask_reply(self, question: Asked[Any]) -> str | None:
        return self.lines.pop(0) if self.lines else None

    async def edit(self, asked: Asked[Any]) -> Mapping[str, Any] | None:
        return {"text": "short"}

    def tell(self, text: str, style: Style = "plain") -> None:
        self.told.append(text)


def call(text: str) -> Asked[Any]:
    return ToolQuestion(
        **attrs.asdict(OCCASION),
        tool_name="run",
        tool_args={"text": text},
        description=describe("run", {"text": text}),
        server="shell",
        input_schema={},
        tool_fingerprint="",
    )


def question(text: str) -> Asked[Any]:
    return ElicitationQuestion(
        **attrs.asdict(OCCASION),
        tool_name="run",
        tool_args={},
        description=describe_elicitation("shell", text, None),
        message=text,
        in_flight=False,
        input_schema={"type": "object"},
    )


REFUSED = "A part is left out above"


@pytest.mark.parametrize(
    ("asked", "lines", "words"),
    [
        (call("short"), ["y"], {"approved": True}),
        (call(LONG), ["y"], None),
        (call(LONG), ["e"], {"approved": True, "arguments": {"text": "short"}}),
        (call(LONG), ["n"], {"approved": False}),
        (call(LONG), ["?", "y"], {"approved": True}),
        (question(LONG), ["a"], None),
        (question(LONG), ["d"], {"action": "decline"}),
        (question(LONG), ["?", "a"], {"action": "accept", "content": {}}),
    ],
)
async def test_nothing_is_approved_whose_middle_was_not_shown(
    asked: Asked[Any], lines: Sequence[str], words: Mapping[str, Any] | None
) -> None:
    person = Typist(list(lines))
    assert await ask_for_words(person, asked) == words
    assert any(REFUSED in each for each in person.told) == (words is None)
    if "?" in lines:
        assert LONG in "".join(person.told)


FIRST = {
    "tool_args": {"path": "/a", "n": 1},
    "decision": {
        "approved": True,
        "arguments": {"path": "/b", "n": 1},
        "decided_by": "maria",
        "reason": "safer",
        "decided_at": "2026-11-25T01:47:04.556Z",
    },
}
LATE = Question("q", "c", "tool", "decided", {"tool_args": {}}, {"approved": False}, 0.0, None, 0.0)


@pytest.mark.parametrize(
    ("approval", "sent", "told"),
    [
        (
            FIRST,
            {"approved": False, "reason": "not on Fridays"},
            [
                'It was approved at 2026-11-25T01:47:04.556Z by maria, edited: path="/a" -> "/b": safer.',
                "You had typed: not on Fridays",
            ],
        ),
        (
            {"decision": {"action": "done", "decided_at": "then"}},
            {"approved": True, "arguments": {"path": "/c"}},
            ["It was done at then.", 'You had typed: {"path": "/c"}'],
        ),
        (LATE, {"approved": True}, ["It was rejected at 1970-01-01T00:00:00.000Z."]),
        ({"state": "expired"}, {"reason": "late"}, ["You had typed: late"]),
        (None, {"reason": "nothing was decided"}, []),
    ],
)
def test_loser_of_a_race_is_told_what_won_and_keeps_the_text(
    approval: Any, sent: Mapping[str, Any], told: Sequence[str]
) -> None:
    person = Typist([])
    details = {} if approval is None else {"approval": approval}
    tell_refusal(person, AgentError("already_decided", "the approval was decided", details=details), sent)
    assert person.told == ["the approval was decided", *told]
