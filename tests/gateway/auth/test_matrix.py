"""Every route, stream, websocket and A2A method against every party.

The rows are compared with the route table of the application, so a route without a row fails.

    ========  ==================================================================
    word      answer
    ========  ==================================================================
    ok        the request passed all checks of rights; its own outcome may differ
    401       there is no valid credential
    403       a role is missing, and the error names the roles
    404       the object does not exist for the party
    ========  ==================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.gateway.auth.parties import PARTIES, Served, serving

HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}
INVALID = ("none", "expired", "revoked", "forged")

Verdicts = Mapping[str, str]


def verdicts(rest: str, **named: str) -> Verdicts:
    return {**dict.fromkeys(PARTIES, rest), **named, **dict.fromkeys(INVALID, "401")}


PUBLIC: Verdicts = dict.fromkeys((*PARTIES, *INVALID), "ok")
OWN = verdicts("ok")
"""About the party itself, which may learn that it has no role."""
LOOK = verdicts("ok", nobody="403")
READ = verdicts("ok", stranger="404", outsider="404", relay="404", nobody="404")
COMMAND = verdicts("404", owner="ok", admin="ok", viewer="403", approver="403")
DECIDE = verdicts("404", owner="403", admin="ok", viewer="403", approver="ok")
CREATE = verdicts("ok", viewer="403", approver="403", outsider="403", nobody="403")
ADMINISTER = verdicts("403", admin="ok")


@attrs.frozen
class Row:
    verdicts: Verdicts
    body: Any = None
    headers: Mapping[str, str] = {}


ROWS: Mapping[str, Row] = {
    "GET /": Row(PUBLIC),
    "GET /page/{path:name}": Row(PUBLIC),
    "GET /favicon.ico": Row(PUBLIC),
    "GET /health": Row(PUBLIC),
    "GET /health/ready": Row(PUBLIC),
    "GET /docs": Row(PUBLIC),
    "GET /openapi.json": Row(PUBLIC),
    "GET /docs/json": Row(PUBLIC),
    "GET /.well-known/agent.json": Row(PUBLIC),
    "GET /.well-known/agent-card.json": Row(PUBLIC),
    "GET /tools": Row(LOOK),
    "GET /page/agent": Row(LOOK),
    "GET /page/sign-in": Row(PUBLIC),
    "GET /session": Row(OWN),
    "POST /ticket": Row(OWN, {}),
    "POST /logout": Row(OWN, {}),
    "POST /page/markdown": Row(OWN, {"texts": ["a"]}),
    "GET /halt": Row(LOOK),
    "GET /fleet": Row(LOOK),
    "GET /policy": Row(LOOK),
    "GET /policy/history": Row(LOOK),
    "GET /policy/report": Row(LOOK),
    "GET /policy/calls": Row(ADMINISTER),
    "POST /policy/replay": Row(ADMINISTER, {"rules": "unannotated: ask"}),
    "GET /notifications": Row(ADMINISTER),
    "POST /notifications/{notification}/retry": Row(ADMINISTER, {}),
    "POST /notifications/test": Row(ADMINISTER, {"channel": "ops"}),
    "POST /halt": Row(ADMINISTER, {"reason": "r"}),
    "POST /unhalt": Row(ADMINISTER, {}),
    "POST /tools/{name}/accept": Row(ADMINISTER, {"hash": "0"}),
    "GET /conversations": Row(LOOK),
    "GET /approvals": Row(LOOK),
    "GET /events": Row(LOOK),
    "WS /events/ws": Row(LOOK),
    "POST /conversations": Row(CREATE, {"message": "hello"}),
    "GET /conversations/{id}": Row(READ),
    "GET /conversations/{id}/events": Row(READ),
    "WS /conversations/{id}/ws": Row(READ),
    "GET /approvals/{uuid}": Row(READ),
    "GET /page/approvals/{uuid}": Row(READ),
    "GET /page/approvals/{uuid}/calls": Row(READ),
    "POST /conversations/{id}/messages": Row(COMMAND, {"message": "more"}),
    "POST /conversations/{id}/cancel": Row(COMMAND, {}),
    "POST /conversations/{id}/complete": Row(COMMAND, {}),
    "POST /conversations/{id}/resume": Row(COMMAND, {}, {"Authorization": "Bearer t"}),
    "DELETE /conversations/{id}": Row(COMMAND),
    "POST /approvals/{uuid}": Row(DECIDE, {"approved": False}),
    # For a party that may not read the thread, it is a thread of its own, with another id.
    "POST /agui": Row(
        CREATE,
        {
            "threadId": "{id}",
            "runId": "r",
            "state": {},
            "messages": [{"id": "m1", "role": "user", "content": "hello"}],
            "tools": [],
            "context": [],
            "forwardedProps": {},
        },
    ),
}
"""By method and path; the object belongs to `owner`, an operator."""

A2A_ROUTES = {
    "POST /a2a",
    "POST /a2a/",
    "GET /a2a/{path:path}",
    "POST /a2a/{path:path}",
    "DELETE /a2a/{path:path}",
}
"""`A2A_ROWS` has their methods."""

PUSH = {"taskId": "{id}", "id": "p", "url": "http://127.0.0.1:1/hook"}


def message(text: str, **more: Any) -> dict[str, Any]:
    return {"message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": text}], **more}}


A2A_ROWS: Mapping[str, Row] = {
    # A context that a party may not read is new to it.
    "SendMessage": Row(CREATE, message("hello", contextId="{id}")),
    "SendMessage, a decision": Row(DECIDE, message("no", taskId="{id}")),
    "SendStreamingMessage": Row(CREATE, message("hello", contextId="{id}")),
    "GetTask": Row(READ, {"id": "{id}"}),
    "CancelTask": Row(COMMAND, {"id": "{id}"}),
    "SubscribeToTask": Row(READ, {"id": "{id}"}),
    "ListTasks": Row(LOOK, {}),
    "CreateTaskPushNotificationConfig": Row(COMMAND, PUSH),
    "GetTaskPushNotificationConfig": Row(READ, {"taskId": "{id}", "id": "p"}),
    "ListTaskPushNotificationConfigs": Row(READ, {"taskId": "{id}"}),
    "DeleteTaskPushNotificationConfig": Row(COMMAND, {"taskId": "{id}", "id": "p"}),
    "GetExtendedAgentCard": Row(LOOK, {}),
}


def routes(served: Served) -> Iterator[str]:
    for rule in served.app.url_map.iter_rules():
        path = rule.rule.replace("<", "{").replace(">", "}")
        if rule.websocket:
            yield f"WS {path}"
        else:
            yield from (f"{method} {path}" for method in (rule.methods or set()) - {"HEAD", "OPTIONS"})


async def test_every_route_has_a_row(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        assert set(routes(served)) ^ {*ROWS, *A2A_ROUTES} == set()


def filled(value: Any, id: str, uuid: str) -> Any:
    match value:
        case str():
            return value.replace("{id}", id).replace("{uuid}", uuid).replace("{name}", "wipe")
        case dict():
            return {name: filled(each, id, uuid) for name, each in value.items()}
        case list():
            return [filled(each, id, uuid) for each in value]
    return value


def wrong(found: Verdicts, expected: Verdicts) -> Mapping[str, tuple[str, str]]:
    """The answers that differ, each with the expected one."""
    return {party: (found[party], each) for party, each in expected.items() if found[party] != each}


def word(status: int, code: str) -> str:
    if status in (401, 403):
        assert (status, code) in ((401, "unauthenticated"), (403, "role_required")), code
        return str(status)
    return "404" if code in ("conversation_not_found", "approval_not_found") else "ok"


async def answer(served: Served, party: str, route: str, row: Row) -> str:
    id, uuid = await served.wiping()
    method, path = route.split(" ")
    path, body = filled(path, id, uuid), filled(row.body, id, uuid)
    sender = None if party == "none" else party
    headers = {**served.headers(sender), **row.headers}
    if method == "WS":
        method, headers = "GET", {**headers, **HANDSHAKE}
    request = served.client.build_request(method, path, json=body, headers=headers)
    response = await served.client.send(request, stream=True)
    try:
        if response.status_code == 101:
            return "ok"
        if response.headers.get("Content-Type", "").startswith("text/event-stream"):
            return "ok"
        await response.aread()
        code = response.json().get("code", "") if response.is_error else ""
        assert response.status_code < 500, response.text
        if response.status_code == 403:
            assert response.json()["roles"]
        if response.status_code == 401:
            assert response.headers["WWW-Authenticate"]
        return word(response.status_code, code)
    finally:
        await response.aclose()


@pytest.mark.parametrize(
    ("route", "row"), ROWS.items(), ids=lambda each: each if isinstance(each, str) else ""
)
async def test_route_against_every_party(route: str, row: Row, tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        found = {party: await answer(served, party, route, row) for party in row.verdicts}
    assert not (differences := wrong(found, row.verdicts)), differences


async def a2a_answer(served: Served, party: str, method: str, row: Row) -> str:
    id, uuid = await served.wiping()
    body = {"jsonrpc": "2.0", "id": 1, "method": method.split(",")[0], "params": filled(row.body, id, uuid)}
    headers = {"A2A-Version": "1.0", **served.headers(None if party == "none" else party)}
    async with served.client.stream("POST", "/a2a", json=body, headers=headers) as response:
        if response.headers["Content-Type"].startswith("text/event-stream"):
            return "ok"
        await response.aread()
    if response.status_code != 200:
        return word(response.status_code, response.json()["code"])
    error = response.json().get("error")
    if error is None:
        return "ok"
    if error["code"] == -32001:
        return "404" if "push notification configuration" not in error["message"] else "ok"
    return "403" if "role" in error["message"] else "ok"


@pytest.mark.parametrize(
    ("method", "row"), A2A_ROWS.items(), ids=lambda each: each if isinstance(each, str) else ""
)
async def test_a2a_method_against_every_party(method: str, row: Row, tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        found = {party: await a2a_answer(served, party, method, row) for party in row.verdicts}
    assert not (differences := wrong(found, row.verdicts)), differences


async def test_http_binding_of_a2a_needs_a_credential(tmp_path: Path) -> None:
    """Both bindings answer through one function, so the matrix of the methods covers their rights."""
    async with serving(tmp_path) as served:
        id, _ = await served.wiping()
        for method, path in (("GET", f"tasks/{id}"), ("POST", "message:send"), ("DELETE", f"tasks/{id}")):
            for party in (None, "expired", "revoked", "forged"):
                response = await served.call(party, method, f"/a2a/{path}")
                assert response.status_code == 401
        assert (await served.call("stranger", "GET", f"/a2a/tasks/{id}")).status_code == 404
        assert (await served.call("owner", "GET", f"/a2a/tasks/{id}")).status_code == 200
