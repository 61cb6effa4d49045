"""The codec of events: from values to their stored JSON and back. Pure.

Most events are stored field by field; fields that have their default are left out. The exceptions:

    =========================  ========================================================================
    value                      stored form
    =========================  ========================================================================
    `StepFinished`             the fields of the step and of its outcome in one object; an `error` makes
                               it a `StepFailed`, else `kind` names the class of the outcome
    `ApprovalRequested`        the question itself, without a wrapper
    `Need`                     an object with its `kind`
    `Decided`                  its own JSON form (`approvals/decided.py`)
    `Fault`, `NodeEnd`,        all fields, including those that have their default
    `ToolResult`
    =========================  ========================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from ....runtime.journal.protocol import Event, Json, NewEvent
from ...approvals.kinds import question_of
from ...common.errors import Fault
from ...common.stored_json import converter, exactly, from_json, store_whole, to_json
from ...tools.needs import Need, Unaskable, askable
from ...tools.tool import Elicitation, ToolResult
from . import events as e
from .outcomes import Chosen, Delegation, Ended, NodeEnd, NotSent, Replied, StepFailed, StepKind, StepOutcome


def encode(event: e.LogEvent | e.Dated) -> NewEvent:
    plain, at = (event.event, event.at) if isinstance(event, e.Dated) else (event, None)
    return NewEvent(plain.type, to_json(plain), at)


def decode(event: Event) -> e.Entry:
    """The event in its place in the log; without the event if this version does not know its type or kind.

    Raises LookupError, TypeError or ValueError if the body does not fit the type.
    """
    known = e.TYPES.get(event.type)
    if known is None or (known is e.StepFinished and _outcome_class(event.body) is None):
        return e.Entry(event.seq, event.at, None)
    return e.Entry(event.seq, event.at, from_json(event.body, known))


_OUTCOMES: Mapping[str, type[StepOutcome]] = {
    each.kind: each for each in (Replied, Delegation, Ended, Chosen, NotSent)
}


def _outcome_class(body: Json) -> type[StepOutcome] | None:
    """The class of a step's outcome; None if this version does not know the kind of step."""
    if (kind := exactly(body["kind"], str)) not in get_args(StepKind):
        return None
    return StepFailed if "error" in body else _OUTCOMES[kind]


def _step_json(step: e.StepFinished) -> dict[str, Any]:
    common = {"key": step.key, "kind": step.kind, "node": step.node, "fingerprint": step.fingerprint}
    return {**common, **to_json(step.outcome)}


def _step_of(body: Json, _: object) -> e.StepFinished:
    outcome = _outcome_class(body)
    assert outcome is not None
    common = {name: exactly(body[name], str) for name in ("key", "kind", "node", "fingerprint")}
    return e.StepFinished(**common, outcome=from_json(body, outcome))


_NEEDS: Mapping[str, type[Need]] = {each.kind: each for each in get_args(Need)}


def _need_of(body: Json | None, _: object) -> Need | None:
    if body is None:
        return None
    whole = {"state": None, **body}  # `state` may be left out
    return from_json(whole, _NEEDS[body["kind"]])


def _need_json(need: Need) -> dict[str, Any]:
    return {"kind": need.kind, **to_json(need)}


def _request_of(body: Json, _: object) -> Elicitation | Unaskable:
    if "unaskable" in body:
        return from_json(body, Unaskable)
    return askable(from_json(body, Elicitation))


for _whole in (Fault, NodeEnd, ToolResult):
    store_whole(_whole)
converter.register_structure_hook(Need | None, _need_of)
converter.register_structure_hook(Elicitation | Unaskable, _request_of)
converter.register_unstructure_hook(Need | None, _need_json)
converter.register_structure_hook(e.ApprovalRequested, lambda body, _: e.ApprovalRequested(question_of(body)))
converter.register_unstructure_hook(e.ApprovalRequested, lambda event: event.asked.to_json())
converter.register_structure_hook(e.StepFinished, _step_of)
converter.register_unstructure_hook(e.StepFinished, _step_json)
