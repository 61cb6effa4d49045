"""What lists are made of: tools, and conversations from their summaries, without folding anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import attrs

from stopgo.actors.head import Head, head_of_summary
from stopgo.actors.state import Conversation
from stopgo.actors.tools import Tool
from stopgo.runtime.journal.protocol import Journal, Question, Row


@attrs.frozen
class ListedTool:
    tool: Tool
    policy: Literal["run", "ask", "deny"]
    """What a call of it does outside parallel nodes."""


@attrs.frozen(eq=False)
class ConversationItem:
    """A conversation in a list."""

    id: str
    head: Head
    created: float
    updated: float
    last_seq: int
    approvals: tuple[Question, ...]
    """All there ever were, oldest first."""
    conversation: Conversation | None = None
    """With everything in it, when the list was asked for in full and it can be read."""

    @property
    def pending(self) -> tuple[Question, ...]:
        return tuple(approval for approval in self.approvals if approval.state == "pending")


@attrs.frozen(eq=False)
class ConversationPage:
    conversations: tuple[ConversationItem, ...]
    tally: Mapping[str, int]
    next_cursor: str | None


async def approvals_of(journal: Journal, ids: Sequence[str]) -> Mapping[str, tuple[Question, ...]]:
    """All approvals of some conversations, oldest first."""
    found: dict[str, list[Question]] = {id: [] for id in ids}
    cursor: str | None = None
    while ids:
        page = await journal.questions(state=None, streams=ids, limit=200, cursor=cursor)
        for question in page.questions:
            found[question.stream].append(question)
        cursor = page.next_cursor
        if cursor is None:
            break
    return {id: tuple(questions) for id, questions in found.items()}


def item_of(row: Row, approvals: tuple[Question, ...], conversation: Conversation | None) -> ConversationItem:
    pending = [approval for approval in approvals if approval.state == "pending"]
    head = head_of_summary(row.summary)._replace(
        pending=tuple(approval.id for approval in pending),
        in_flight=tuple(approval.id for approval in pending if approval.body.get("in_flight")),
    )
    return ConversationItem(row.stream, head, row.created, row.updated, row.last_seq, approvals, conversation)
