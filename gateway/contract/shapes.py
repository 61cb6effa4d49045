"""Shapes of conversations, runs, approvals and decisions.

The keys of the JSON have the order of the fields. The fields that existing clients rely on come first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from ...actors.approvals.decided import MAX_TEXT
from ...actors.approvals.kinds import KINDS as APPROVALS
from ...actors.log.fold.head import RunState, Status
from ...actors.log.fold.record import CallState
from ...actors.tools.pictures import MediaType
from ...runtime.journal.question import QuestionState
from ..http.chunked_json import Parted
from .declaration import Shape, With, about, maybe

KINDS = tuple(APPROVALS)
"""The kinds of approvals."""

Time: TypeAlias = Annotated[str, With(format="date-time")]
"""RFC 3339, in UTC."""
Kind: TypeAlias = Annotated[str, With(enum=KINDS)]
Json: TypeAlias = Mapping[str, Any]


class Usage(Shape):
    """Model usage: tokens and their price."""

    input_tokens: int = about("Tokens sent, cached ones included, as the provider counts them.")
    output_tokens: int = about("Tokens generated, thinking included.")
    cached_tokens: int | None = maybe("Input tokens read from the provider's cache.")
    cache_write_tokens: int | None = maybe("Input tokens written to the provider's cache.")
    cost_usd: float | None = maybe(
        "US dollars, if all models have [prices](configuration.md#prices).", minimum=0
    )


class Wanted(Shape):
    """A bearer token that the run needs to continue."""

    server: str = about("The tool server that needs the token.")
    status: int | None = maybe("HTTP status of the server's refusal. Absent when a restart lost the token.")
    challenge: str | None = maybe("The `WWW-Authenticate` header of the refusal.")


class Run(Shape):
    """The execution of one turn."""

    id: str = about("UUID of the run.")
    state: RunState = about("`waiting`: a person has to decide. `auth_required`: a bearer token is needed.")
    usage: Usage = about("Usage of the run so far.")
    code: str | None = maybe("The reason of a [failure](errors.md#runs).")
    auth: Wanted | None = maybe("During `auth_required`, the required token.")


class ToolCall(Shape):
    """A tool call of a model, with its result."""

    name: str = about("The tool.")
    arguments: Json = about("The arguments as sent; until then, as the model proposed them.")
    id: str = about("The model's id of the call.")
    state: CallState = about("State of the call.")
    result: str | None = maybe("The result as passed to the model.")
    is_error: bool | None = maybe("Whether the result is an error.")
    server: str | None = maybe("The tool server that the call was sent to.")


class Picture(Shape):
    """A picture in a message."""

    media_type: MediaType = about("What its first bytes are.")
    size: int = about("Bytes of the file.")


class Message(Shape):
    """One message of a conversation."""

    id: str = about("UUID of the message.")
    role: Literal["system", "user", "assistant", "tool"] = about("The author.")
    content: str = about("Text; for a tool call, its result.")
    created_at: Time = about("When the message was recorded.")
    node: str | None = maybe("The node that wrote it.")
    tool_call: ToolCall | None = maybe("The call, if the role is `tool`.")
    pictures: Sequence[Picture] | None = maybe("The pictures that the user sent. Their data is in the event.")


class Decision(Shape):
    """The accepted answer to an approval."""

    approved: bool | None = maybe("Yes or no. Absent if `action` holds the decision.")
    action: str | None = maybe("`respond`, `retry`, `done`, `failed`, `accept`, `decline` or `cancel`.")
    arguments: Json | None = maybe("The edited arguments.")
    content: Json | None = maybe("The answer to a server's question.")
    result: str | None = maybe("With `done`: the result of the call. With `respond`: the text in its place.")
    reason: str | None = maybe("The reason that the person gave.")
    decided_by: str | None = maybe(
        "The principal that decided. Without authentication, the name that the client gave, unverified."
    )
    claimed_by: str | None = maybe("With authentication: the name that the client gave.")
    decided_at: Time = about("When the decision was recorded.")


class Requirement(Shape):
    """The approvers that a rule demands."""

    approvers: Sequence[str] = about(
        "Roles, and `subject:` with principals, of whom an approver has one; `[]`: all may approve."
    )
    quorum: int = about("The number of persons who have to approve.")
    requester_may_approve: bool = about("Whether the requester of the run may approve.")


class Vote(Shape):
    """A yes of one of several persons who have to approve."""

    by: str = about("The principal.")
    at: Time = about("When the vote was recorded.")
    reason: str | None = maybe("The reason that the person gave.")


class Approval(Shape):
    """A request for a human decision, in any state."""

    uuid: str = about("Id of the approval, as in `POST /approvals/{uuid}`.")
    conversation_id: str = about("The conversation whose run asks.")
    tool_name: str = about("The tool.")
    tool_args: Json = about("The arguments that the call will have.")
    description: str = about("The question, in Markdown.")
    created_at: Time = about("When the approval was requested.")
    kind: Kind = about(
        "`tool`: a call that needs approval. `outcome_unknown`: a call that was sent and has no result. "
        "`elicitation`: a question of a tool server. `checkpoint`: an `approval` node. `proxy`: a question "
        "of another agent."
    )
    state: QuestionState = about("`void`: withdrawn before a decision.")
    rule: str | None = about("The reason: a rule of the agent file, or the tool's annotation.")
    path: Sequence[str] | None = maybe("Of a `proxy`: the agents on the path to the question, nearest first.")
    remote_task_id: str | None = maybe("Of a `proxy`: the task of the other agent.")
    remote_agent_name: str | None = maybe("Of a `proxy`: the other agent's name in the agent file.")
    remote_kind: str | None = maybe(
        "Of a `proxy`: the kind of the remote approval. `outcome_unknown` and `elicitation` are decided with "
        "the words of that kind."
    )
    server: str | None = maybe("The tool server.")
    node: str | None = maybe("The node that asks.")
    input_schema: Json | None = maybe(
        "JSON Schema of edited arguments, or of the answer to the question. Omitted in `approvals` of a "
        "conversation."
    )
    message: str | None = maybe("Of an `elicitation`: the server's question.")
    url: str | None = maybe("Of an `elicitation`: the URL that the server wants the person to visit.")
    requires: Requirement | None = maybe("Who has to approve, if the rule demands more than one decision.")
    hash: str | None = maybe(
        "With `requires`: a hash of the tool and its arguments as shown here. Decisions name it."
    )
    votes: Sequence[Vote] | None = maybe(
        "The votes for this `hash`, the oldest first. After a vote for edited arguments, the approval shows "
        "these arguments."
    )
    replaces: str | None = maybe("UUID of the approval that this one replaces.")
    superseded_by: str | None = maybe("UUID of the approval that replaces this one.")
    rejected_before: str | None = maybe(
        "Of a `tool`: UUID of the latest approval in which a person rejected the same call, in an earlier "
        "turn of the conversation."
    )
    policy: str | None = maybe("Of a `tool`: the revision of the policy by which the call was judged.")
    void_reason: str | None = maybe("Of a `proxy`: why the approval was withdrawn.")
    unshown: str | None = maybe(
        "Of a `proxy`: why it cannot be approved. A part of the question cannot be shown."
    )
    expires_at: Time | None = maybe("When the approval expires.")
    decision: Decision | None = maybe("The decision, once there is one.")


class ApprovalName(Shape):
    """An approval that the same answer shows in `approvals` of the conversation."""

    uuid: str = about("Id of the approval.")
    kind: Kind = about("As in an Approval.")
    tool_name: str = about("The tool.")
    node: str | None = maybe("The node that asks.")


class DecisionRequest(Shape):
    """A decision about an approval.

    For `tool`, `proxy` and `checkpoint`: `answer` takes precedence over `action`, and `action` over
    `approved`; case does not matter. For `tool` also the `action` `respond`, with a `result`: the call is not
    sent, and the model gets the text in place of its result. For `outcome_unknown` only `action`: `retry`,
    `done` or `failed`. For `elicitation` only `action`: `accept`, `decline` or `cancel`. A `proxy` whose
    `remote_kind` is one of the last two kinds takes the words of that kind.
    """

    SCHEMA: ClassVar = {"additionalProperties": False, "minProperties": 1}

    approved: bool | None = maybe("Yes or no.")
    action: str | None = maybe(
        "A word; the valid words depend on the kind of the approval.",
        examples=["approve", "reject", "respond", "retry", "done", "failed", "accept", "decline", "cancel"],
    )
    answer: str | None = maybe("A word for yes or no.", examples=["yes", "no"])
    arguments: Json | None = maybe("Replaces the shown arguments in full.")
    reason: str | None = maybe("Passed to the model with a rejection.", maxLength=MAX_TEXT)
    decided_by: str | None = maybe("Name of the person, for the record.", maxLength=MAX_TEXT)
    hash: str | None = maybe(
        "The `hash` of the approval as it was shown. A yes needs it if the `quorum` is above 1.",
        maxLength=MAX_TEXT,
    )
    result: str | None = maybe(
        "With `done`: the result of the call. With `respond`: the text that the model gets in place of the "
        "call, up to 4000 characters."
    )
    content: Json | None = maybe("With `accept`: the answer to `input_schema`; defaults may be omitted.")


class PipelineState(Shape):
    """The position in the tree of nodes where the run is paused."""

    paused_node_path: Sequence[int] = about("Index of a child of the root, of its child, and so on.")
    paused_node_output_key: str = about("The `output_key` of that node.")
    session_state: Mapping[str, str] = about("The values that earlier nodes have stored.")
    user_message: str = about("The message of the user.")


class ConversationItem(Shape, Parted):
    """A conversation in a list, with `messages` only if `view=full`."""

    id: str = about("UUID of the conversation.")
    session_id: str = about("The session that created it.")
    status: Status = about("`waiting_approval`: an approval is pending, even if branches still run.")
    created_at: Time = about("When it was created.")
    updated_at: Time = about("The time of the last event.")
    title: str = about("The beginning of the first message.")
    owner: str | None = maybe("With authentication: the principal that created it.")
    last_seq: int = about("The seq of the last event.")
    usage: Usage = about("Usage of all runs of the conversation.")
    pending_approvals: Sequence[ApprovalName] = about("Pending approvals, the oldest first.")
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
    """The outcome of a request that started or continued a run."""

    response: str = about("The answer, or the question to the person.")
    waiting_approval: bool = about("Whether a person has to decide first.")
    auth_required: bool = about("Whether a bearer token is needed first.")
    state: Literal["queued", RunState] = about(
        "`queued`: the message waits for the current run. Else as in a Run."
    )
    approvals: Sequence[ApprovalName] = about("The approvals that the run waits for, the oldest first.")
    approval: Approval | None = maybe("The oldest of these approvals.")
    code: str | None = maybe(
        "`waiting_approval`, `vote_recorded`, `auth_required`, or the code of a [failure](errors.md#runs)."
    )
    run_id: str | None = maybe("The run.")
    usage: Usage | None = maybe("Usage of the run.")
    auth: Wanted | None = maybe("During `auth_required`, the required token.")


class ConversationBody(Shape, Parted):
    """One conversation."""

    conversation: Conversation = about("The current state of the conversation.")

    @property
    def is_long(self) -> bool:
        return self.conversation.is_long


class Turn(ConversationBody):
    """A conversation after a request, and the outcome of the request."""

    result: Result | None = maybe("The outcome, if the request asked for one.")


# ------------------------------------------------------------ bodies and lists


class File(Shape):
    """A file in a message: a picture (PNG, JPEG, GIF, WebP) or a text."""

    SCHEMA: ClassVar = {"additionalProperties": False}

    data: str = about("The file in base64.")
    media_type: str | None = maybe("Its media type. The first bytes decide whether it is a picture.")
    name: str | None = maybe("Its name.")


_FILES = "Files of the message. Texts become part of it; pictures are named in it, and shown to models."


class NewConversation(Shape):
    """A conversation to create."""

    SCHEMA: ClassVar = {"additionalProperties": False}

    message: str | None = maybe("The first message.", pattern=r"\S")
    attachments: Sequence[File] | None = maybe(_FILES)


class NewMessage(Shape):
    """A message of the user."""

    SCHEMA: ClassVar = {
        "additionalProperties": False,
        "minProperties": 1,
        "anyOf": [
            {"required": ["message"]},
            {"required": ["attachments"], "properties": {"attachments": {"minItems": 1}}},
        ],
    }

    message: str | None = maybe("Text of the message. Required without attachments.", pattern=r"\S")
    attachments: Sequence[File] | None = maybe(_FILES)


class ApprovalBody(Shape):
    """One approval."""

    approval: Approval = about("The approval.")


class Summary(Shape):
    """Numbers of conversations."""

    total: int = about("All conversations.")
    active: int = about("Conversations with the status `active`.")
    waiting_approval: int = about("Conversations with the status `waiting_approval`.")
    completed: int = about("Conversations with the status `completed`.")


class Broken(Shape):
    """A conversation that is missing from a list because its stored data cannot be read."""

    id: str = about("UUID of the conversation.")
    error: str = about("The reason, as a sentence.")
    code: str = about("`conversation_broken`.")
    hint: str | None = maybe("A suggestion for the operator.")


class ConversationList(Shape, Parted):
    """A page of conversations."""

    conversations: Sequence[ConversationItem] = about("The newest first.")
    summary: Summary = about("Counts of all conversations, regardless of the filters.")
    next_cursor: str | None = maybe("The `cursor` of the next page, if there is one.")
    broken: Sequence[Broken] | None = maybe("Conversations of this page that cannot be read.")


class ApprovalList(Shape, Parted):
    """A page of approvals."""

    approvals: Sequence[Approval] = about("The oldest first.")
    next_cursor: str | None = maybe("The `cursor` of the next page, if there is one.")
    broken: Sequence[Broken] | None = maybe("Conversations of this page that cannot be read.")
