"""The operations of A2A for the OpenAPI document; `a2a_routes` serves them. Pure.

Those of HTTP+JSON are made from the paths of the protocol, and the examples by its codecs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from ...actors.a2a.wire import v03_codec, v03_rest_codec, v1_codec
from ...actors.a2a.wire.a2a_headers import VERSION_HEADER
from ...actors.a2a.wire.http_paths import ROUTES
from ...actors.a2a.wire.json_rpc import write_result
from ...actors.a2a.wire.task import (
    Answer,
    CancelTask,
    DeletePush,
    GetCard,
    GetPush,
    GetTask,
    ListPush,
    ListTasks,
    Message,
    PushConfig,
    Request,
    Send,
    SetPush,
    Status,
    Subscribe,
    Task,
    TaskPage,
    Text,
)
from ..contract import examples as ex
from ..contract import operation as op
from ..contract.operations import SESSION, TOKEN
from ..http import sse
from .agent_card import ALL_OFFERED, AgentAbout, card

OTHERWISE = op.Response(
    0,
    "An error of A2A: over JSON-RPC with status 200, else with 400, 403, 404, 429, 500 or 503. Before a "
    "request reaches A2A: `invalid_token` (400), `unauthenticated` (401), `role_required`, "
    "`invalid_csrf_token` or `cross_site` (403), `request_timeout` (408), `body_too_large` (413), "
    "`wrong_host` (421), `limit_reached` (429), `internal_error` (500), `journal_unavailable`, "
    "`issuer_unavailable`, `shutting_down`, `too_many_connections` or `stopped` (503)",
    Mapping[str, Any],
)
_AT = 1_795_255_201.0
"""2026-11-21T10:00:01Z."""
_ID = ex.CONVERSATION_ID
_QUESTION = Message(id="m-2", role="agent", parts=(Text(ex.ASKED.response),), task=_ID, context=_ID)
_TASK = Task(id=_ID, context=_ID, status=Status("input-required", _AT, _QUESTION))
_SEND = Send(message=Message(id="m-1", role="user", parts=(Text(ex.MESSAGE),)))
_PUSH = PushConfig(task=_ID, id=op.VARIABLES["config"].example or "", url="https://client.example/push")
_CARD = card(AgentAbout("resource keeper", "Manages resources", "1.0", "https://agent.example"), ALL_OFFERED)

_METHODS: Mapping[str, tuple[str, Request, Answer]] = {
    "SendMessage": ("Send a message, which starts a task or continues one", _SEND, _TASK),
    "SendStreamingMessage": ("Send a message, and stream its task", attrs.evolve(_SEND, stream=True), _TASK),
    "GetTask": ("Read a task", GetTask(_ID), _TASK),
    "ListTasks": ("List tasks, the latest first", ListTasks(), TaskPage((_TASK,), "", 50, 1)),
    "CancelTask": (
        "Cancel a task",
        CancelTask(_ID),
        attrs.evolve(_TASK, status=Status("canceled", _AT)),
    ),
    "SubscribeToTask": ("Stream a task until it ends or waits", Subscribe(_ID), _TASK),
    "CreateTaskPushNotificationConfig": (
        "Set an address for push notifications of a task",
        SetPush(_PUSH),
        _PUSH,
    ),
    "ListTaskPushNotificationConfigs": (
        "List the addresses for push notifications of a task",
        ListPush(_ID),
        (_PUSH,),
    ),
    "GetTaskPushNotificationConfig": (
        "Read an address for push notifications",
        GetPush(_ID, _PUSH.id),
        _PUSH,
    ),
    "DeleteTaskPushNotificationConfig": (
        "Delete an address for push notifications",
        DeletePush(_ID, _PUSH.id),
        None,
    ),
    "GetExtendedAgentCard": ("Read the card for authenticated clients", GetCard(), _CARD),
}
"""By method of 1.0: its summary, an example of the request, and its answer."""

_VERSION = op.header(VERSION_HEADER, "Version of the protocol")
_FILTERS = (
    op.query("contextId", "Only tasks of this context"),
    op.query("status", "Only tasks in this state"),
    op.query("pageSize", "Maximum number of tasks", int),
    op.query("pageToken", "`nextPageToken` of the previous page"),
)


def _over_http(*, is_v1: bool) -> Iterator[op.Operation]:
    """The operations of HTTP+JSON."""
    codec = v1_codec if is_v1 else v03_rest_codec
    for verb, path, v1, v03 in ROUTES:
        if not (v1 if is_v1 else v03):
            continue
        method = v1 or "GetExtendedAgentCard"
        summary, request, answer = _METHODS[method]
        streams = isinstance(request, Subscribe) or (isinstance(request, Send) and request.stream)
        body: Any = None
        if isinstance(request, Send):
            _, body = codec.write_request(request)
        elif isinstance(request, SetPush):
            body = {"url": _PUSH.url} if is_v1 else {"pushNotificationConfig": {"url": _PUSH.url}}
        example: Any = codec.write_answer(request, answer) or {}
        if streams:
            assert isinstance(answer, Task)
            example = sse.encode(codec.write_item(answer)).decode()
        kind = "text/event-stream" if streams else "application/json"
        text = "Server-sent events: the task, then its updates" if streams else "The answer"
        by_post = verb == "POST" and isinstance(request, Subscribe)
        yield op.Operation(
            f"a2a{method}{'ByPost' if by_post else ''}{'' if is_v1 else 'V03'}",
            f"{verb} /a2a/{'' if is_v1 else 'v1/'}{path}",
            summary,
            (op.Response(200, text, Mapping[str, Any], example, kind),),
            (
                _VERSION,
                *((SESSION, TOKEN) if isinstance(request, Send) else ()),
                *(_FILTERS if isinstance(request, ListTasks) else ()),
            ),
            body,
            keyed=isinstance(request, Send),
            otherwise=OTHERWISE,
        )


_CARD_RESPONSE = op.Response(200, "The card", Mapping[str, Any], _CARD)
TAGS: Mapping[str, tuple[op.Operation, ...]] = {
    "a2a": (
        op.Operation(
            "getAgentCard",
            "GET /.well-known/agent-card.json",
            "Read the card of the agent",
            (_CARD_RESPONSE, op.Response(304, "The card has not changed")),
            is_public=True,
            otherwise=OTHERWISE,
        ),
        op.Operation(
            "getOlderAgentCard",
            "GET /.well-known/agent.json",
            "Read the card of the agent, where older clients look for it",
            (_CARD_RESPONSE, op.Response(304, "The card has not changed")),
            is_public=True,
            otherwise=OTHERWISE,
        ),
        op.Operation(
            "callA2A",
            "POST /a2a",
            "Call a method of A2A over JSON-RPC",
            (
                op.Response(
                    200,
                    "The result or the error; of a streaming method, server-sent events of them",
                    Mapping[str, Any],
                    write_result("1", v1_codec.write_answer(_SEND, _TASK)),
                ),
            ),
            (_VERSION, SESSION, TOKEN),
            {
                "jsonrpc": "2.0",
                "id": "1",
                "method": "SendMessage",
                "params": v1_codec.write_request(_SEND)[1],
            },
            f"The methods of version 1.0: {', '.join(f'`{name}`' for name in _METHODS)}. Those of 0.3: "
            f"{', '.join(f'`{name}`' for name in sorted(v03_codec.METHODS))}.",
            otherwise=OTHERWISE,
        ),
        *_over_http(is_v1=True),
    ),
    "a2a 0.3": tuple(_over_http(is_v1=False)),
}
