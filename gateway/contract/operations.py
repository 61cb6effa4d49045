"""The table of operations. Both the routes and the OpenAPI document are made from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs

from ...actors.log.fold.head import Status
from ...runtime.journal.question import QuestionState
from ..http.query import MAX_LIMIT, MAX_TEXT
from . import examples as ex
from . import shapes as w
from . import system_shapes as s
from .agui_shapes import AGUIEvent
from .frame_shapes import Frame
from .operation import (
    ACCEPTED,
    INVALID,
    LOCATION,
    MALFORMED,
    REUSED,
    UNUSABLE,
    Operation,
    Response,
    error,
    header,
    query,
)
from .policy_operations import POLICY

MEMBER = s.FleetNode(
    name="37eff7b4d867",
    is_this=True,
    host="agent-1",
    pid=7,
    version="0.1.0",
    started_at=ex.AT,
    lease_seconds=9.2,
    conversations=12,
    open=3,
)

FLEET = (
    Operation(
        "getFleet",
        "GET /fleet",
        "List the processes that share the journal",
        (
            Response(
                200,
                "The journal and its processes",
                s.Fleet(
                    store="PostgreSQL 15.8",
                    round_trip_ms=0.8,
                    synchronous_standbys="ANY 1 (a, b)",
                    unowned=0,
                    need_newer=0,
                    nodes=[MEMBER],
                ),
            ),
        ),
        description="An agent with a data directory has one process.",
    ),
)


HALTED = s.Halt(halted=True, in_flight=1, reason="wrong database", at=ex.AT)
RUNNING = s.Halt(halted=False, in_flight=0)

EMERGENCY = (
    Operation(
        "getHalt",
        "GET /halt",
        "Read whether the agent is halted",
        (Response(200, "The emergency stop", RUNNING),),
    ),
    Operation(
        "haltAgent",
        "POST /halt",
        "Halt the agent: no call that must not be repeated leaves",
        (
            Response(200, "The agent is halted, also after a restart", HALTED),
            error(400, f"`invalid_request`: `reason` is not a text, or too long; {MALFORMED}"),
        ),
        (),
        s.HaltRequest(reason="wrong database"),
        "From the answer on, no call of class `once` is sent. Such a call waits for an approval, also if "
        "it was approved before. A second halt changes nothing.",
    ),
    Operation(
        "unhaltAgent",
        "POST /unhalt",
        "End the halt",
        (Response(200, "The agent is not halted", RUNNING),),
        description="A call that waits since then is sent when it is approved. Without a halt, this changes "
        "nothing.",
    ),
)


NOTIFICATION = s.Notification(
    id="msg_5feceb66ffc86f38d952786c",
    channel="ops",
    type="approval.requested",
    at=ex.AT,
    state="given_up",
    attempts=12,
    why="it answered 503",
    conversation_id=ex.CONVERSATION_ID,
    approval_id=ex.APPROVAL_ID,
)

NOTIFICATIONS = (
    Operation(
        "listNotifications",
        "GET /notifications",
        "List the recent notifications",
        (
            Response(200, "The notifications", s.NotificationList(notifications=[NOTIFICATION])),
            error(400, "`invalid_request`: `limit` is not valid"),
        ),
        (query("limit", "Maximum number", int, minimum=1, maximum=MAX_LIMIT, default=50),),
    ),
    Operation(
        "retryNotification",
        "POST /notifications/{notification}/retry",
        "Send a notification that was given up after all",
        (
            Response(
                200,
                "The notification",
                s.NotificationBody(notification=NOTIFICATION),
            ),
            error(404, "`notification_not_found`: there is none, or it is not kept any more"),
        ),
        description="It keeps its id. One in another state stays as it is.",
    ),
    Operation(
        "testChannel",
        "POST /notifications/test",
        "Send a test to a channel",
        (
            Response(200, "It has arrived", s.TestedChannel(id="msg_test_5feceb66ffc86f38")),
            error(400, f"`invalid_request`: `channel` is missing; {MALFORMED}"),
            error(404, "`channel_not_found`: the agent file has no such channel"),
            error(502, "`not_delivered`: it did not arrive, with the reason"),
        ),
        (),
        s.ChannelTest(channel="ops"),
        "It is sent once, by the process that answers.",
        keyed=False,
    ),
)


AUTH = (
    Operation(
        "getSession",
        "GET /session",
        "Read the principal of the request",
        (Response(200, "The principal", s.SessionBody(subject="alice", roles=["operator"])),),
        description="The page reads its CSRF token here.",
    ),
    Operation(
        "createTicket",
        "POST /ticket",
        "Make a ticket, for a stream on which no header can be set",
        (
            Response(200, "The ticket, which is valid once", s.TicketBody(ticket="q7x...", expires_in=30)),
            error(404, "`not_found`: the agent has no authentication"),
        ),
        description="A stream takes it as the query parameter `ticket`, and ends when the credential of this "
        "request expires or is revoked.",
        keyed=False,
    ),
    Operation(
        "endSession",
        "POST /logout",
        "End the session of the page",
        (Response(204, "Ended; other credentials stay valid"),),
        keyed=False,
    ),
)


LIMIT = query(
    "limit",
    "Maximum number of items; a page of long items ends early",
    int,
    minimum=1,
    maximum=MAX_LIMIT,
    default=50,
)
CURSOR = query("cursor", "`next_cursor` of the previous page")
AFTER = query("after", "Only events after this seq", int, default=0)
DELTAS = query("deltas", "Also deltas of replies and the progress of calls", Literal["true", "false"])
_MINIMAL = "`return=minimal`: the answer has only the messages from the user's last one on"
PREFER = header(
    "Prefer",
    f"`respond-async`: 202 as soon as the request is on disk. {_MINIMAL}",
    Literal["respond-async", "return=minimal", "respond-async, return=minimal"],
)
PREFER_MINIMAL = header("Prefer", _MINIMAL, Literal["return=minimal"])
SESSION = header(
    "X-Session-ID",
    "Session of the new conversation; generated if absent",
    pattern="^[A-Za-z0-9_-]{1,64}$",
)
TOKEN = header("Authorization", "`Bearer TOKEN`, forwarded to tool servers, never stored")

ENDED = w.Turn(conversation=ex.ENDED, result=ex.FINISHED)
UNTIL = (
    "The answer comes when the turn has finished, or when only a decision or a credential can move it on. "
    "If the client disconnects, the turn continues."
)


CONVERSATIONS = (
    Operation(
        "createConversation",
        "POST /conversations",
        "Create a conversation",
        (
            Response(
                201,
                "Created; has a `result` only if there was a message",
                w.Turn(conversation=ex.NEW),
                headers=LOCATION,
            ),
            error(400, f"`message_required`: the message is blank; {MALFORMED}"),
            error(422, UNUSABLE),
        ),
        (SESSION, TOKEN),
        w.NewConversation(message="list all resources"),
        f"A `message` starts the first turn. {UNTIL}",
    ),
    Operation(
        "listConversations",
        "GET /conversations",
        "List conversations, the newest first",
        (Response(200, "A page of conversations", ex.CONVERSATIONS), INVALID),
        (
            query("status", "Only conversations with this status", Status),
            query(
                "q",
                "Only conversations whose title contains this text. A page covers 10,000 conversations at "
                "most, so it may have few or none and still a `next_cursor`",
                maxLength=MAX_TEXT,
            ),
            LIMIT,
            CURSOR,
            query("view", "`full` adds the messages", Literal["full"]),
        ),
    ),
    Operation(
        "getConversation",
        "GET /conversations/{id}",
        "Read a conversation with all its messages and approvals",
        (Response(200, "The conversation", w.ConversationBody(conversation=ex.WAITING)),),
    ),
    Operation(
        "sendMessage",
        "POST /conversations/{id}/messages",
        "Send a message",
        (
            Response(
                200,
                "The outcome",
                w.Turn(conversation=ex.WAITING, result=ex.ASKED),
            ),
            ACCEPTED,
            error(400, f"`message_required`, {MALFORMED}"),
            error(
                409,
                "The message is not stored: `waiting_approval`, with the pending `approvals`, "
                "`conversation_completed` or `conversation_read_only`",
            ),
            error(422, UNUSABLE),
            error(429, "`queue_full`: too many messages wait in this conversation"),
        ),
        (PREFER, TOKEN),
        w.NewMessage(message=ex.MESSAGE),
        UNTIL,
    ),
    Operation(
        "cancelConversation",
        "POST /conversations/{id}/cancel",
        "Cancel the run; pending approvals become void",
        (
            Response(200, "Cancelled", w.Turn(conversation=ex.ENDED)),
            error(409, "`conversation_read_only`"),
        ),
        (PREFER_MINIMAL,),
    ),
    Operation(
        "completeConversation",
        "POST /conversations/{id}/complete",
        "Close the conversation; it takes no more messages",
        (
            Response(200, "Closed", w.Turn(conversation=ex.changed(ex.NEW, status="completed"))),
            error(409, "`run_in_progress` or `conversation_read_only`"),
        ),
        (PREFER_MINIMAL,),
    ),
    Operation(
        "resumeConversation",
        "POST /conversations/{id}/resume",
        "Continue the run with this request's bearer token",
        (
            Response(200, "The outcome", ENDED),
            error(400, f"`token_required`, {MALFORMED}"),
            error(409, "`not_waiting_for_credential` or `conversation_read_only`"),
        ),
        (PREFER_MINIMAL, attrs.evolve(TOKEN, example="Bearer TOKEN")),
    ),
    Operation(
        "deleteConversation",
        "DELETE /conversations/{id}",
        "Cancel the run and delete the conversation",
        (Response(204, "Deleted"),),
    ),
    Operation(
        "followConversation",
        "GET /conversations/{id}/events",
        "Stream the conversation's events: stored ones, then new ones",
        (
            Response(200, "Server-sent events of frames", Frame, ex.STREAM, "text/event-stream"),
            INVALID,
        ),
        (
            AFTER,
            header("Last-Event-ID", "Sent by clients that reconnect; overrides `after`", int),
            DELTAS,
        ),
        description="The id of an event is its seq. When the stream ends, reconnect with the seq of the last "
        "event. Deltas and progress have no id; a client that misses some loses nothing.",
    ),
)

FILTERS = (
    attrs.evolve(
        query("status", "Only frames of conversations with one of these statuses, separated by commas"),
        example="active,completed",
    ),
    attrs.evolve(
        query("type", "Only frames of these types, separated by commas; `approval.*` is a group"),
        example="approval.*",
    ),
    query("conversation", "Only frames of these conversations, separated by commas", minLength=1),
    DELTAS,
)
SWITCHED = Response(101, "A websocket; each text message is a frame", Frame, ex.HEARTBEAT)
NO_HANDSHAKE = error(426, "`upgrade_required`: the request is no handshake of a websocket")
LIVE = (
    "Live only: connect first, then read the lists that you keep up to date. A client that reads too slowly "
    "gets a Gap in place of the frames that it missed, and must read its lists again."
)

EVENTS = (
    Operation(
        "watchEvents",
        "GET /events",
        "Stream the events of all conversations, from now on",
        (Response(200, "Server-sent events of frames", Frame, ex.STREAM, "text/event-stream"), INVALID),
        FILTERS,
        description=LIVE,
    ),
    Operation(
        "watchEventsSocket",
        "GET /events/ws",
        "Stream the events of all conversations over a websocket",
        (SWITCHED, INVALID, NO_HANDSHAKE),
        FILTERS,
        description=LIVE,
    ),
    Operation(
        "followConversationSocket",
        "GET /conversations/{id}/ws",
        "Stream a conversation's events over a websocket: stored ones, then new ones",
        (SWITCHED, INVALID, NO_HANDSHAKE),
        (AFTER, DELTAS),
        description="Close codes: 1000, the conversation was deleted; 1001, the server is stopping.",
    ),
)

APPROVALS = (
    Operation(
        "listApprovals",
        "GET /approvals",
        "List approvals of all conversations, the oldest first",
        (Response(200, "A page of approvals", w.ApprovalList(approvals=[ex.APPROVAL])), INVALID),
        (
            query("state", "Only approvals in this state", QuestionState, default="pending"),
            query("kind", "Only approvals of this kind", w.Kind),
            LIMIT,
            CURSOR,
        ),
    ),
    Operation(
        "getApproval",
        "GET /approvals/{uuid}",
        "Read an approval in any state",
        (Response(200, "The approval", w.ApprovalBody(approval=ex.APPROVAL)),),
    ),
    Operation(
        "decideApproval",
        "POST /approvals/{uuid}",
        "Decide an approval; the first decision counts",
        (
            Response(200, "The outcome", ENDED),
            ACCEPTED,
            error(
                400,
                "Nothing was decided: `decision_required`, `invalid_request` (`field` names the field), "
                f"{MALFORMED}",
            ),
            error(403, "`may_not_approve`: with `requires`, another person has to approve"),
            error(
                404,
                "`approval_not_found`, or `conversation_not_found`: the conversation was deleted meanwhile",
            ),
            error(
                409,
                "`already_decided`: `approval` has the decision. `conversation_read_only`: the decision "
                "is kept for the newer version that wrote the conversation. `halted`, `subject_changed`: the "
                "approval is still pending; with the latter, `approval` shows it",
            ),
            error(410, "`expired` or `void`; `superseded_by` names the approval that replaces it, if any"),
            error(
                422,
                "`invalid_arguments` (`errors` lists the mistakes) or `denied_by_policy`: the approval is "
                f"still pending. {REUSED}",
            ),
        ),
        (PREFER, TOKEN),
        w.DecisionRequest(approved=True),
        UNTIL,
    ),
)

AGUI = (
    Operation(
        "runAgent",
        "POST /agui",
        "Run the agent for a client that speaks AG-UI",
        (
            Response(
                200,
                "Server-sent events of AG-UI 1.0, until the run ends or waits",
                AGUIEvent,
                ex.AGUI_STREAM,
                "text/event-stream",
            ),
            error(400, "`message_required`, `invalid_request_body` or `invalid_token`"),
            error(404, "`conversation_not_found`, or `approval_not_found` for an `interruptId`"),
            error(409, "`conversation_completed` or `conversation_read_only`"),
            error(422, f"{UNUSABLE}. The key is the id of the message"),
            error(429, "`queue_full`: too many messages wait in this conversation"),
        ),
        (SESSION, TOKEN),
        ex.AGUI_INPUT,
        "If the client disconnects, the run continues; repeat the request to follow it again.",
        keyed=False,
    ),
)

SYSTEM = (
    Operation(
        "getHealth",
        "GET /health",
        "Check that the process is alive",
        (Response(200, "The process is alive", s.Alive(status="ok", policy="5feceb66ffc86f38")),),
        is_public=True,
    ),
    Operation(
        "getReadiness",
        "GET /health/ready",
        "Check the tool servers, the models and the store",
        (Response(200, "All are ready", ex.READINESS), Response(503, "Not all are ready", s.Readiness)),
        is_public=True,
    ),
    Operation(
        "listTools",
        "GET /tools",
        "List all tools, and whether each runs, asks or is denied",
        (Response(200, "The tools", s.ToolList(tools=[ex.TOOL], warnings=())),),
    ),
    Operation(
        "acceptTool",
        "POST /tools/{name}/accept",
        "Accept the weaker hints that the tool server lists",
        (
            Response(200, "The hints are in effect", s.ToolBody(tool=ex.TOOL)),
            error(400, f"`invalid_request`: `hash` is missing; {MALFORMED}"),
            error(409, "`tool_changed`: the definition has another hash now"),
        ),
        (),
        ex.ACCEPTANCE,
        "`name` is the name of the Tool whose `held` has the hash. A repeat changes nothing.",
    ),
    Operation(
        "getDocs",
        "GET /docs",
        "Read this documentation",
        (Response(200, "A page", str, content_type="text/html"),),
        is_public=True,
    ),
    Operation(
        "listEndpoints",
        "GET /docs/json",
        "List all operations briefly",
        (
            Response(
                200,
                "The operations",
                s.EndpointList(
                    title="Agent Stop and Go",
                    version="0.1.0",
                    endpoints=[s.Endpoint(method="GET", path="/health", description="Check the process")],
                ),
            ),
        ),
        is_public=True,
    ),
    Operation(
        "getOpenApi",
        "GET /openapi.json",
        "Read this documentation as OpenAPI 3.1",
        (Response(200, "The document", Mapping[str, Any]),),
        is_public=True,
    ),
)

TAGS = {
    "conversations": CONVERSATIONS,
    "approvals": APPROVALS,
    "events": EVENTS,
    "ag-ui": AGUI,
    "auth": AUTH,
    "emergency stop": EMERGENCY,
    "fleet": FLEET,
    "policy": POLICY,
    "notifications": NOTIFICATIONS,
    "system": SYSTEM,
}
OPERATIONS: tuple[Operation, ...] = tuple(each for group in TAGS.values() for each in group)
