"""Conversations, runs, approvals and decisions as clients see them.

The order of the fields is that of the keys. Those that existing clients rely on come first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from ...actors.approvals.decided import MAX_TEXT
from ...actors.approvals.kinds import KINDS as APPROVALS
from ...actors.log.head import RunState, Status
from ...actors.log.record import CallState
from ...runtime.journal.protocol import QuestionState
from ..http.chunked_json import Parted
from .declaration import Shape, With, about, maybe

KINDS = tuple(APPROVALS)
"""Of approvals."""

Time: TypeAlias = Annotated[str, With(format="date-time")]
"""RFC 3339, in UTC."""
Kind: TypeAlias = Annotated[str, With(enum=KINDS)]
Json: TypeAlias = Mapping[str, Any]


class Usage(Shape):
    """The use of models: tokens, and their price."""

    input_tokens: int = about("Tokens sent, cached ones included, as the provider counts them.")
    output_tokens: int = about("Tokens generated, thinking included.")
    cached_tokens: int | None = maybe("Input tokens read from the provider's cache.")
    cache_write_tokens: int | None = maybe("Input tokens written to the provider's cache.")
    cost_usd: float | None = maybe(
        "US dollars, if all models have [prices](configuration.md#prices).", minimum=0
    )


class Wanted(Shape):
    """A bearer token without which the run cannot continue."""

    server: str = about("The tool server that needs the token.")
    status: int | None = maybe("HTTP status of its refusal. Absent when a restart lost the token.")
    challenge: str | None = maybe("The `WWW-Authenticate` header of its refusal.")


class Run(Shape):
    """The execution of one turn."""

    id: str = about("UUID of the run.")
    state: RunState = about("`waiting`: a person has to decide. `auth_required`: a bearer token is needed.")
    usage: Usage = about("Usage of the run so far.")
    code: str | None = maybe("The reason of a [failure](errors.md#runs).")
    auth: Wanted | None = maybe("During `auth_required`, the token that is wanted.")


class ToolCall(Shape):
    """A tool call of a model, with its result."""

    name: str = about("The tool.")
    arguments: Json = about("The arguments as sent; until then, as the model proposed them.")
    id: str = about("The model's id of the call.")
    state: CallState = about("State of the call.")
    result: str | None = maybe("The result as the model gets it.")
    is_error: bool | None = maybe("Whether the result is an error.")
    server: str | None = maybe("The tool server that the call was sent to.")


class Message(Shape):
    """One message of a conversation."""

    id: str = about("UUID of the message.")
    role: Literal["system", "user", "assistant", "tool"] = about("The author.")
    content: str = about("Text. Of a tool call, its result.")
    created_at: Time = about("When the message was recorded.")
    node: str | None = maybe("The node that wrote it.")
    tool_call: ToolCall | None = maybe("The call, if the role is `tool`.")


class Decision(Shape):
    """The accepted decision."""

    approved: bool | None = maybe("Yes or no. Absent when `action` has the decision.")
    action: str | None = maybe("`retry`, `done`, `failed`, `accept`, `decline` or `cancel`.")
    arguments: Json | None = maybe("The edited arguments.")
    content: Json | None = maybe("The answer to a server's question.")
    result: str | None = maybe("With `done`: the result of the call.")
    reason: str | None = maybe("The reason that the person gave.")
    decided_by: str | None = maybe("The name that the client gave; it is not verified.")
    decided_at: Time = about("When the decision was recorded.")


class Approval(Shape):
    """A request for a human decision, in any state."""

    uuid: str = about("Id of the approval, as in `POST /approvals/{uuid}`.")
    conversation_id: str = about("The conversation that asks.")
    tool_name: str = about("The tool.")
    tool_args: Json = about("The arguments that the call will have.")
    description: str = about("The question, in Markdown.")
    created_at: Time = about("When it was asked.")
    kind: Kind = about(
        "`tool`: a call that needs approval. `outcome_unknown`: a call that was sent and has no result. "
        "`elicitation`: a question of a tool server. `checkpoint`: an `approval` node. `proxy`: a question "
        "of another agent."
    )
    state: QuestionState = about("`void`: withdrawn before a decision.")
    rule: str | None = about("Why it asks: a rule of the agent file, or the tool's annotation.")
    path: Sequence[str] | None = maybe("Of a `proxy`: the agents on the way to the question, nearest first.")
    remote_task_id: str | None = maybe("Of a `proxy`: the task of the other agent.")
    remote_agent_name: str | None = maybe("Of a `proxy`: the other agent's name in the agent file.")
    remote_kind: str | None = maybe(
        "Of a `proxy`: the kind of the approval there. `outcome_unknown` and `elicitation` are decided with "
        "the words of that kind."
    )
    server: str | None = maybe("The tool server.")
    node: str | None = maybe("The node that asks.")
    input_schema: Json | None = maybe(
        "JSON Schema of edited arguments, or of the answer to the question. Left out in `approvals` and "
        "`pending_approvals` of a conversation and in `approvals` of a result."
    )
    message: str | None = maybe("Of an `elicitation`: the server's question.")
    url: str | None = maybe("Of an `elicitation`: the address that the server wants the person to visit.")
    replaces: str | None = maybe("UUID of the approval that this one replaces.")
    superseded_by: str | None = maybe("UUID of the approval that replaces this one.")
    void_reason: str | None = maybe("Of a `proxy`: why it was withdrawn.")
    expires_at: Time | None = maybe("When it expires.")
    decision: Decision | None = maybe("The decision, once there is one.")


class DecisionRequest(Shape):
    """A decision about an approval.

    For `tool`, `proxy` and `checkpoint`: `answer` takes precedence over `action`, and `action` over
    `approved`; case does not matter. For `outcome_unknown` only `action`: `retry`, `done` or `failed`. For
    `elicitation` only `action`: `accept`, `decline` or `cancel`. A `proxy` whose `remote_kind` is one of
    these two takes the words of that kind.
    """

    SCHEMA: ClassVar = {"additionalProperties": False, "minProperties": 1}

    approved: bool | None = maybe("Yes or no.")
    action: str | None = maybe(
        "A word; which ones are known depends on the kind of the approval.",
        examples=["approve", "reject", "retry", "done", "failed", "accept", "decline", "cancel"],
    )
    answer: str | None = maybe("A word for yes or no.", examples=["yes", "no"])
    arguments: Json | None = maybe("Replaces the shown arguments in full.")
    reason: str | None = maybe("Passed to the model with a rejection.", maxLength=MAX_TEXT)
    decided_by: str | None = maybe("Name of the person, for the record.", maxLength=MAX_TEXT)
    result: str | None = maybe("With `done`: the result of the call.")
    content: Json | None = maybe("With `accept`: the answer to `input_schema`; defaults may be left out.")


class PipelineState(Shape):
    """Where in the tree of nodes the run is paused."""

    paused_node_path: Sequence[int] = about("Index of a child of the root, of its child, and so on.")
    paused_node_output_key: str = about("The `output_key` of that node.")
    session_state: Mapping[str, str] = about("The values that earlier nodes have stored.")
    user_message: str = about("The message of the user.")


class ConversationItem(Shape, Parted):
    """A conversation in a list: it has `messages` only with `view=full`."""

    id: str = about("UUID of the conversation.")
    session_id: str = about("The session that created it.")
    status: Status = about("`waiting_approval`: an approval is pending, even if branches still run.")
    created_at: Time = about("When it was created.")
    updated_at: Time = about("The time of the last event.")
    title: str = about("The beginning of the first message.")
    last_seq: int = about("The seq of the last event.")
    usage: Usage = about("Usage of all its runs.")
    pending_approvals: Sequence[Approval] = about("Pending approvals, the oldest first.")
    approvals: Sequence[Approval] = about("All approvals, in every state, the oldest first.")
    pending_approval: Approval | None = maybe("The oldest pending approval.")
    pipeline_state: PipelineState | None = maybe("With an `agent:` tree: where the run is paused.")
    run: Run | None = maybe("The current run, else the last one.")
    messages: Sequence[Message] | None = maybe("The messages.")


class Conversation(ConversationItem):
    """A conversation with its messages and approvals. `messages[0]` is the `prompt` of the agent file, as the
    latest run used it."""

    messages: Sequence[Message] = about("The messages, the oldest first.")


class Result(Shape):
    """The outcome of a request that moved a run."""

    response: str = about("The answer, or the question to the person.")
    waiting_approval: bool = about("Whether a person has to decide first.")
    auth_required: bool = about("Whether a bearer token is needed first.")
    state: Literal["queued", RunState] = about("`queued`: it runs after the current run. Else as in a Run.")
    approvals: Sequence[Approval] = about("The approvals that it waits for, the oldest first.")
    approval: Approval | None = maybe("The oldest of them.")
    code: str | None = maybe("`waiting_approval`, `auth_required`, or why it [failed](errors.md#runs).")
    run_id: str | None = maybe("The run.")
    usage: Usage | None = maybe("Usage of the run.")
    auth: Wanted | None = maybe("During `auth_required`, the token that is wanted.")


class ConversationBody(Shape, Parted):
    """One conversation."""

    conversation: Conversation = about("The conversation as it now stands.")

    @property
    def is_long(self) -> bool:
        return self.conversation.is_long


class Turn(ConversationBody):
    """A conversation after a request, and the outcome of the request."""

    result: Result | None = maybe("The outcome, if the request asked for one.")


# ------------------------------------------------------------ bodies and lists


class NewConversation(Shape):
    """A conversation to create."""

    SCHEMA: ClassVar = {"additionalProperties": False}

    message: str | None = maybe("The first message.")


class NewMessage(Shape):
    """A message of the user."""

    SCHEMA: ClassVar = {"additionalProperties": False}

    message: str = about("Its text.")


class ApprovalBody(Shape):
    """One approval."""

    approval: Approval = about("The approval.")


class Summary(Shape):
    """How many conversations there are."""

    total: int = about("All of them.")
    active: int = about("Those with this status.")
    waiting_approval: int = about("Those with this status.")
    completed: int = about("Those with this status.")


class Broken(Shape):
    """A conversation that a list leaves out, because its rows cannot be read."""

    id: str = about("UUID of the conversation.")
    error: str = about("The reason, for people.")
    code: str = about("`conversation_broken`.")
    hint: str | None = maybe("What to do about it.")


class ConversationList(Shape, Parted):
    """A page of conversations."""

    conversations: Sequence[ConversationItem] = about("The newest first.")
    summary: Summary = about("Counts of all conversations, whatever the filters.")
    next_cursor: str | None = maybe("The `cursor` of the next page, if there is one.")
    broken: Sequence[Broken] | None = maybe("Conversations of this page that cannot be read.")


class ApprovalList(Shape, Parted):
    """A page of approvals."""

    approvals: Sequence[Approval] = about("The oldest first.")
    next_cursor: str | None = maybe("The `cursor` of the next page, if there is one.")
    broken: Sequence[Broken] | None = maybe("Conversations of this page that cannot be read.")
