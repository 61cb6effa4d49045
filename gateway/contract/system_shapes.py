"""Shapes of tools, health, errors and the list of operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

from ...actors.gate.gate import Action
from ...actors.gate.halt import MAX_REASON
from ...actors.notify.delivery import DeliveryState
from ...config.sections.notify import NoticeKind
from ..http.chunked_json import Parted
from .declaration import Shape, about, maybe
from .shapes import Approval, Conversation, Result, Time


class Alive(Shape):
    """The answer of a process that is alive."""

    status: Literal["ok"] = about("Always `ok`.")
    policy: str = about("The revision of the policy of new runs.")


class Hints(Shape):
    """A tool's annotations, with the names of MCP. An annotation that the server does not give is absent."""

    readOnlyHint: bool | None = maybe("Whether the tool changes nothing.")
    destructiveHint: bool | None = maybe("Whether the tool may destroy something.")
    idempotentHint: bool | None = maybe("Whether a repeated call has no further effect.")
    openWorldHint: bool | None = maybe("Whether the tool reaches beyond its server. The gate ignores it.")


class HeldTool(Shape):
    """A tool whose server lists weaker hints than the ones in effect. A person has to accept them."""

    tool: str = about("The server's name of the tool.")
    hash: str = about("Hash of the listed definition: name, title, description, schema and hints.")
    counts: Hints = about("The hints in effect.")
    listed: Hints = about("The hints that the server lists.")
    change: str = about("The difference between the two, as a sentence.")


class NodePolicy(Shape):
    """The gate's verdict on a call of a tool in one node of the tree."""

    node: str = about("Name of the node.")
    policy: Action = about("The verdict on a call without arguments.")


class Tool(Shape):
    """A tool that models can call."""

    name: str = about("The name that models use.")
    description: str = about("The server's description.")
    inputSchema: Mapping[str, Any] = about("JSON Schema of the arguments.")
    server: str | None = maybe("The tool server, as named in the agent file. Absent for agents.")
    policy: Action = about("The gate's verdict on a call without arguments at the root.")
    nodes: Sequence[NodePolicy] | None = maybe(
        "With a [tree](../guides/trees.md): the verdict in each node that may use the tool. Absent if nodes, "
        "rules and tools are very many."
    )
    title: str | None = maybe("The server's title.")
    destructiveHint: bool | None = maybe("The hint in effect: the server's, or a stricter earlier one.")
    readOnlyHint: bool | None = maybe("The hint in effect.")
    idempotentHint: bool | None = maybe("The hint in effect.")
    held: Sequence[HeldTool] | None = maybe("Tools whose server lists weaker hints.")


class ToolList(Shape):
    """All tools."""

    tools: Sequence[Tool] = about("The tools.")
    warnings: Sequence[str] = about(
        "Sentences about tools with contradictory hints, [rules](../guides/gate-tools.md#rules) that do "
        "not fit the tools, and tools that the provider of a model refuses; also in the log."
    )


class ToolBody(Shape):
    """One tool."""

    tool: Tool = about("The tool.")


class Acceptance(Shape):
    """The definition of a tool whose hints are accepted."""

    SCHEMA: ClassVar = {"additionalProperties": False}

    hash: str = about("The `hash` of the HeldTool.", minLength=1)


class PartHealth(Shape):
    """The state of one part of the agent."""

    name: str = about("Name of the part.")
    state: str = about(
        "Of a tool server: `connected`, `connecting`, `disconnected` or `auth_required` "
        "([it needs a token](../guides/mcp-servers.md#tokens)). Of an agent or a channel: `unknown` until "
        "the first contact, `reached` or `unreachable`. Else `ready` or `stopping`; of the journal also "
        "`unavailable`."
    )
    error: str | None = maybe("The problem, as a sentence.")
    held: Sequence[str] | None = maybe(
        "Of a server: its tools with [weaker hints](../guides/gate-tools.md#weaker-hints) that "
        "are not in effect, and the change. They do not affect readiness."
    )
    left_out: Sequence[str] | None = maybe(
        "Of a server: listed tools that are [not offered](../guides/mcp-servers.md#bounds), and why."
    )


class Halt(Shape):
    """The emergency stop."""

    halted: bool = about("Whether the agent is halted.")
    in_flight: int = about("Number of calls of class `once` that were sent and have no result yet.")
    reason: str | None = maybe("The reason that was given for the halt.")
    by: str | None = maybe("The principal who halted the agent. Absent without authentication.")
    at: Time | None = maybe("The time of the halt.")


class HaltRequest(Shape):
    """A request to halt the agent."""

    SCHEMA: ClassVar = {"additionalProperties": False}

    reason: str | None = maybe("The reason, for people; at most 500 characters.", maxLength=MAX_REASON)


class Notification(Shape):
    """A notification to a channel."""

    id: str = about("Its id, which all repeats have; `webhook-id` of a webhook.")
    channel: str = about("The name of the channel in the agent file.")
    type: NoticeKind = about("What it tells.")
    at: Time = about("The time of the event.")
    state: DeliveryState = about(
        "`pending`: it is sent, or sent again. `arrived`: the channel has taken it. `given_up`: it came too "
        "late or the channel wants no more. `overtaken`: something newer has replaced it, or it was no "
        "longer true."
    )
    attempts: int = about("Number of attempts so far.")
    next_attempt: Time | None = maybe("Only while it is `pending`: the time before which it is not sent.")
    why: str | None = maybe("The reason of the last failure, or of the state.")
    conversation_id: str | None = maybe("The conversation, if it is about one.")
    approval_id: str | None = maybe("The approval, if it is about one.")


class NotificationList(Shape):
    """Recent notifications."""

    notifications: Sequence[Notification] = about("Newest event first.")


class NotificationBody(Shape):
    """A notification."""

    notification: Notification = about("The notification.")


class ChannelTest(Shape):
    """A request to send a test to a channel."""

    SCHEMA: ClassVar = {"additionalProperties": False}

    channel: str = about("The name of the channel in the agent file.")


class TestedChannel(Shape):
    """A test that has arrived."""

    id: str = about("The id of the test.")


class _PolicyRevision(Shape):
    """A revision of the policy by which this agent has judged calls."""

    revision: str = about("The first 16 digits of the SHA-256 of the policy in its canonical form.")
    since: Time = about("When an agent first loaded it.")
    current: bool = about("Whether it is the policy of new runs.")
    rules: int = about("Number of its rules.")


class PolicyBody(_PolicyRevision):
    """A policy."""

    policy: Mapping[str, Any] = about(
        "The canonical form: the rules, what decides which tools there are, and for each node that calls "
        "tools the rules and settings that hold there. Secret values of conditions are masked."
    )


class UsedPolicy(_PolicyRevision):
    """A revision of the policy, and the calls that it has judged first."""

    verdicts: int = about("Number of the calls.")
    first_used: Time | None = maybe("The time of the first of them; `since` is when the policy was loaded.")
    last_used: Time | None = maybe("The time of the last of them.")


class PolicyHistory(Shape):
    """The revisions of the policy."""

    revisions: Sequence[UsedPolicy] = about("First loaded first.")


class _CallFigures(Shape):
    """Figures about calls of the last 30 days."""

    hits_24h: int = about("Number of the calls in the last 24 hours.")
    hits_7d: int = about("In the last 7 days.")
    hits_30d: int = about("In the last 30 days.")
    last_hit: Time | None = maybe("The time of the last of them. Absent without a call.")
    approved: int = about("Calls that people approved as they were.")
    edited: int = about("Calls that people approved with other arguments.")
    rejected: int = about("Calls that people rejected.")
    answered: int = about("Calls that people answered with a text, so that they were not sent.")
    expired: int = about("Calls that were not decided in time.")
    median_wait_seconds: float | None = maybe("Half of the decisions took no longer. Absent without any.")


class ShadowFigures(Shape):
    """Calls for which a shadow rule would have decided something."""

    action: Action = about("What the rule would have decided.")
    was: Action = about("What the gate decided.")
    hits_30d: int = about("Number of the calls in the last 30 days.")


class RuleFigures(_CallFigures):
    """What a rule decided, or would have decided while it was a shadow rule."""

    id: str = about("The id of the rule.")
    text: str = about("The rule in words.")
    then: Action = about("What it decides.")
    shadow: bool = about("Whether it is a shadow rule now.")
    current: bool = about("Whether it is in the policy of new runs.")
    shadow_verdicts: Sequence[ShadowFigures] = about("What it would have decided as a shadow rule.")


class SettingFigures(_CallFigures):
    """What a setting or a hint decided, for calls that no rule matches."""

    text: str = about("The setting or hint in words.")


class ToolFigures(_CallFigures):
    """The calls of a tool."""

    server: str = about("The server of the tool.")
    tool: str = about("The tool, as models see it.")
    ran: int = about("Calls that ran without a question.")
    asked: int = about("Calls that asked.")
    denied: int = about("Calls that were denied.")


class DamagedConversation(Shape):
    """A conversation with events that cannot be read."""

    conversation_id: str = about("The conversation.")
    problem: str = about("The first problem.")


class PolicyReport(Shape):
    """What the rules of the policy decided in the last 30 days, and what people decided about these calls."""

    revision: str = about("The revision of the policy of new runs.")
    at: Time = about("The time of the report, which may be a minute old.")
    since: Time = about("30 days before.")
    calls: int = about("Number of the calls since then.")
    unknown: int = about("Those whose verdict is not on record. They count for their tools only.")
    cut: bool = about("Whether older calls were left out, because there are more than the 100,000 newest.")
    rules: Sequence[RuleFigures] = about(
        "The rules of the policy of new runs in their order, then earlier rules that decided calls."
    )
    settings: Sequence[SettingFigures] = about("Those that decided calls, the most frequent first.")
    tools: Sequence[ToolFigures] = about("By server and name.")
    damaged_events: int = about("Number of the events that cannot be read, and are left out.")
    damaged: Sequence[DamagedConversation] | None = maybe(
        "The first conversations with such events; only for those who may administer the agent."
    )


class PolicyCall(Shape):
    """A call that was judged, with the facts of the first verdict on it."""

    conversation: str = about("Id of the conversation.")
    seq: int = about("The number of the event with the verdict.")
    at: Time = about("Its time.")
    key: str = about("The key of the call.")
    node: str = about("The node that made it.")
    tool: str = about("The name of the tool; if there is none, the name that the model called.")
    server: str = about("The server of the tool; empty if there is no such tool.")
    verdict: Mapping[str, Any] | None = maybe(
        "The facts of the verdict, as in the [event](events.md). Absent if an early version judged the call."
    )
    arguments: Mapping[str, Any] | None = maybe(
        "The arguments that were judged. Absent if they are not on record."
    )
    unfit: bool = about("Whether the arguments do not fit the tool, or cannot be read.")
    judged_anew: bool = about("Whether it was judged again, on other facts.")
    anew: Mapping[str, Any] | None = maybe("The facts of the last question to people, if they are others.")
    asked: int = about("Number of questions to people whether it may run.")
    requires: Mapping[str, Any] | None = maybe("Who had to approve it.")
    answer: (
        Literal["approved", "edited", "rejected", "answered", "expired", "void", "pending", "unknown"] | None
    ) = maybe("What people decided. Absent without a question.")
    waited: float | None = maybe("Seconds from the first question to the decision.")
    edited: Mapping[str, Any] | None = maybe("The arguments as a person has edited them.")
    after_damage: bool = about("Whether an earlier event of the conversation cannot be read.")


class PolicyCalls(Shape):
    """A page of the calls that were judged."""

    calls: Sequence[PolicyCall] = about("Newest conversation first; in each, the oldest call first.")
    next_cursor: str | None = maybe("The `cursor` of the next page, if there is one.")
    damaged: int = about("Number of events since the last page that cannot be read.")
    broken: Mapping[str, str] = about("The first conversations with such events, and why.")


class RulesToTry(Shape):
    """Other rules."""

    SCHEMA: ClassVar = {"additionalProperties": False}

    rules: str = about(
        "The YAML of a section `approval`, or of an agent file, of which only that section is read; at most "
        "64 KiB. References such as `${NAME}` are not allowed."
    )


class PolicyReplay(Shape):
    """How far a replay is. The last frame has the result."""

    calls: int = about("Number of the calls that have been judged.")
    cut: bool | None = maybe(
        "In the last frame, as all that follows: whether older calls were left out, because there are more "
        "than the 100,000 newest, or it took longer than two minutes."
    )
    ignored: Sequence[str] | None = maybe("The other keys of the file, which were not read.")
    summary: Mapping[str, Any] | None = maybe("As `stopgo policy replay --json` prints it.")
    listed: Mapping[str, Any] | None = maybe(
        "The newest calls that matter, at most 20 of each group, as `stopgo policy replay --json` prints "
        "them, with masked arguments: `refused`, a person rejected, answered or edited the call, and it "
        "would run; `loosened`, the verdict is less strict; `tightened`, it is stricter."
    )


class FleetNode(Shape):
    """A process of the agent."""

    name: str = about("Its name in the journal. Each start of a process has another.")
    is_this: bool = about("Whether it is the process that answers.")
    host: str | None = maybe("The name of its machine.")
    pid: int | None = maybe("Its process id.")
    version: str | None = maybe("Its version of the product.")
    started_at: Time | None = maybe("The time of its start.")
    url: str | None = maybe("The address at which the others reach it, if it has told them.")
    lease_seconds: float | None = maybe(
        "Seconds until others take over its conversations, unless it renews its lease; 0 if they do. "
        "Absent if there can be no others."
    )
    conversations: int = about("Number of conversations that it owns.")
    open: int = about("Those of them that have something to do.")


class Fleet(Shape):
    """The journal and the processes that share it."""

    store: str = about("The program that stores the journal, with its version.")
    round_trip_ms: float = about("Milliseconds that the journal took to answer.")
    synchronous_standbys: str | None = maybe(
        "The standbys that confirm each commit, as PostgreSQL writes it. Absent: commits wait for no standby."
    )
    unowned: int = about("Number of conversations that have something to do, and no process yet.")
    need_newer: int = about(
        "Number of conversations that a newer version of the agent has written, and that no process can "
        "continue now."
    )
    nodes: Sequence[FleetNode] = about(
        "The processes whose leases have not run out, and those that have left something to do."
    )


MemoryUnit: TypeAlias = Literal["bytes", "calls", "connections", "events", "messages"]


class MemoryLimit(Shape):
    """A limit of memory."""

    name: str = about(
        "The kernel's name of a limit of the process, a key of the agent file, or what is held in memory."
    )
    value: int = about("The limit, in units.")
    unit: MemoryUnit = about("The unit.")


class Memory(Shape):
    """The memory of the process and [its limits](../guides/operate.md#memory)."""

    used_bytes: int | None = maybe("Bytes in use, on Linux.")
    limits: Sequence[MemoryLimit] = about("The limits. Those of the kernel are absent if there are none.")


class Readiness(Shape):
    """The state of the agent's parts."""

    status: Literal["ready", "not_ready"] = about(
        "`not_ready` (503): a `required` server or every server is not connected, the journal has not "
        "answered within 2 s, or the process is stopping."
    )
    mcp_servers: Sequence[PartHealth] = about("The tool servers.")
    models: Sequence[PartHealth] = about("The models.")
    store: PartHealth = about("The journal.")
    agents: Sequence[PartHealth] | None = maybe("Remote agents. They do not affect readiness.")
    channels: Sequence[PartHealth] | None = maybe(
        "Channels of notifications, as this process knows them. They do not affect readiness."
    )
    halt: Halt | None = maybe("Only while the agent is halted, which does not affect readiness.")
    need_newer: int | None = maybe(
        "Number of conversations that a newer version of the agent has written, and that no process can "
        "continue now. Absent: none. They do not affect readiness."
    )
    memory: Memory | None = maybe("The memory of the process, which does not affect readiness.")


class Error(Shape, Parted):
    """The answer to a failed request."""

    error: str = about("A sentence for people. It may change.")
    code: str = about("A [stable code](errors.md) for programs.")
    hint: str | None = maybe("A suggestion for the caller.")
    field: str | None = maybe("The field, parameter or header that is wrong.")
    errors: Sequence[str] | None = maybe("With `invalid_arguments` and `invalid_rules`: each mistake.")
    approval: Approval | None = maybe("With `already_decided`, `expired` and `void`: the approval.")
    superseded_by: str | None = maybe("With `void`: UUID of the approval that replaces it.")
    approvals: Sequence[Approval] | None = maybe(
        "With `waiting_approval`: the pending approvals, the oldest first."
    )
    conversation: Conversation | None = maybe("With `waiting_approval`: the conversation.")
    result: Result | None = maybe("With `waiting_approval`: as in a [Turn](#turn), for older clients.")
    candidates: Sequence[str] | None = maybe("With `ambiguous_id`: ids that begin with the given text.")
    roles: Sequence[str] | None = maybe("With `role_required`: the roles of which one is needed.")
    accepted: bool | None = maybe(
        "With `shutting_down`, `node_unavailable` and `journal_unavailable`: whether the request is stored, "
        "to be carried out later."
    )
    id: str | None = maybe("With `internal_error`: an id that finds the cause in the server's log.")

    @property
    def is_long(self) -> bool:
        return super().is_long or (self.conversation is not None and self.conversation.is_long)


class SessionBody(Shape):
    """The principal of a request, as its credential names it."""

    subject: str | None = maybe("The principal. Absent if the agent has no authentication.")
    roles: Sequence[str] = about("The roles that it has in this agent.")
    csrf: str | None = maybe(
        "With a session of the page: the value of `X-CSRF-Token` for requests that change something."
    )


class TicketBody(Shape):
    """A credential for one stream."""

    ticket: str = about("The ticket, for the query parameter `ticket` of the stream.")
    expires_in: int = about("Seconds in which it can be used.")


class Endpoint(Shape):
    """One operation of the contract."""

    method: str = about("The HTTP method.")
    path: str = about("The path, with variables in braces.")
    description: str = about("A summary.")


class EndpointList(Shape):
    """All operations, for clients that read no OpenAPI."""

    title: str = about("`Agent Stop and Go`.")
    version: str = about("The version of the product.")
    endpoints: Sequence[Endpoint] = about("The operations.")
