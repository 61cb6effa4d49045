"""The facts of a verdict of the gate, as the event that the verdict causes stores them. Pure.

With the event, its key and the revision of the policy, the facts are all that the gate has read, so the gate
can judge the call again:

    ==============================  =================================================================
    the gate reads                  it is in
    ==============================  =================================================================
    names, server and hints of the  the event (`tool`, `server`), `own_name`, `misleading`, `facade`
    tool                            and `hints` here
    the arguments                   the event; for an `UnsentCall` `arguments`
    the node                        the event; its path is in the key; whether it is below a parallel
                                    node or a loop is in the policy
    rules and settings              the policy with the revision `policy`
    ==============================  =================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs

from .tool import Hints, Tool

_LETTERS = "rdio"
"""One for each hint in `Hints.said`."""


@attrs.frozen(kw_only=True)
class VerdictFacts:
    """The facts that an event with the call does not have itself."""

    action: Literal["run", "ask", "deny", "none"]
    """`none`: the gate did not judge the call, because there is no such tool, or the arguments do not fit."""
    policy: str
    """The revision of the policy."""
    rule: str = ""
    """The id of the rule that decided, or the setting or hint in words."""
    undecided: bool = False
    """The call asks only because that rule, with `run`, is undecided."""
    held: bool = False
    """The call asks because a halt holds it; `action` and `rule` are those of the gate."""
    hints: str = ""
    """The hints that counted: `r` readOnlyHint, `d` destructiveHint, `i` idempotentHint, `o` openWorldHint. A
    capital is true, a small letter false; the others are not given."""
    own_name: str | None = None
    """The name at the server, if it is not the name for models."""
    misleading: bool = False
    """As in `Tool`."""
    facade: str | None = None
    """The server facade, if models see the server as one tool."""
    shadows: Mapping[str, Literal["run", "ask", "deny"]] = attrs.field(factory=dict)
    """By the ids of the shadow rules that would have decided: what they would have decided."""

    def tool(self, name: str, server: str, *, contradiction_asks: bool) -> Tool:
        """The tool as the gate read it. `contradiction_asks` is that of the policy.

        Raises:
            ValueError: the hints are damaged.
        """
        return Tool(
            name,
            "",
            {},
            server,
            hints=hints_of(self.hints, contradiction_asks=contradiction_asks),
            own_name=name if self.own_name is None else self.own_name,
            facade=self.facade,
            misleading=self.misleading,
        )


@attrs.frozen(kw_only=True)
class UnsentCall(VerdictFacts):
    """The facts of a call that was not sent: its event has nothing else about it."""

    tool_name: str | None = None
    """The tool; None if there is none."""
    server: str | None = None
    fingerprint: str | None = None
    """The fingerprint of the tool."""
    arguments: Mapping[str, Any] | None = None
    """The arguments that were judged. None: those of the latest event with arguments of the call; in the
    model's reply, those inside the facade, if it called one."""


def facts_of_tool(tool: Tool) -> Mapping[str, Any]:
    """The fields of `VerdictFacts` about a tool."""
    return {
        "hints": letters_of(tool.hints),
        "own_name": None if tool.own_name == tool.name else tool.own_name,
        "misleading": tool.misleading,
        "facade": tool.facade,
    }


def letters_of(hints: Hints) -> str:
    said = zip(_LETTERS, hints.said, strict=True)
    return "".join(letter.upper() if value else letter for letter, value in said if value is not None)


def hints_of(letters: str, *, contradiction_asks: bool = False) -> Hints:
    """The hints with these letters. Raises ValueError for any other text."""
    said = {letter.lower(): letter.isupper() for letter in letters}
    hints = Hints(*map(said.get, _LETTERS), contradiction_asks=contradiction_asks)
    if letters_of(hints) != letters:
        raise ValueError(f"{letters[:40]!r} are not the letters of hints")
    return hints
