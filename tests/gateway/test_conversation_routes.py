"""The routes of conversations, sentence by sentence."""

import hashlib
from typing import Any

import attrs
import httpx2
import pytest
import trio

from stopgo.actors.common.errors import AgentError
from stopgo.actors.conversation.result import Result
from stopgo.actors.tools.pictures import MOST, Picture
from stopgo.gateway.contract import examples as ex
from stopgo.runtime.journal.errors import JournalUnavailable

ID = ex.CONVERSATION_ID
MESSAGES = f"/conversations/{ID}/messages"


async def test_a_conversation_begins_without_a_message(agent: Any, client: httpx2.AsyncClient) -> None:
    answer = await client.post("/conversations")
    assert answer.status_code == 201
    assert "result" not in answer.json()
    assert answer.headers["Location"] == f"/conversations/{ID}"
    [(name, args, options)] = agent.calls
    assert (name, args, options["key"], options["token"]) == ("start_conversation", (None,), None, None)


async def test_a_conversation_begins_with_a_message(agent: Any, client: httpx2.AsyncClient) -> None:
    agent.result = Result("done", "finished", run_id="r")
    answer = await client.post("/conversations", json={"message": "hello"})
    assert answer.status_code == 201
    assert answer.json()["result"]["response"] == "done"
    assert agent.calls[0][1] == ("hello",)


@pytest.mark.parametrize("body", [None, {}, {"message": None}])
async def test_no_message_is_no_message(agent: Any, client: httpx2.AsyncClient, body: object) -> None:
    assert (await client.post("/conversations", json=body)).status_code == 201
    assert agent.calls[0][1] == (None,)


@pytest.mark.parametrize("body", [{}, {"message": ""}, {"message": " \n"}, {"message": None}, None])
async def test_a_message_is_required(agent: Any, client: httpx2.AsyncClient, body: object) -> None:
    answer = await client.post(MESSAGES, json=body) if body is not None else await client.post(MESSAGES)
    assert answer.status_code == 400
    assert answer.json() == {"error": "message is required", "code": "message_required"}
    assert not agent.calls


PNG = "iVBORw0KGgoA"
"""The first bytes of a PNG file."""


@pytest.mark.parametrize("path", ["/conversations", MESSAGES])
@pytest.mark.parametrize(
    ("message", "text"),
    [("see", "see\n\n[image a.png: image/png, 9 bytes]"), (None, "[image a.png: image/png, 9 bytes]")],
)
async def test_attached_picture_is_sent_with_a_line_that_names_it(
    agent: Any, client: httpx2.AsyncClient, path: str, message: str | None, text: str
) -> None:
    agent.result = Result("done", "finished", run_id="r")
    files = [{"data": PNG, "media_type": "image/png", "name": "a.png"}]
    body = {"message": message, "attachments": files} if message else {"attachments": files}
    assert (await client.post(path, json=body)).is_success
    [(_, args, options)] = agent.calls
    assert args[-1] == text
    assert options["pictures"] == (Picture("image/png", PNG),)


@pytest.mark.parametrize(
    ("attachments", "status", "field"),
    [
        ({}, 400, "attachments"),
        (["a"], 400, "attachments[0]"),
        ([{"data": PNG}, {"name": "a"}], 400, "attachments[1].data"),
        ([{"data": PNG, "media_type": 3}], 400, "attachments[0].media_type"),
        ([{"data": PNG, "url": "x"}], 400, "url"),
        ([{"data": PNG}, {"data": "aGk=", "media_type": "application/pdf"}], 422, "attachments[1]"),
        ([{"data": ""}], 422, "attachments[0]"),
        ([{"data": PNG}] * (MOST + 1), 422, f"attachments[{MOST}]"),
    ],
    ids=str,
)
async def test_attachment_of_no_use_is_named(
    agent: Any, client: httpx2.AsyncClient, attachments: object, status: int, field: str
) -> None:
    answer = await client.post(MESSAGES, json={"message": "hi", "attachments": attachments})
    assert (answer.status_code, answer.json()["field"]) == (status, field)
    assert not agent.calls


@pytest.mark.parametrize(
    ("path", "body", "field", "hint"),
    [
        (
            "/conversations",
            {"msg": "hi"},
            "msg",
            'Did you mean "message"? Valid fields: message, attachments.',
        ),
        (MESSAGES, {"message": "hi", "": 1}, "", "Valid fields: message, attachments."),
        (f"/conversations/{ID}/cancel", {"reason": "x"}, "reason", "No field is valid here."),
        (f"/conversations/{ID}/complete", {"reason": "x"}, "reason", "No field is valid here."),
        (f"/conversations/{ID}/resume", {"token": "x"}, "token", "No field is valid here."),
        ("/tools/a/accept", {"hsh": "x"}, "hsh", 'Did you mean "hash"? Valid fields: hash.'),
        ("/page/markdown", {"text": "x"}, "text", 'Did you mean "texts"? Valid fields: texts.'),
    ],
)
async def test_an_unknown_field_is_refused(
    agent: Any, client: httpx2.AsyncClient, path: str, body: object, field: str, hint: str
) -> None:
    answer = await client.post(path, json=body)
    assert answer.status_code == 400
    error = answer.json()
    assert (error["code"], error["field"], error["hint"]) == ("unknown_field", field, hint)
    assert not agent.calls


async def test_a_message_gets_its_result(agent: Any, client: httpx2.AsyncClient) -> None:
    agent.result = Result("Please", "waiting", run_id="r", approval_ids=(ex.APPROVAL_ID,))
    answer = await client.post(MESSAGES, json={"message": "hello"})
    assert answer.status_code == 200
    result = answer.json()["result"]
    assert result["waiting_approval"] is True
    assert result["auth_required"] is False
    assert result["approval"]["uuid"] == ex.APPROVAL_ID
    assert agent.calls[0][:2] == ("send", (ID, "hello"))


@pytest.mark.parametrize(
    ("prefer", "applied"),
    [
        ("return=minimal", "return=minimal"),
        ('Return = "minimal"; x=1', "return=minimal"),
        ("return=minimal, respond-async", "respond-async, return=minimal"),
        ("return=representation", None),
    ],
)
async def test_a_minimal_answer_begins_with_the_last_message_of_the_user(
    agent: Any, client: httpx2.AsyncClient, prefer: str, applied: str | None
) -> None:
    whole = (await client.get(f"/conversations/{ID}")).json()["conversation"]
    begin = max(index for index, each in enumerate(whole["messages"]) if each["role"] == "user")
    assert 0 < begin < len(whole["messages"]) - 1
    answer = await client.post(MESSAGES, json={"message": "hello"}, headers={"Prefer": prefer})
    assert answer.headers.get("Preference-Applied") == applied
    messages = whole["messages"] if applied is None else whole["messages"][begin:]
    assert answer.json()["conversation"] == {**whole, "messages": messages}


@pytest.mark.parametrize(
    ("prefer", "applied"),
    [
        ({}, None),
        ({"Prefer": "respond-async"}, None),
        ({"Prefer": "respond-async, return=minimal"}, "return=minimal"),
    ],
    ids=str,
)
async def test_a_message_that_is_not_stored_is_refused_with_the_approvals(
    agent: Any, client: httpx2.AsyncClient, prefer: dict[str, str], applied: str | None
) -> None:
    agent.result = Result(
        "Conversation is waiting", "waiting", code="waiting_approval", approval_ids=(ex.APPROVAL_ID,)
    )
    answer = await client.post(MESSAGES, json={"message": "hello"}, headers=prefer)
    assert answer.status_code == 409
    assert answer.headers.get("Preference-Applied") == applied
    body = answer.json()
    assert (body["code"], body["error"]) == ("waiting_approval", "Conversation is waiting")
    [approval] = body["approvals"]
    assert (approval["uuid"], approval["tool_args"]) == (ex.APPROVAL_ID, {"name": "web-1", "value": 42})
    # Older clients read a 200 with these two.
    assert (body["result"]["code"], body["result"]["approval"]) == ("waiting_approval", approval)
    assert body["conversation"]["id"] == ID
    agent.result = attrs.evolve(agent.result, state="queued")
    answer = await client.post(MESSAGES, json={"message": "hello"}, headers=prefer)
    assert answer.status_code == (202 if prefer else 200), "a queued message is stored"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("conversation_not_found", 404),
        ("conversation_completed", 409),
        ("conversation_read_only", 409),
        ("queue_full", 429),
        ("idempotency_key_reused", 422),
        ("conversation_broken", 500),
        ("journal_unavailable", 503),
        ("node_unavailable", 503),
    ],
)
async def test_what_the_agent_refuses_has_a_status(
    agent: Any, client: httpx2.AsyncClient, code: Any, status: int
) -> None:
    agent.raises["send"] = AgentError(code, "no", hint="do this", details={"field": "it"})
    answer = await client.post(MESSAGES, json={"message": "hello"})
    assert answer.status_code == status
    assert answer.json() == {"error": "no", "code": code, "hint": "do this", "field": "it"}
    assert ("Retry-After" in answer.headers) == (status in (429, 503))


async def test_journal_that_cannot_be_reached_is_503(agent: Any, client: httpx2.AsyncClient) -> None:
    agent.raises["send"] = JournalUnavailable("connection refused")
    answer = await client.post(MESSAGES, json={"message": "hello"})
    assert (answer.status_code, answer.json()["code"]) == (503, "journal_unavailable")
    assert answer.headers["Retry-After"]


@pytest.mark.parametrize("accepted", [True, False])
async def test_shutting_down_says_whether_request_was_accepted(
    agent: Any, client: httpx2.AsyncClient, accepted: bool
) -> None:
    agent.raises["send"] = AgentError("shutting_down", "stopping", details={"accepted": accepted})
    answer = await client.post(MESSAGES, json={"message": "hello"})
    assert answer.status_code == 503
    assert answer.json()["accepted"] is accepted


async def test_unknown_conversations_are_404(client: httpx2.AsyncClient) -> None:
    for answer in (
        await client.get("/conversations/nope"),
        await client.post("/conversations/nope/messages", json={"message": "x"}),
        await client.get("/conversations/nope/events"),
        await client.delete("/conversations/nope"),
        await client.get("/conversations/%00%ff"),
    ):
        assert answer.status_code == 404
        assert answer.json()["code"] == "conversation_not_found"


async def test_get_shows_everything(client: httpx2.AsyncClient) -> None:
    answer = await client.get(f"/conversations/{ID}")
    assert answer.status_code == 200
    conversation = answer.json()["conversation"]
    assert conversation["status"] == "waiting_approval"
    assert [message["role"] for message in conversation["messages"]] == ["system", "user", "tool"]
    assert conversation["pending_approval"]["uuid"] == ex.APPROVAL_ID
    assert "pipeline_state" not in conversation
    assert answer.headers["X-Session-ID"] == "1f0c9a7e"


async def test_pipeline_state_comes_with_a_tree(agent: Any, client: httpx2.AsyncClient) -> None:
    agent.config = attrs.evolve(agent.config, has_tree=True)
    conversation = (await client.get(f"/conversations/{ID}")).json()["conversation"]
    assert conversation["pipeline_state"] == {
        "paused_node_path": [0],
        "paused_node_output_key": "outcome",
        "session_state": {"analysis": "add"},
        "user_message": "add a server web-1 with value 42",
    }


async def test_lists_have_no_messages_unless_asked(agent: Any, client: httpx2.AsyncClient) -> None:
    body = (await client.get("/conversations")).json()
    assert body["summary"] == {"total": 1, "active": 0, "waiting_approval": 1, "completed": 0}
    assert body["next_cursor"] == "next"
    assert "messages" not in body["conversations"][0]
    full = (await client.get("/conversations?view=full")).json()
    assert len(full["conversations"][0]["messages"]) == 3
    shared = {key: value for key, value in full["conversations"][0].items() if key != "messages"}
    assert body["conversations"][0] == shared


@pytest.mark.parametrize("path", ["/conversations", "/approvals"])
async def test_lists_name_the_conversations_that_they_cannot_show(
    agent: Any, client: httpx2.AsyncClient, path: str
) -> None:
    assert "broken" not in (await client.get(path)).json()
    agent.broken = {"c-2": "event 3 is missing"}
    [broken] = (await client.get(path)).json()["broken"]
    assert (broken["id"], broken["code"]) == ("c-2", "conversation_broken")
    assert broken["error"] == "the conversation cannot be read: event 3 is missing"


async def test_lists_are_filtered_and_paged_by_the_agent(agent: Any, client: httpx2.AsyncClient) -> None:
    await client.get("/conversations?status=active&q=hello&limit=200&cursor=abc")
    assert agent.calls == [
        (
            "conversations",
            (),
            {"status": "active", "q": "hello", "limit": 200, "cursor": "abc", "full": False},
        )
    ]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("status=done", "status"),
        ("status=", "status"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=-1", "limit"),
        ("limit=1e1", "limit"),
        ("limit=" + "9" * 5000, "limit"),
        ("limit=%D9%A1", "limit"),
        ("view=short", "view"),
        ("q=" + "x" * 1001, "q"),
        ("staus=active", "staus"),
    ],
)
async def test_a_wrong_query_names_its_parameter(
    agent: Any, client: httpx2.AsyncClient, query: str, field: str
) -> None:
    answer = await client.get(f"/conversations?{query}")
    assert answer.status_code == 400
    assert answer.json()["code"] == "invalid_request"
    assert answer.json()["field"] == field
    assert not agent.calls


async def test_a_wrong_cursor_is_400(agent: Any, client: httpx2.AsyncClient) -> None:
    agent.raises["conversations"] = AgentError("invalid_cursor", "not a cursor of ours")
    answer = await client.get("/conversations?cursor=x")
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_cursor")


@pytest.mark.parametrize("action", ["cancel", "complete"])
async def test_a_conversation_is_stopped_or_closed(
    agent: Any, client: httpx2.AsyncClient, action: str
) -> None:
    answer = await client.post(f"/conversations/{ID}/{action}")
    assert answer.status_code == 200
    assert answer.json()["conversation"]["id"] == ID
    assert agent.calls == [(action, (ID,), {"key": None})]


async def test_complete_is_refused_while_a_run_is_going(agent: Any, client: httpx2.AsyncClient) -> None:
    agent.raises["complete"] = AgentError("run_in_progress", "a run is going")
    answer = await client.post(f"/conversations/{ID}/complete")
    assert (answer.status_code, answer.json()["code"]) == (409, "run_in_progress")


async def test_resume_needs_a_token_and_hands_it_on(agent: Any, client: httpx2.AsyncClient) -> None:
    refused = await client.post(f"/conversations/{ID}/resume")
    assert (refused.status_code, refused.json()["code"]) == (400, "token_required")
    answer = await client.post(f"/conversations/{ID}/resume", headers={"Authorization": "bearer abc"})
    assert answer.status_code == 200
    assert agent.calls == [("resume", (ID,), {"token": "abc", "key": None})]


async def test_delete_has_no_content(agent: Any, client: httpx2.AsyncClient) -> None:
    answer = await client.delete(f"/conversations/{ID}")
    assert (answer.status_code, answer.content) == (204, b"")
    assert "Content-Type" not in answer.headers
    assert agent.calls == [("delete", (ID,), {})]


async def test_prefer_respond_async_does_not_wait(agent: Any, client: httpx2.AsyncClient) -> None:
    agent.gate = trio.Event()
    answer = await client.post(MESSAGES, json={"message": "x"}, headers={"Prefer": "wait=1, Respond-Async"})
    assert answer.status_code == 202
    assert answer.headers["Location"] == f"/conversations/{ID}"
    assert answer.headers["Preference-Applied"] == "respond-async"
    assert agent.calls[0][0] == "post"


async def test_the_key_is_scoped_to_route_and_path(agent: Any, client: httpx2.AsyncClient) -> None:
    headers = {"Idempotency-Key": "k 1"}
    await client.post(MESSAGES, json={"message": "x"}, headers=headers)
    await client.post(f"/conversations/{ID}/cancel", headers=headers)
    await client.post("/conversations", headers=headers)
    await client.post("/conversations", headers=headers)
    keys = [options["key"] for _, _, options in agent.calls]
    assert keys[0] == hashlib.sha256(f"POST\n{MESSAGES}\nk 1".encode()).hexdigest()
    assert len(set(keys)) == 3
    assert keys[2] == keys[3]
    # A repeat is the same command in every respect, also in the session that was made for it.
    assert agent.calls[2][2]["session_id"] == agent.calls[3][2]["session_id"]


@pytest.mark.parametrize("key", [b"", b"x" * 256, b"caf\xc3\xa9", b"a\tb"])
async def test_a_key_out_of_bounds_is_refused(agent: Any, client: httpx2.AsyncClient, key: bytes) -> None:
    for path in ("/conversations", MESSAGES, f"/conversations/{ID}/cancel", f"/approvals/{ex.APPROVAL_ID}"):
        answer = await client.post(path, json={"message": "x"}, headers={b"Idempotency-Key": key})
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_idempotency_key")
    assert {name for name, _, _ in agent.calls} == {"approval"}  # read for the log


async def test_the_longest_key_is_accepted(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/conversations", headers={"Idempotency-Key": "x" * 255})
    assert answer.status_code == 201


@pytest.mark.parametrize("given", ["a", "A-b_9", "x" * 64])
async def test_a_session_id_is_kept(agent: Any, client: httpx2.AsyncClient, given: str) -> None:
    await client.post("/conversations", headers={"X-Session-ID": given})
    assert agent.calls[0][2]["session_id"] == given
    assert (await client.get("/health", headers={"X-Session-ID": given})).headers["X-Session-ID"] == given


@pytest.mark.parametrize("given", ["", "x" * 65, "a b", "a/b", "é"])
async def test_else_a_session_id_is_made(agent: Any, client: httpx2.AsyncClient, given: str) -> None:
    await client.post("/conversations", headers={b"X-Session-ID": given.encode()})
    made = agent.calls[0][2]["session_id"]
    assert len(made) == 8
    assert int(made, 16) >= 0


async def test_later_requests_use_the_stored_session(client: httpx2.AsyncClient) -> None:
    answer = await client.post(MESSAGES, json={"message": "x"}, headers={"X-Session-ID": "other"})
    assert answer.headers["X-Session-ID"] == "1f0c9a7e"


async def test_bearer_tokens_are_handed_on(agent: Any, client: httpx2.AsyncClient) -> None:
    for value in ("Bearer t0k.en~+/=", "bearer  abc", "Basic abc", ""):
        await client.post(MESSAGES, json={"message": "x"}, headers={"Authorization": value})
    assert [options["token"] for _, _, options in agent.calls] == ["t0k.en~+/=", "abc", None, None]


@pytest.mark.parametrize("value", ["Bearer", "Bearer a b", "Bearer " + "x" * 8193])
async def test_a_token_that_cannot_be_forwarded_is_refused(
    agent: Any, client: httpx2.AsyncClient, value: str
) -> None:
    answer = await client.post(MESSAGES, json={"message": "x"}, headers={"Authorization": value})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_token")
    assert value.removeprefix("Bearer ") not in answer.text or value == "Bearer"
    assert not agent.calls


async def test_a_client_that_goes_away_takes_only_its_own_waiting(
    agent: Any, client: httpx2.AsyncClient
) -> None:
    agent.gate = trio.Event()
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def leave() -> None:
                while not agent.calls:
                    await trio.lowlevel.checkpoint()
                scope.cancel()

            await client.post(MESSAGES, json={"message": "hello"})
    assert scope.cancelled_caught
    assert agent.calls[0][:2] == ("send", (ID, "hello"))
    assert (await client.get("/health")).status_code == 200


@pytest.mark.parametrize("message", ["", " \n\t"])
async def test_a_blank_first_message_is_refused(agent: Any, client: httpx2.AsyncClient, message: str) -> None:
    answer = await client.post("/conversations", json={"message": message})
    assert (answer.status_code, answer.json()["code"]) == (400, "message_required")
    assert not agent.calls
