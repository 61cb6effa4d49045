"""Two agents, of which the first delegates to the second: TS-009, TS-010, TS-021 (over REST), TS-026 and
TS-027, FR-029, FR-030, NFR-015, MOD-005 and FR-NEW-004."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.a2a_servers.peer_process import running
from tests.e2e.chains import (
    SCRIPTED,
    TELL,
    Chain,
    Json,
    answer_of,
    approval_of,
    asked_in,
    begin,
    calls_of,
    decide,
    echo_server,
    eventually,
    leaks,
    pending,
    session_ids,
    start_chain,
    task_of,
    written,
)
from tests.e2e.conftest import TESTDATA, Servers
from tests.http_client import blocking_client

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve, Server

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
A, B = TESTDATA / "e2e-chain-a.yaml", TESTDATA / "e2e-chain-b.yaml"

DELEGATING: Json = {
    "name": "delegating",
    "llm": SCRIPTED,
    "mcp_servers": [echo_server("own") | {"tools": {"include": ["echo", "wipe"]}}],
    "a2a": [
        {"name": "helper", "url": "${NEXT}/a2a", "description": "Manages resources."},
        {"name": "careful", "url": "${NEXT}/a2a", "destructiveHint": True},
    ],
}
REPLIES: list[Json] = [
    *(
        {
            "when": {"user": f"{name}: (?P<text>.*)", "call": 1},
            "tool_calls": [{"name": f"a2a_{name}", "arguments": {"message": "${text}"}}],
        }
        for name in ("helper", "careful")
    ),
    TELL,
]


@pytest.fixture(scope="module")
def processes() -> Iterator[Serve]:
    servers = Servers()
    yield servers
    servers.stop_all()


@pytest.fixture(scope="module")
def chain(processes: Serve, tmp_path_factory: pytest.TempPathFactory) -> Chain:
    return start_chain(processes, tmp_path_factory.mktemp("chain"), [A, B], {})


@pytest.fixture(scope="module")
def delegating(processes: Serve, chain: Chain, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """An agent whose model delegates to the second one of the chain by tools."""
    folder = tmp_path_factory.mktemp("delegating")
    config = written(folder, DELEGATING, REPLIES)
    return processes(
        folder / "data", config=config, env={"NEXT": chain.last.run.url, "LEDGER": str(folder / "ledger")}
    )


def add(chain: Chain, name: str, value: int) -> tuple[str, Json]:
    """The conversation and the question, once the first agent has been asked to add a resource."""
    turn = begin(chain.first, f"add resource {name} with value {value}")
    assert turn["result"]["waiting_approval"] is True
    assert turn["conversation"]["status"] == "waiting_approval"
    return turn["conversation"]["id"], turn["result"]["approval"]


def test_ts_026_list_goes_through_the_chain_without_approval(chain: Chain) -> None:
    before = chain.conversations
    turn = begin(chain.first, "list all resources")

    conversation = turn["conversation"]
    assert (conversation["status"], turn["result"]["state"]) == ("active", "finished")
    assert "resource" in turn["result"]["response"]
    assert conversation["approvals"] == []
    assert {each["node"] for each in conversation["messages"] if "node" in each} == {"analyzer", "delegator"}
    [call] = calls_of(conversation)
    assert (call["state"], call["result"]) == ("finished", turn["result"]["response"])

    # One conversation at each, and the second one has really called its tool.
    assert [now - then for now, then in zip(chain.conversations, before, strict=True)] == [1, 1]
    [newest] = chain.last.get("/conversations", limit="1", view="full")["conversations"]
    assert [each["name"] for each in calls_of(newest)] == ["resources_list"]
    assert answer_of(newest) == call["result"]


def test_ts_027_proxy_approval_is_decided_at_the_first_agent(chain: Chain) -> None:
    id, asked = add(chain, "chain-test", 77)
    assert (asked["kind"], asked["remote_agent_name"]) == ("proxy", "delegator")
    assert asked["tool_args"] == {"name": "chain-test", "value": 77}
    assert "PROXY APPROVAL" in asked["description"]
    assert "chain-test" in asked["description"]
    assert asked["path"] == ["delegator"]

    # The same question at both: the task named there waits, and nothing has been done.
    assert pending(chain.first, conversation_id=id) == [asked]
    there = task_of(chain.last, asked)
    assert there["status"] == "waiting_approval"
    [original] = asked_in(there)
    assert (original["kind"], original["tool_args"]) == ("tool", asked["tool_args"])
    assert chain.last.resources()[("chain-test", "77")] == 0

    turn = decide(chain.first, asked)
    assert turn["conversation"]["status"] == "active"
    assert turn["result"]["response"].startswith("Added chain-test = 77")
    assert chain.last.resources()[("chain-test", "77")] == 1
    assert approval_of(chain.last, original)["decision"]["approved"] is True
    there = task_of(chain.last, asked)
    assert (there["status"], answer_of(there)) == ("active", turn["result"]["response"])

    late = decide(chain.first, asked, status=409, approved=False)
    assert late["code"] == "already_decided"
    assert chain.last.resources()[("chain-test", "77")] == 1


DECISIONS: dict[str, tuple[Json, dict[str, int]]] = {
    "approve": ({"approved": True}, {"lamp": 99}),
    "a word": ({"answer": "yes"}, {"lamp": 99}),
    "edit": ({"approved": True, "arguments": {"name": "edited", "value": 5}}, {"edited": 5}),
    "reject": ({"approved": False}, {}),
    "reason": ({"action": "reject", "reason": "not on Fridays"}, {}),
}


@pytest.mark.parametrize(("words", "added"), DECISIONS.values(), ids=DECISIONS)
def test_ts_021_decision_over_rest_reaches_the_last_agent(
    chain: Chain, words: Json, added: dict[str, int]
) -> None:
    before = chain.last.resources()
    _, asked = add(chain, "lamp", 99)
    assert chain.last.resources() == before

    turn = decide(chain.first, asked, **words)

    assert (turn["conversation"]["status"], turn["result"]["state"]) == ("active", "finished")
    told = [f"Added {name} = {value}" for name, value in added.items()] or ["Operation cancelled by user."]
    assert turn["result"]["response"].startswith(told[0])
    assert pending(chain.first) == pending(chain.last) == []
    [original] = task_of(chain.last, asked)["approvals"]
    assert original["decision"]["approved"] is bool(added)
    for key in words.keys() & {"arguments", "reason"}:
        assert original["decision"][key] == words[key]
    new = {(name, str(value)): 1 for name, value in added.items()}
    assert chain.last.resources() - before == new


def test_invalid_edit_is_refused_at_the_first_agent(chain: Chain) -> None:
    _, asked = add(chain, "unfit", 1)
    wrong = decide(chain.first, asked, status=422, approved=True, arguments={"name": "unfit"})
    assert wrong["code"] == "invalid_arguments"
    assert task_of(chain.last, asked)["status"] == "waiting_approval"
    turn = decide(chain.first, asked, approved=False)
    assert turn["conversation"]["status"] == "active"
    assert chain.last.resources()[("unfit", "1")] == 0


def test_ts_009_a_model_delegates_by_a_tool(delegating: Server, chain: Chain) -> None:
    before = chain.conversations[-1]
    turn = begin(delegating, "helper: list all resources")

    [call] = calls_of(turn["conversation"])
    assert (call["name"], call["state"], call["is_error"]) == ("a2a_helper", "finished", False)
    assert call["arguments"] == {"message": "list all resources"}
    assert "resource" in call["result"]
    assert turn["result"]["response"] == f"told: {call['result']}"
    assert turn["conversation"]["approvals"] == []
    assert chain.conversations[-1] == before + 1


@pytest.mark.parametrize("approved", [True, False])
def test_ts_009_destructive_agent_asks_first(delegating: Server, chain: Chain, approved: bool) -> None:
    before = chain.conversations[-1]
    turn = begin(delegating, "careful: list all resources")
    [asked] = asked_in(turn["conversation"])
    assert (asked["kind"], asked["tool_name"]) == ("tool", "a2a_careful")
    assert asked["tool_args"] == {"message": "list all resources"}
    assert "DELEGATE to A2A Agent: careful" in asked["description"]
    assert "list all resources" in asked["description"]
    assert chain.conversations[-1] == before

    turn = decide(delegating, asked, approved=approved)
    assert turn["result"]["state"] == "finished"
    [call] = calls_of(turn["conversation"])
    assert call["state"] == ("finished" if approved else "rejected")
    assert chain.conversations[-1] == before + approved


def test_ts_009_approved_delegation_does_not_approve_its_calls(delegating: Server, chain: Chain) -> None:
    """Approving the delegation does not approve the calls of the other agent."""
    turn = begin(delegating, "careful: add resource twice-asked with value 3")
    turn = decide(delegating, turn["result"]["approval"])
    [asked] = asked_in(turn["conversation"])
    assert (asked["kind"], asked["remote_agent_name"]) == ("proxy", "careful")
    assert chain.last.resources()[("twice-asked", "3")] == 0
    turn = decide(delegating, asked)
    assert turn["result"]["response"].startswith("told: Added twice-asked = 3")
    assert [each["kind"] for each in turn["conversation"]["approvals"]] == ["tool", "proxy"]
    assert chain.last.resources()[("twice-asked", "3")] == 1


def test_mod_005_the_tools_of_agents_have_no_server(delegating: Server) -> None:
    tools = {each["name"]: each for each in delegating.get("/tools")["tools"]}
    assert {name: each.get("server") for name, each in tools.items()} == {
        "a2a_helper": None,
        "a2a_careful": None,
        "echo": "own",
        "wipe": "own",
    }
    helper, careful = tools["a2a_helper"], tools["a2a_careful"]
    assert helper["description"] == "Delegate task to A2A agent 'helper'. Manages resources."
    assert helper["inputSchema"]["required"] == ["message"]
    assert helper["inputSchema"]["properties"]["message"]["type"] == "string"
    assert (helper["policy"], careful["policy"]) == ("run", "ask")
    assert not helper.get("destructiveHint")
    assert careful["destructiveHint"] is True


@pytest.mark.parametrize("kind", ["older", "sdk"])
async def test_ts_010_the_bearer_arrives_unchanged_or_none_does(
    serve: Serve, tmp_path: Path, kind: str
) -> None:
    """At third-party agents that record their requests. The session and the trace arrive, too."""
    async with running(kind) as peer:
        server = serve(tmp_path / "data", config=A, env={"CHAIN_B": peer.url.removesuffix("/a2a")})
        seen = 0
        for token in ("test-token-123", None, "a.b~c+d/e_f-0=="):
            headers = {"traceparent": TRACE} | ({"Authorization": f"Bearer {token}"} if token else {})
            body = {"message": "echo hello"}
            turn = server.client.post("/conversations", json=body, headers=headers).json()
            assert turn["result"]["response"] == "echo: hello"
            posts = peer.requests(method="POST")[seen:]
            seen += len(posts)
            assert posts
            for sent in (each["headers"] for each in posts):
                assert sent.get("authorization") == (f"Bearer {token}" if token else None)
                assert sent["x-session-id"] == turn["conversation"]["session_id"]
                assert sent["traceparent"] == TRACE
        # Whoever reads the card needs no token, and is shown none.
        assert all("authorization" not in each["headers"] for each in peer.requests(method="GET"))
    assert leaks([server], "test-token-123") == leaks([server], "a.b~c+d") == []


@pytest.mark.parametrize("given", [None, "of_the-client"])
def test_fr_030_all_logs_of_a_conversation_have_one_session(chain: Chain, given: str | None) -> None:
    """Also those of a follow-up, whose request names none, or another one."""
    headers = {} if given is None else {"X-Session-ID": given}
    client, id, sessions = chain.first.client, "", set()
    for message in ("list all resources", "add resource traced with value 1", "list all resources"):
        path = f"/conversations/{id}/messages" if id else "/conversations"
        response = client.post(path, json={"message": message}, headers=headers)
        body = response.json()
        id, headers = body["conversation"]["id"], {"X-Session-ID": "another"} if id else {}
        sessions |= {response.headers["X-Session-ID"], body["conversation"]["session_id"]}
        if body["result"]["waiting_approval"]:
            body = decide(chain.first, body["result"]["approval"], approved=False)
    [session] = sessions
    assert re.fullmatch(given or "[0-9a-f]{8}", session)

    # Each turn began a task there, and every request about it says so.
    eventually(lambda: session in session_ids(chain.first, f"/conversations/{id}/messages"))
    about = [each for each in newest(chain.last, 3) if each["session_id"] == session]
    assert len(about) == 3
    for each in about:
        assert eventually(partial(sessions_about, chain.last, each["id"])) == {session}


def sessions_about(server: Server, id: str) -> set[str]:
    """The sessions of all requests about a conversation, the first included."""
    return set(re.findall(rf"POST /a2a .* conversation={id} sid=(\S+)", server.log))


def newest(server: Server, count: int) -> list[Json]:
    found: list[Json] = server.get("/conversations", limit=str(count))["conversations"]
    return found


def test_nfr_015_each_conversation_has_its_own_session_in_both_logs(chain: Chain) -> None:
    turns = [begin(chain.first, "list all resources") for _ in range(3)]
    sessions = {turn["conversation"]["session_id"] for turn in turns}
    assert len(sessions) == 3
    # A line may be written after the answer.
    eventually(lambda: sessions <= session_ids(chain.first, "/conversations"))
    eventually(lambda: sessions <= session_ids(chain.last, "/a2a"))


def test_a2a_client_decides_a_proxy_approval(chain: Chain) -> None:
    """A client of A2A sees the question as it sees those of the agent itself, with the way it came."""
    with blocking_client(base_url=chain.first.run.url) as client:

        def say(text: Json, **about: str) -> Json:
            message = {"messageId": str(text)[:40], "role": "ROLE_USER", "parts": [text], **about}
            task: Json = client.post("/a2a/message:send", json={"message": message}).json()["task"]
            return task

        task = say({"text": "add resource over-a2a with value 4"})
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        [item] = task["status"]["message"]["parts"][1]["data"]["pending"]
        assert (item["kind"], item["arguments"]) == ("tool", {"name": "over-a2a", "value": 4})
        assert item["path"][0] == "delegator"
        assert item["id"] == pending(chain.first)[0]["uuid"]
        task = say({"data": {"id": item["id"], "approved": True}}, taskId=task["id"])
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert chain.last.resources()[("over-a2a", "4")] == 1
