"""What a notification says, from what the journal holds when it is sent. Pure.

It is thin: names and ids, never arguments, results or messages, because it goes to third parties and is read
on lock screens. What it is about may be gone or over by then:

    ===========================  =======================================================================
    found                        result
    ===========================  =======================================================================
    a request that is decided    None: nothing is sent that is no longer true
    a conversation is gone       the notification says only that; of a reminder or an escalation, None
    its approval is damaged      the notification says only that, and which one it is
    anything else                the fields of its kind, and a line of text
    ===========================  =======================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from ...runtime.journal.protocol import Event
from ...runtime.journal.question import Question
from ...runtime.visible_text import visible
from ..gate.halt import NEVER, Halt
from .delivery import ChannelDelivery

GONE = "Its conversation was deleted."
DAMAGED = "It is damaged in the journal and cannot be read."
_REPEATED = ("approval.reminded", "approval.escalated")
"""Of these, nothing is told when the conversation is gone."""
_WAITING = ("approval.requested", "approval.expiring", *_REPEATED)
_OF_APPROVAL = {"tool": "tool_name", "server": "server", "node": "node", "rule": "rule"}
"""The fields of a notification about an approval, and their names in the question."""
_LONGEST = 200
"""Characters of a field."""

_TEXTS: Mapping[str, str] = {
    "approval.requested": "An approval waits",
    "approval.reminded": "An approval still waits",
    "approval.escalated": "An approval has waited too long",
    "approval.expiring": "An approval is about to expire",
    "approval.expired": "An approval has expired",
    "approval.resolved": "An approval was decided",
    "approval.void": "An approval was withdrawn",
    "tool.unknown": "The outcome of a call is unknown",
    "run.auth_required": "A run waits for a token",
    "run.failed": "A run has failed",
    "run.limit_reached": "A run has reached a limit",
    "agent.halted": "The agent is halted",
    "agent.unhalted": "The agent is no longer halted",
    "conversation.deleted": "A conversation was deleted",
    "notification.given_up": "Notifications do not arrive",
}


@attrs.frozen(kw_only=True)
class Found:
    """What the journal holds about a notification when it is sent."""

    exists: bool = True
    """Whether the conversation exists, if it is about one."""
    question: Question | None = None
    is_damaged: bool = False
    """Whether there is a question that cannot be read."""
    event: Event | None = None
    intent: Event | None = None
    """Of an unknown outcome: the event with the tool."""
    halt: Halt = NEVER
    """The latest halt that this member knows of."""


def approval_fields(question: Question) -> Mapping[str, str]:
    """The names that filters compare, of an approval."""
    given = {name: question.body.get(field) for name, field in _OF_APPROVAL.items()}
    return {name: value for name, value in given.items() if isinstance(value, str)}


def said(delivery: ChannelDelivery, found: Found, agent: str, page: str | None) -> Mapping[str, Any] | None:
    """The fields of a notification; None: it is no longer true. `page` is the address of the agent's page."""
    head: dict[str, Any] = {"agent": agent, "text": _TEXTS[delivery.kind]}
    match delivery.kind:
        case "agent.halted" if not (found.halt.stands or found.halt.number < delivery.number):
            return None
        case "agent.unhalted" if found.halt.number > delivery.number and found.halt.stands:
            return None
        case "agent.halted" | "agent.unhalted":
            return head
        case "notification.given_up":
            return {**head, "channel": delivery.other, "text": f"{head['text']}: channel {delivery.other}"}
        case "conversation.deleted":
            return {**head, "conversation_id": delivery.stream}
    head["conversation_id"] = delivery.stream
    if not found.exists:
        return _gone(delivery, head)
    if found.is_damaged:
        damaged = {"approval_id": delivery.approval, "damaged": True}
        return {**head, **damaged, "text": f"{head['text']}. {DAMAGED}"}
    if delivery.approval:
        return _about_approval(delivery, found.question, head, page)
    return _about_run(found.event, found.intent, head)


def _about_approval(
    delivery: ChannelDelivery, question: Question | None, head: dict[str, Any], page: str | None
) -> Mapping[str, Any] | None:
    if question is None:
        return _gone(delivery, head)
    if delivery.kind in _WAITING and question.state != "pending":
        return None
    fields = {name: visible(value[:_LONGEST]) for name, value in approval_fields(question).items()}
    about: dict[str, Any] = {
        "approval_id": question.id,
        "kind": question.kind,
        "state": question.state,
        **fields,
    }
    if question.expires is not None and question.state == "pending":
        about["expires_at"] = question.expires
    by = (question.decision or {}).get("decided_by")
    if isinstance(by, str):
        about["decided_by"] = visible(by[:_LONGEST])
    if delivery.reminder:
        about["reminder"] = delivery.reminder
    if page is not None:
        about["url"] = f"{page}/#/approvals/{question.id}"
    tool = f" ({fields['tool']})" if "tool" in fields else ""
    return {**head, **about, "text": f"{head['text']}{tool}"}


def _gone(delivery: ChannelDelivery, head: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if delivery.kind in _REPEATED:
        return None
    return {**head, "gone": True, "text": f"{head['text']}. {GONE}"}


def _about_run(event: Event | None, intent: Event | None, head: dict[str, Any]) -> Mapping[str, Any]:
    known, sent = ({} if each is None else each.body for each in (event, intent))
    given = {name: known.get(name) for name in ("run", "code", "server")}
    given |= {name: sent[name] for name in ("tool", "server", "node") if name in sent}
    about = {name: visible(value[:_LONGEST]) for name, value in given.items() if isinstance(value, str)}
    tool = f" ({about['tool']})" if "tool" in about else ""
    return {**head, **about, "text": f"{head['text']}{tool}"}
