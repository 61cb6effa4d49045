"""Items and pages of the lists of tools, approvals and conversations.

Conversations are listed from their summaries, without a fold of their events.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import attrs

from ...config.sections.agent_config import AgentConfig
from ...runtime.journal.errors import StreamDamaged
from ...runtime.journal.protocol import Journal
from ...runtime.journal.question import MOST_BYTES
from ...runtime.journal.summary import Page, Row
from ...runtime.json_text import dump_wire
from ..approvals.kinds import Approval
from ..gate.gate import Action, PolicyScope, judge, offered, policy_scopes, root_scope
from ..log.fold import stored
from ..log.fold.head import Head, Headed
from ..log.fold.record import Message
from ..log.fold.state import Conversation
from ..tools.catalogue import Catalogue, ToolGroup
from ..tools.facade import facade_tool
from ..tools.tool import Tool

MOST_EVALUATIONS = 20_000
"""Maximum number of rule evaluations. If more are needed, the verdicts per node are omitted."""


@attrs.frozen
class ListedTool:
    """A tool that models can call."""

    tool: Tool
    """Its definition."""
    policy: Action
    """The gate's verdict on a call without arguments at the root. For a server facade: `ask` if any of its
    tools asks, else `run` if any runs."""
    nodes: tuple[tuple[str, Action], ...] | None = None
    """The same verdict in each node that may use the tool, by the node's name. None: there is no tree, or the
    verdicts would take too long."""
    held: tuple[Tool, ...] = ()
    """The tool itself, or those behind the facade, whose weaker listed hints wait for acceptance."""


_FACADE_PRECEDENCE: tuple[Action, ...] = ("ask", "run", "deny")


def callers(config: AgentConfig, tools: int) -> Sequence[PolicyScope] | None:
    """The policy scopes of the nodes that call tools; None without a tree, or if verdicts on so many tools in
    each of them would take too long."""
    scopes = [scope for node, scope in policy_scopes(config.agent, root_scope(config)) if node.KIND.calls]
    many = tools * sum(1 + len(scope.policy.rules) for scope in scopes) > MOST_EVALUATIONS
    return scopes if config.has_tree and not many else None


def listed_tools(
    group: ToolGroup, policy_scope: PolicyScope, scopes: Sequence[PolicyScope] | None = None
) -> Iterator[ListedTool]:
    """The tools of a server, or its facade, with the gate's verdicts at this policy scope and at callers."""
    if group.facade is None:
        for tool in group.tools:
            yield _listed(tool, (tool,), policy_scope, scopes)
    elif group.tools:
        facade = facade_tool(group.facade, group.server.name, group.tools)
        yield _listed(facade, group.tools, policy_scope, scopes)


def listed_agents(
    catalogue: Catalogue, policy_scope: PolicyScope, scopes: Sequence[PolicyScope] | None = None
) -> Iterator[ListedTool]:
    """The agents to which this policy scope or one of the callers may delegate work."""
    for tool in catalogue.agents:
        if offered(tool, policy_scope):
            yield _listed(tool, (tool,), policy_scope, scopes)


def _listed(
    tool: Tool, inner: Sequence[Tool], policy_scope: PolicyScope, scopes: Sequence[PolicyScope] | None
) -> ListedTool:
    """`inner`: the tools that are called by it, which is the tool itself or those behind a facade."""

    def policy(scope: PolicyScope, judged: Iterable[Tool]) -> Action:
        found = {judge(each, {}, scope).action for each in judged}
        return next(action for action in _FACADE_PRECEDENCE if action in found)

    nodes: tuple[tuple[str, Action], ...] | None = None
    if scopes is not None:
        usable = ((scope, [each for each in inner if offered(each, scope)]) for scope in scopes)
        nodes = tuple((scope.node, policy(scope, tools)) for scope, tools in usable if tools)
    return ListedTool(tool, policy(policy_scope, inner), nodes, tuple(each for each in inner if each.held))


@attrs.frozen
class LogEnd:
    """The end of a conversation's log."""

    session_id: str
    last_seq: int


@attrs.frozen(eq=False)
class ConversationItem(Headed):
    """A conversation in a list."""

    id: str
    """UUID of the conversation."""
    head: Head
    created: float
    updated: float
    last_seq: int
    """The seq of the last event."""
    approvals: tuple[Approval, ...]
    """All approvals of the conversation, oldest first."""
    conversation: Conversation | None = None
    """The whole conversation, if the list was requested in full and the conversation was not deleted
    meanwhile."""

    @property
    def pending_approvals(self) -> tuple[Approval, ...]:
        """The approvals that wait for a decision, oldest first."""
        return tuple(approval for approval in self.approvals if approval.state == "pending")


@attrs.frozen(eq=False)
class ConversationPage:
    """A page of conversations."""

    conversations: tuple[ConversationItem, ...]
    """Newest first."""
    summary: Mapping[str, int]
    """The number of all conversations by status, regardless of the filters."""
    next_cursor: str | None
    """The `cursor` of the next page, if there is one."""
    broken: Mapping[str, str] = attrs.field(factory=dict)
    """The reasons why conversations of this page cannot be read, by conversation id."""


@attrs.frozen(eq=False)
class ApprovalPage:
    """A page of approvals."""

    approvals: tuple[Approval, ...]
    """Oldest first."""
    next_cursor: str | None
    """The `cursor` of the next page, if there is one."""
    broken: Mapping[str, str] = attrs.field(factory=dict)
    """The reasons why approvals of this page cannot be read, by conversation id."""


_FRAME = 200
"""Bytes of a message in an answer beside its texts."""


ReadListed: TypeAlias = Callable[[Row, Sequence[Approval]], Awaitable[Conversation | None]]
"""Reads a conversation, given its row and its approvals."""


async def conversation_page(page: Page, journal: Journal, read: ReadListed | None) -> ConversationPage:
    """Complete a page of rows with their approvals and, if `read` is given, the whole conversations. It ends
    early when its approvals, or its messages, reach `MOST_BYTES`; the first conversation is always on it."""
    count, approvals, damaged = await stored.approvals_within(journal, [row.stream for row in page.rows])
    page = page.first(count)
    items: list[ConversationItem] = []
    broken = dict(damaged)
    left = MOST_BYTES
    for number, row in enumerate(page.rows, 1):
        if row.stream in broken:
            continue
        try:
            conversation = None if read is None else await read(row, approvals[row.stream])
            items.append(_item(row, approvals[row.stream], conversation))
        except StreamDamaged as error:
            broken[row.stream] = error.why
            continue
        if conversation is not None:
            left -= sum(map(size_of, conversation.messages))
        if left <= 0:
            page = page.first(number)
            broken = {id: why for id, why in broken.items() if id in {row.stream for row in page.rows}}
            break
    return ConversationPage(tuple(items), page.tally, page.next_cursor, broken)


def size_of(message: Message) -> int:
    """About the bytes of a message in an answer."""
    call = message.call
    if call is None:
        return len(message.content) + _FRAME
    return 2 * len(message.content) + len(dump_wire(call.arguments)) + _FRAME


def _item(row: Row, approvals: tuple[Approval, ...], conversation: Conversation | None) -> ConversationItem:
    """Make the item of a row. Raises `StreamDamaged` if the row's summary cannot be read."""
    pending = [approval for approval in approvals if approval.state == "pending"]
    head = stored.head_of(row)._replace(
        pending=tuple(approval.id for approval in pending),
        in_flight=tuple(approval.id for approval in pending if approval.asked.in_flight),
    )
    return ConversationItem(row.stream, head, row.created, row.updated, row.last_seq, approvals, conversation)
