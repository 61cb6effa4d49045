"""Calls that a model makes again after a person has rejected them. Pure.

Models repeat what reads like a failure. A rejection lasts for the execution of a node, so

1. an identical call (the tool, and the arguments by value) counts as rejected, and no person is asked;
2. another one ends the run, because the model does not take the answer.

Other nodes, later iterations of a loop and later turns have other reasons, so they ask again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from ...runtime.json_text import dump, same
from ..log.log import ConversationLog

AGAIN = (
    "A person has rejected this very call before. It was not carried out, and no person was asked again. "
    "Repeating it changes nothing: go on without it, or say what could not be done."
)

Repetition: TypeAlias = Literal["first", "further"]


def repetition(log: ConversationLog, key: str, tool: str, arguments: Mapping[str, Any]) -> Repetition | None:
    """Whether a call, about which a person would be asked, repeats a rejected one. `key` is the call's."""
    wanted, execution = dump(arguments), key.rpartition(":")[0]
    rejected = False
    for id, decision in log.run.decisions.items():
        asked = log.state.approvals[id].asked
        if asked.key == key or asked.key.rpartition(":")[0] != execution:
            continue
        is_same = asked.kind == "tool" and asked.tool_name == tool and same(dump(asked.tool_args), wanted)
        rejected = rejected or (is_same and decision.rejects)
    if not rejected:
        return None
    views = {other: log.state.messages[record.message].call for other, record in log.run.calls.items()}
    mine = views[key]
    assert mine is not None
    told = any(
        view is not None
        and view.state == "denied"
        and view.result == AGAIN
        and view.name == mine.name
        and same(dump(view.arguments), dump(mine.arguments))
        for other, view in views.items()
        if other != key and other.rpartition(":")[0] == execution
    )
    return "further" if told else "first"
