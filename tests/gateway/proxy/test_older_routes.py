"""The routes of the former web application."""

from typing import Any

import pytest

from tests.gateway.proxy.conftest import Proxied, Told


async def test_a_chat_with_an_approval(with_tools: Proxied) -> None:
    begun = await with_tools.client.post("/api/send", json={"message": "hi"})
    assert (begun.status_code, begun.json()["result"]["response"]) == (201, "you said hi")
    id = begun.json()["conversation"]["id"]
    asked = await with_tools.client.post("/api/send", json={"message": "add lamp", "conversation_id": id})
    assert (asked.status_code, asked.json()["result"]["waiting_approval"]) == (200, True)
    [approval] = asked.json()["conversation"]["pending_approvals"]
    done = await with_tools.client.post("/api/approve", json={"uuid": approval["uuid"], "approved": True})
    assert (done.status_code, done.json()["result"]["response"]) == (200, "added lamp")
    again = await with_tools.client.post("/api/approve", json={"uuid": approval["uuid"], "approved": False})
    assert (again.status_code, again.json()["code"]) == (409, "already_decided")
    read = await with_tools.client.get(f"/api/conversation/{id}")
    assert read.json() == (await with_tools.client.get(f"/conversations/{id}")).json()


async def test_refusals_of_the_agent_are_passed_on(real: Proxied) -> None:
    missing = await real.client.get("/api/conversation/none")
    assert (missing.status_code, missing.json()["code"]) == (404, "conversation_not_found")
    missing = await real.client.post("/api/send", json={"message": "hi", "conversation_id": "none"})
    assert (missing.status_code, missing.json()["code"]) == (404, "conversation_not_found")


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/api/send", b"{", "invalid_request_body"),
        ("/api/send", b"[]", "invalid_request_body"),
        ("/api/send", b"", "message_required"),
        ("/api/send", b'{"message": " "}', "message_required"),
        ("/api/send", b'{"message": 1}', "invalid_request_body"),
        ("/api/send", b'{"message": "a", "conversation_id": 1}', "invalid_request"),
        ("/api/send", b'{"message": "a", "conversation_id": ".."}', "invalid_request"),
        ("/api/approve", b"{}", "invalid_request"),
        ("/api/approve", b'{"uuid": "u"}', "invalid_request"),
        ("/api/approve", b'{"uuid": "u", "approved": "yes"}', "invalid_request"),
        ("/api/approve", b'{"uuid": true, "approved": true}', "invalid_request"),
        ("/api/approve", b'{"uuid": "", "approved": true}', "invalid_request"),
    ],
)
async def test_bad_input_stays_here(told: Told, proxied: Proxied, path: str, body: bytes, code: str) -> None:
    refused = await proxied.client.post(path, content=body)
    assert (refused.status_code, refused.json()["code"]) == (400, code)
    assert told.asked == []


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ({"message": "a"}, "POST /conversations HTTP/1.1"),
        ({"message": "a", "conversation_id": None}, "POST /conversations HTTP/1.1"),
        ({"message": "a", "conversation_id": ""}, "POST /conversations HTTP/1.1"),
        (
            {"message": "a", "conversation_id": "../approvals/x?y"},
            "POST /conversations/..%2Fapprovals%2Fx%3Fy/messages HTTP/1.1",
        ),
    ],
)
async def test_what_the_agent_is_asked(told: Told, proxied: Proxied, body: dict[str, Any], line: str) -> None:
    await proxied.client.post("/api/send", json=body)
    assert told.lines[0] == line
