"""Calls that a model makes again after a person has rejected them. Pure.

Models repeat what reads like a failure. A rejection lasts for the run, in all of its nodes and iterations:

1. A call repeats a rejected one if it has the same tool and, by value, the arguments of one of its questions:
   as the model made them, or as a person edited them.
2. It counts as rejected, and no person is asked.
3. If it is made again in the same execution of a node, after the model has read so, the run ends, because the
   model does not take the answer. Other executions (iterations, attempts, other nodes) have not read it.

A call that has been sent, or about which a person has been asked, is none of these. In later runs a person is
asked again, and told of the rejection (`rejected_earlier`). A question that expired counts as it does
elsewhere: `on_expiry: reject` rejects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from ...runtime.json_text import dump, same
from ..approvals.decided import Decided, Expired
from ..approvals.kinds import Approval, decision_of
from ..log.words import keys
from ..log.writer.log import ConversationLog


@attrs.frozen
class Repetition:
    of: str
    """The id of the approval that was rejected."""
    text: str
    """The result for the model."""
    is_told: bool
    """Whether the model has been told before."""


def repetition(
    log: ConversationLog, key: str, server: str, tool: str, arguments: Mapping[str, Any]
) -> Repetition | None:
    """The repetition that a call is about which a person would be asked; None for another call."""
    run, record = log.run, log.run.calls[key]
    questions = [log.state.approvals[id] for id in run.asked.values()]
    if record.started is not None or any(each.asked.key == key for each in questions):
        return None
    rejected = {
        each.asked.key: each.id for each in questions if _is_rejected(each, run.decisions.get(each.id))
    }
    alike = _about((each for each in questions if each.asked.key in rejected), server, tool, arguments)
    if not (ids := {rejected[each.asked.key] for each in alike}):
        return None
    last = next(id for id in reversed(run.decisions) if id in ids)
    is_told = any(
        each.repeats in ids
        and keys.node_of(other) == keys.node_of(key)
        and keys.reply_of(other) != keys.reply_of(key)
        for other, each in run.calls.items()
    )
    return Repetition(last, answer_after(run.decisions[last]), is_told)


def _is_rejected(approval: Approval, decision: Decided | None) -> bool:
    return approval.kind == "tool" and decision is not None and decision.rejects


def answer_after(decision: Decided) -> str:
    """The result of a call that repeats a rejected one, for the model."""
    expired = isinstance(decision, Expired)
    end = "This very call was not approved in time" if expired else "A person has rejected this very call"
    why = f" Reason: {decision.reason}" if decision.reason else ""
    return (
        f"{end}, earlier in this turn. It was not carried out, and no person was asked again. Repeating it "
        f"changes nothing: go on without it, or say what could not be done.{why}"
    )


def rejected_earlier(
    log: ConversationLog, server: str, tool: str, arguments: Mapping[str, Any]
) -> str | None:
    """The id of the latest approval in which a person rejected the same call, in an earlier run."""
    of_this_run = set(log.run.asked.values())
    earlier = (each for id, each in log.state.approvals.items() if id not in of_this_run)
    ids = [each.id for each in _about(earlier, server, tool, arguments) if _is_rejected_by_person(each)]
    return ids[-1] if ids else None


def _is_rejected_by_person(approval: Approval) -> bool:
    decision = None if approval.decision is None else decision_of(approval.decision)
    return decision is not None and decision.rejects and not isinstance(decision, Expired)


def _about(
    approvals: Iterable[Approval], server: str, tool: str, arguments: Mapping[str, Any]
) -> Iterator[Approval]:
    """Those about a call of this tool with these arguments."""
    wanted = dump(arguments)
    for each in approvals:
        asked = each.asked
        if (asked.kind, asked.server, asked.tool_name) == ("tool", server, tool):
            shown = (asked.tool_args, each.shown.tool_args)
            if any(same(dump(given), wanted) for given in shown):
                yield each
