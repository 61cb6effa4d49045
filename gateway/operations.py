"""The one table of routes: what is served is what is described."""

from __future__ import annotations

import attrs

from . import examples as ex
from .http.query import MAX_LIMIT, MAX_TEXT
from .operation import (
    ACCEPTED,
    INVALID,
    LOCATION,
    MALFORMED,
    NO_APPROVAL,
    NO_CONVERSATION,
    REUSED,
    STOPPING,
    Answer,
    Operation,
    Parameter,
    error,
    posted,
    turn,
)
from .schemas import (
    APPROVAL_KINDS,
    APPROVAL_STATES,
    COUNT,
    STATUSES,
    STRING,
    array,
    ref,
    shape,
    words,
)

CONVERSATION = Parameter("id", "path", "Id of the conversation", example=ex.CONVERSATION_ID)
APPROVAL = Parameter("uuid", "path", "UUID of the approval", example=ex.APPROVAL_ID)
LIMIT = Parameter(
    "limit",
    "query",
    "How many at most",
    {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": 50},
)
CURSOR = Parameter("cursor", "query", "`next_cursor` of the page before")
KEY = Parameter(
    "Idempotency-Key",
    "header",
    "Makes the request safe to send again: a repeat does nothing and gets the first answer",
    {"type": "string", "minLength": 1, "maxLength": 255},
)
PREFER = Parameter(
    "Prefer", "header", "`respond-async`: 202 as soon as the request is on disk", words("respond-async")
)
SESSION = Parameter(
    "X-Session-ID",
    "header",
    "Session of a new conversation; one is made when absent",
    {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"},
)
TOKEN = Parameter("Authorization", "header", "`Bearer TOKEN`, forwarded to tool servers, never stored")

AFTER = Parameter("after", "query", "Only events after this seq", {**COUNT, "default": 0})
DELTAS = Parameter(
    "deltas", "query", "Also model replies while they arrive, and progress of calls", words("true", "false")
)

MESSAGE_BODY = shape({}, {"message": STRING})
PAGE = {"next_cursor": STRING, "broken": array(ref("Error"))}


SYSTEM = (
    Operation(
        "getHealth",
        "GET",
        "/health",
        "system",
        "Is the process alive?",
        (Answer(200, "It is", shape({"status": STRING}), {"status": "ok"}),),
    ),
    Operation(
        "getReadiness",
        "GET",
        "/health/ready",
        "system",
        "Are the tool servers, the models and the store ready?",
        (
            Answer(200, "All of them", ref("Readiness"), ex.READINESS),
            Answer(503, "Not all of them", ref("Readiness")),
        ),
    ),
    Operation(
        "listTools",
        "GET",
        "/tools",
        "system",
        "Every tool, and whether it runs, asks or is denied",
        (
            Answer(
                200,
                "The tools",
                shape({"tools": array(ref("Tool")), "warnings": array(STRING)}),
                {"tools": [ex.TOOL], "warnings": []},
            ),
        ),
    ),
    Operation(
        "acceptTool",
        "POST",
        "/tools/{name}/accept",
        "system",
        "Let the weaker hints of a tool count from now on",
        posted(
            Answer(200, "They count, or did so before", shape({"tool": ref("Tool")}), {"tool": ex.TOOL}),
            error(400, f"`invalid_request`: there is no `hash`; {MALFORMED}"),
            error(404, "`tool_not_found`"),
            error(409, "`tool_changed`: its definition has another hash by now"),
        ),
        (Parameter("name", "path", "Name of the tool, as `GET /tools` has it", example=ex.TOOL["name"]),),
        shape({"hash": STRING}),
        {"hash": ex.HASH},
        "`hash` is that of the definition that was looked at, in `held` of `GET /tools`. To do it again "
        "changes nothing, so it needs no `Idempotency-Key`.",
    ),
    Operation(
        "getDocs",
        "GET",
        "/docs",
        "system",
        "This documentation",
        (Answer(200, "A page", STRING, content_type="text/html"),),
    ),
    Operation(
        "getOpenApi",
        "GET",
        "/openapi.json",
        "system",
        "This documentation for programs: OpenAPI 3.1",
        (Answer(200, "The document", {"type": "object"}),),
    ),
)

CONVERSATIONS = (
    Operation(
        "createConversation",
        "POST",
        "/conversations",
        "conversations",
        "Begin a conversation",
        posted(
            Answer(
                201,
                "Begun; `result` only if there was a message",
                ref("Turn"),
                {"conversation": ex.NEW},
                headers=LOCATION,
            ),
        ),
        (KEY, SESSION, TOKEN),
        MESSAGE_BODY,
        {"message": "list all resources"},
        "With a `message` the answer comes when the turn has finished, or when only a person can move it on. "
        "If you stop waiting, the turn goes on.",
    ),
    Operation(
        "listConversations",
        "GET",
        "/conversations",
        "conversations",
        "Conversations, the newest first",
        (
            Answer(
                200,
                "A page of them; `summary` counts all there are",
                shape({"conversations": array(ref("ConversationItem")), "summary": ref("Summary")}, PAGE),
                {
                    "conversations": [ex.ITEM],
                    "summary": {"total": 1, "active": 0, "waiting_approval": 1, "completed": 0},
                },
            ),
            INVALID,
        ),
        (
            Parameter("status", "query", "Only those in this status", STATUSES),
            Parameter("q", "query", "Only those with this in the title", {**STRING, "maxLength": MAX_TEXT}),
            LIMIT,
            CURSOR,
            Parameter("view", "query", "`full` adds the messages", words("full")),
        ),
    ),
    Operation(
        "getConversation",
        "GET",
        "/conversations/{id}",
        "conversations",
        "One conversation with all its messages and approvals",
        (
            Answer(
                200,
                "The conversation",
                shape({"conversation": ref("Conversation")}),
                {"conversation": ex.WAITING},
            ),
            NO_CONVERSATION,
        ),
        (CONVERSATION,),
    ),
    Operation(
        "sendMessage",
        "POST",
        "/conversations/{id}/messages",
        "conversations",
        "Say something",
        posted(
            turn(
                "What it came to. While an approval is pending the message is not stored: "
                "`waiting_approval` is true and `code` is `waiting_approval`",
                {"conversation": ex.WAITING, "result": ex.WAITING_RESULT},
            ),
            ACCEPTED,
            error(400, f"`message_required`, {MALFORMED}"),
            NO_CONVERSATION,
            error(409, "`conversation_completed` or `conversation_read_only`"),
            error(429, "`queue_full`: too many messages wait in this conversation"),
        ),
        (CONVERSATION, KEY, PREFER, TOKEN),
        shape({"message": STRING}),
        {"message": "add a server web-1 with value 42"},
        "The answer comes when the turn has finished, or when only a person or a credential can move it on. "
        "If you stop waiting, the turn goes on.",
    ),
    Operation(
        "cancelConversation",
        "POST",
        "/conversations/{id}/cancel",
        "conversations",
        "Stop what is going on; pending approvals become void",
        posted(
            turn("Stopped", {"conversation": ex.ENDED}),
            NO_CONVERSATION,
            error(409, "`conversation_read_only`"),
        ),
        (CONVERSATION, KEY),
    ),
    Operation(
        "completeConversation",
        "POST",
        "/conversations/{id}/complete",
        "conversations",
        "Close the conversation; it takes no more messages",
        posted(
            turn("Closed", {"conversation": {**ex.NEW, "status": "completed"}}),
            NO_CONVERSATION,
            error(409, "`run_in_progress` or `conversation_read_only`"),
        ),
        (CONVERSATION, KEY),
    ),
    Operation(
        "resumeConversation",
        "POST",
        "/conversations/{id}/resume",
        "conversations",
        "Go on with this request's bearer token",
        posted(
            turn("What it came to", {"conversation": ex.ENDED, "result": ex.FINISHED_RESULT}),
            error(400, f"`token_required`, {MALFORMED}"),
            NO_CONVERSATION,
            error(409, "`not_waiting_for_credential` or `conversation_read_only`"),
        ),
        (CONVERSATION, KEY, attrs.evolve(TOKEN, example="Bearer TOKEN")),
    ),
    Operation(
        "deleteConversation",
        "DELETE",
        "/conversations/{id}",
        "conversations",
        "Stop it and forget everything about it",
        (Answer(204, "Nothing of it is left"), NO_CONVERSATION, STOPPING),
        (CONVERSATION,),
    ),
    Operation(
        "followConversation",
        "GET",
        "/conversations/{id}/events",
        "conversations",
        "Everything that happened, then everything that happens",
        (
            Answer(
                200,
                "Server-sent events; the id of each is its seq",
                ref("Event"),
                ex.EVENT,
                "text/event-stream",
            ),
            INVALID,
            NO_CONVERSATION,
        ),
        (
            CONVERSATION,
            AFTER,
            Parameter("Last-Event-ID", "header", "The same, as clients that come back send it", COUNT),
            DELTAS,
        ),
        description="A stream that ends is one to come back to, with the seq of the last event that came. "
        "A `model.delta` has a Delta for data, a `tool.progress` a Progress. They have no id; who misses one "
        "misses nothing.",
    ),
)

_FILTERS = (
    Parameter(
        "status",
        "query",
        "Only events of conversations one of these states, separated by commas",
        example="active,completed",
    ),
    Parameter(
        "type",
        "query",
        "Only events of these types, separated by commas; `approval.*` is a group",
        example="approval.*",
    ),
    Parameter("conversation", "query", "Only events of these conversations, separated by commas"),
    DELTAS,
)
_SWITCHED = Answer(101, "A websocket; each text message is a frame", ref("Frame"), {"type": "heartbeat"})
_LIVE = (
    "Live only: connect first, then read the lists that you keep up to date. A reader that is slow gets "
    '`{"type": "gap"}` in place of what it missed, and reads its lists again.'
)

EVENTS = (
    Operation(
        "watchEvents",
        "GET",
        "/events",
        "events",
        "The events of all conversations, from now on",
        (
            Answer(200, "Server-sent events", ref("Frame"), ex.EVENT, "text/event-stream"),
            INVALID,
        ),
        _FILTERS,
        description=_LIVE,
    ),
    Operation(
        "watchEventsSocket",
        "GET",
        "/events/ws",
        "events",
        "The same over a websocket",
        (_SWITCHED, INVALID),
        _FILTERS,
        description=_LIVE,
    ),
    Operation(
        "followConversationSocket",
        "GET",
        "/conversations/{id}/ws",
        "events",
        "The events of a conversation over a websocket: those that are stored, then those that follow",
        (_SWITCHED, INVALID, NO_CONVERSATION),
        (CONVERSATION, AFTER, DELTAS),
        description="Close codes: 1000 the conversation was deleted, 1001 the server stops.",
    ),
)

APPROVALS = (
    Operation(
        "listApprovals",
        "GET",
        "/approvals",
        "approvals",
        "Approvals of all conversations, the oldest first",
        (
            Answer(
                200,
                "A page of them",
                shape({"approvals": array(ref("Approval"))}, PAGE),
                {"approvals": [ex.APPROVAL]},
            ),
            INVALID,
        ),
        (
            Parameter(
                "state", "query", "Only those in this state", {**APPROVAL_STATES, "default": "pending"}
            ),
            Parameter("kind", "query", "Only those of this kind", APPROVAL_KINDS),
            LIMIT,
            CURSOR,
        ),
    ),
    Operation(
        "getApproval",
        "GET",
        "/approvals/{uuid}",
        "approvals",
        "One approval, whatever became of it",
        (
            Answer(200, "The approval", shape({"approval": ref("Approval")}), {"approval": ex.APPROVAL}),
            NO_APPROVAL,
        ),
        (APPROVAL,),
    ),
    Operation(
        "decideApproval",
        "POST",
        "/approvals/{uuid}",
        "approvals",
        "Decide; the first decision is the one that counts",
        posted(
            turn("What the run came to since", {"conversation": ex.ENDED, "result": ex.FINISHED_RESULT}),
            ACCEPTED,
            error(
                400,
                "Nothing was decided: `decision_required`, `invalid_request` (`field` names what), "
                f"{MALFORMED}",
            ),
            error(404, "`approval_not_found`, or `conversation_not_found`: it was deleted meanwhile"),
            error(
                409,
                "`already_decided`: `approval` has the decision that stands. `conversation_read_only`: the "
                "decision is kept for the newer version that wrote the conversation",
            ),
            error(410, "`expired` or `void`; `superseded_by` names the one that took its place, if any"),
            error(
                422,
                "`invalid_arguments` (`errors` says why) or `denied_by_policy`: it is still pending. "
                f"{REUSED}",
            ),
        ),
        (APPROVAL, KEY, PREFER, TOKEN),
        ref("DecisionRequest"),
        {"approved": True},
        "The answer comes when the run has finished, or when only a person or a credential can move it on.",
    ),
)

OPERATIONS: tuple[Operation, ...] = (*CONVERSATIONS, *APPROVALS, *EVENTS, *SYSTEM)
