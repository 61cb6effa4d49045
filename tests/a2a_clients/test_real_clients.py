"""The clients that others publish, as processes: what they see of an agent, and what it keeps of them.

Each story is told by `a2a-sdk` and by `@a2a-js/sdk`, over both bindings and in both versions that the agent
speaks. STOPGO_NPM_DIR is where `make npm-servers` installs the latter.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import pytest
import yaml

from stopgo.actors.a2a.wire.a2a_headers import HITL
from tests.a2a_clients.client_process import ClientProcess, Heard, Json, Kind, Line
from tests.e2e.conftest import Server, Servers

pytestmark = pytest.mark.npm

GATE_SERVER = Path(__file__).parents[2] / "testdata" / "servers" / "gate_server.py"
KINDS = [
    Kind(program, version, binding)
    for version in ("1.0", "0.3")
    for binding in ("JSONRPC", "HTTP+JSON")
    for program in ("python", "js")
]
ADD = {"name": "resources_add", "arguments": {"name": "${name}", "value": 1}}
ADD_OTHER = {"name": "resources_add", "arguments": {"name": "${other}", "value": 1}}
REPLIES: list[Json] = [
    {"when": {"user": "^hello$"}, "text": "Hello yourself."},
    {"when": {"user": r"^add (?P<name>\S+)$", "call": 1}, "tool_calls": [ADD]},
    {"when": {"user": r"^add (?P<name>\S+) (?P<other>\S+)$", "call": 1}, "tool_calls": [ADD, ADD_OTHER]},
    {
        "when": {"user": r"^add (?P<name>\S+) after (?P<path>\S+)$", "call": 1},
        "text": "First the gate.",
        "tool_calls": [{"name": "wait_for", "arguments": {"path": "${path}"}}],
    },
    {"when": {"user": r"^add (?P<name>\S+) after", "last_tool": "wait_for"}, "tool_calls": [ADD]},
    {"when": {"tool_result": '"id"'}, "text": "Added."},
    {"when": {"last_tool": "resources_add"}, "text": "Then not."},
]
NUMBERS = {"TaskNotFound": -32001, "TaskNotCancelable": -32002, "UnsupportedOperation": -32004}
WORKING, ASKS, DONE = "TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED"


@attrs.frozen
class Served:
    server: Server
    line: Line
    """Between the clients and the server."""

    def conversation(self, task: Json) -> Json:
        return self.server.conversation(task["contextId"])

    def decision(self, id: str) -> Json | None:
        """Yes or no, with the reason, as REST shows it; None while it is pending."""
        approval: Json = self.server.get(f"/approvals/{id}")["approval"]
        decision = approval.get("decision")
        assert (decision is None) == (approval["state"] == "pending")
        return decision and {key: decision[key] for key in ("approved", "reason") if key in decision}

    def added(self, name: str) -> int:
        """How often a resource was really added."""
        return self.server.resources()[name, "1"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("clients")
    servers, line = Servers(), Line()
    (folder / "replies.yaml").write_text(yaml.safe_dump({"replies": REPLIES}))
    resources = {"command": "stopgo", "args": ["mcp-resources", "--db", "${data_dir}/resources.db"]}
    gate = {"command": sys.executable, "args": [str(GATE_SERVER)], "max_concurrency": 9}
    agent: Json = {
        "name": "keeper",
        "server": {"public_url": line.url},  # so that the card sends clients over the line
        "llm": {"model": "script:replies.yaml"},
        "mcp_servers": [{"name": "resources", **resources}, {"name": "gate", **gate}],
    }
    (folder / "agent.yaml").write_text(yaml.safe_dump(agent))
    try:
        server = servers(folder / "data", config=folder / "agent.yaml")
        line.lead_to(server.run.url)
        yield Served(server, line)
    finally:
        line.close()
        servers.stop_all()


@pytest.fixture(scope="module", params=KINDS, ids=str)
def client(request: pytest.FixtureRequest, served: Served) -> Iterator[ClientProcess]:
    kind: Kind = request.param
    if kind.program == "js":
        sdk = Path(os.environ.get("STOPGO_NPM_DIR", "")) / "node_modules" / "@a2a-js" / "sdk"
        assert sdk.exists(), "the client is not installed in STOPGO_NPM_DIR: run `make npm-servers`"
    process = ClientProcess.start(kind, served.line.url)
    yield process
    process.close()


@pytest.fixture
def name() -> str:
    """Of a resource that no other story has."""
    return f"lamp-{uuid.uuid4().hex[:8]}"


def message(part: str | Json, task: Json | None = None, **fields: object) -> Json:
    """A text or data; to a task, or else the beginning of one."""
    to = {"taskId": task["id"], "contextId": task["contextId"]} if task else {}
    parts = [{"text": part} if isinstance(part, str) else {"data": part}]
    return {"message": {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": parts, **to, **fields}}


def state(item: Json) -> str:
    """Of the task, after this item of a stream."""
    told: str = (item.get("task") or item["statusUpdate"])["status"]["state"]
    return told


def pending(status: Json) -> Sequence[Json]:
    """What a status asks its client."""
    (asked,) = [part["data"]["pending"] for part in status["message"]["parts"] if "data" in part]
    found: list[Json] = asked
    return found


def sent(items: Sequence[Json]) -> Sequence[Json]:
    """The artifacts of a stream."""
    return [item["artifactUpdate"]["artifact"] for item in items if "artifactUpdate" in item]


def texts(artifacts: Sequence[Json]) -> Sequence[str]:
    return [part["text"] for artifact in artifacts for part in artifact["parts"]]


def is_refused(heard: Heard, error: str) -> bool:
    """Whether the client knows the error by its name, or at least by its number: in a stream of 0.3 over
    JSON-RPC, `@a2a-js/sdk` goes no further."""
    named = error in heard.last["error"] or f"(Code: {NUMBERS[error]})" in heard.last["message"]
    return named and not heard.items


def ask_to_add(client: ClientProcess, *names: str) -> Json:
    """A task that waits for an answer."""
    task: Json = client.do("send", message(f"add {' '.join(names)}")).only["task"]
    assert task["status"]["state"] == ASKS
    return task


def test_the_card_leads_to_the_interface_that_the_client_wants(client: ClientProcess) -> None:
    chosen = client.do("transport").only

    assert chosen == {"legacy": client.kind.version == "0.3", "rest": client.kind.binding == "HTTP+JSON"}
    if client.kind.version == "1.0":
        # This is the card for those who ask by a method; that of 0.3 is for authenticated clients.
        skills = {skill["id"]: skill["tags"] for skill in client.do("card").only["skills"]}
        assert skills["resources_add"] == ["resources", "needs approval"]


def test_a_task_is_answered_by_words(client: ClientProcess, served: Served, name: str) -> None:
    task = ask_to_add(client, name)

    (asked,) = pending(task["status"])
    assert (asked["tool"], asked["arguments"]) == ("resources_add", {"name": name, "value": 1})
    conversation = served.conversation(task)
    assert conversation["status"] == "waiting_approval"
    assert [approval["uuid"] for approval in conversation["pending_approvals"]] == [asked["id"]]

    # Words that are no answer are none.
    unclear = client.do("send", message("what would that change?", task)).only["task"]
    assert (unclear["id"], unclear["status"]["state"]) == (task["id"], ASKS)
    assert served.decision(asked["id"]) is None
    assert served.added(name) == 0

    done = client.do("send", message("approved", task)).only["task"]
    assert (done["id"], done["status"]["state"]) == (task["id"], DONE)
    assert texts(done["artifacts"]) == ["Added."]
    assert served.decision(asked["id"]) == {"approved": True}
    assert served.added(name) == 1
    conversation = served.conversation(task)
    assert conversation["status"] == "active"
    said = [each["content"] for each in conversation["messages"] if each["role"] in ("user", "assistant")]
    assert (said[0], said[-1]) == (f"add {name}", "Added.")


def test_a_stream_is_answered_by_a_data_part(client: ClientProcess, served: Served, name: str) -> None:
    begun = client.do("stream", message(f"add {name}"))

    assert "end" in begun.last
    task = begun.items[0]["task"]
    states = [state(item) for item in begun.items]
    assert (states[0], states[-1], set(states[1:-1])) == ("TASK_STATE_SUBMITTED", ASKS, {WORKING})
    (asked,) = pending(begun.items[-1]["statusUpdate"]["status"])
    (waiting,) = served.conversation(task)["approvals"]
    assert (waiting["uuid"], waiting["tool_args"]) == (asked["id"], {"name": name, "value": 1})

    answer = {"id": asked["id"], "approved": False, "reason": "not today"}
    rest = client.do("stream", message(answer, task))
    assert "end" in rest.last
    assert rest.items[0]["task"]["id"] == task["id"]
    assert texts(sent(rest.items)) == ["Operation cancelled by user.\n\nThen not."]
    assert state(rest.items[-1]) == DONE
    # A task that somebody refused to carry out has ended well; that it was refused is told beside the state.
    assert rest.items[-1]["statusUpdate"]["metadata"] == {"rejected": True}
    assert served.decision(asked["id"]) == {"approved": False, "reason": "not today"}
    assert served.added(name) == 0
    assert served.conversation(task)["status"] == "active"


def test_a_stream_is_answered_by_the_extension(client: ClientProcess, served: Served, name: str) -> None:
    other = f"{name}-other"
    begun = client.do("stream", message(f"add {name} {other}"), HITL)

    assert begun.last == {"end": HITL}
    task, question = begun.items[0]["task"], begun.items[-1]["statusUpdate"]["status"]["message"]
    assert question["extensions"] == [HITL]
    request = question["metadata"][HITL]
    assert request["type"] == "tool_approval_request"
    ids = {tool["args"]["name"]: tool["id"] for tool in request["tools"]}
    assert ids.keys() == {name, other}
    waiting = served.conversation(task)["pending_approvals"]
    assert {approval["uuid"] for approval in waiting} == set(ids.values())

    yes = {"id": ids[name], "approved": True}
    no = {"id": ids[other], "approved": False, "rejection_reason": "one is enough"}
    response = {HITL: {"type": "tool_approval_response", "approvals": [yes, no]}}
    answer = message("As marked.", task, metadata=response, extensions=[HITL])
    rest = client.do("stream", answer, HITL)
    assert rest.last == {"end": HITL}
    assert state(rest.items[-1]) == DONE
    assert served.decision(ids[name]) == {"approved": True}
    assert served.decision(ids[other]) == {"approved": False, "reason": "one is enough"}
    assert (served.added(name), served.added(other)) == (1, 0)


def test_words_decide_nothing_beside_the_extension(client: ClientProcess, served: Served, name: str) -> None:
    task = ask_to_add(client, name)
    (asked,) = pending(task["status"])

    still = client.do("send", message("approved", task), HITL)

    assert still.only["task"]["status"]["state"] == ASKS
    assert served.decision(asked["id"]) is None
    response = {"type": "tool_approval_response", "approvals": [{"id": asked["id"], "approved": True}]}
    answer = message("Yes.", task, metadata={HITL: response}, extensions=[HITL])
    done = client.do("send", answer, HITL)
    assert done.last == {"end": HITL}
    assert done.only["task"]["status"]["state"] == DONE
    assert served.decision(asked["id"]) == {"approved": True}
    assert served.added(name) == 1


def test_a_stream_goes_on_after_the_line_broke(
    client: ClientProcess, served: Served, name: str, tmp_path: Path
) -> None:
    gate = tmp_path / "open"
    stream = client.begin("stream", message(f"add {name} after {gate}"))
    task = next(stream)["item"]["task"]
    for line in stream:
        told = line["item"]["statusUpdate"]["status"]
        if "message" in told:
            break
    assert told["message"]["parts"] == [{"text": "First the gate."}]

    served.line.cut()
    # Whether a client takes that for the end or for an error is its own affair; it has seen no more states.
    assert [set(line) & {"item"} for line in stream] == [set()]
    assert served.conversation(task)["status"] == "active"

    again = client.begin("subscribe", {"id": task["id"]})
    snapshot = next(again)["item"]["task"]
    assert (snapshot["id"], snapshot["status"]["state"]) == (task["id"], WORKING)
    assert [each["parts"] for each in snapshot["history"]] == [[{"text": f"add {name} after {gate}"}]]
    gate.touch()
    *following, last = again
    assert "end" in last
    # All that happened after the snapshot: the call had a result, a question was put, nothing else was left.
    result, put, waits = (line["item"] for line in following)
    (part,) = result["artifactUpdate"]["artifact"]["parts"]
    assert part["data"] == {"result": "the gate is open"}
    assert [state(put), state(waits)] == [WORKING, ASKS]
    (asked,) = pending(waits["statusUpdate"]["status"])
    assert pending(put["statusUpdate"]["status"]) == [asked]
    assert [approval["uuid"] for approval in served.conversation(task)["pending_approvals"]] == [asked["id"]]

    # Whoever comes later is asked, too, and then sees what an answer by another way leads to.
    late = client.begin("subscribe", {"id": task["id"]})
    assert pending(next(late)["item"]["task"]["status"]) == [asked]
    served.server.post(f"/approvals/{asked['id']}", {"approved": True})
    *following, last = (line.get("item") or line for line in late)
    assert "end" in last
    assert texts(sent(following)) == ["Added."]
    assert (following[-1]["statusUpdate"]["taskId"], state(following[-1])) == (task["id"], DONE)
    assert served.added(name) == 1
    ended = client.do("subscribe", {"id": task["id"]})
    assert is_refused(ended, "UnsupportedOperation")


# The clients have no list in 0.3.
@pytest.mark.parametrize(
    "client", [kind for kind in KINDS if kind.version == "1.0"], ids=str, indirect=True, scope="module"
)
def test_the_tasks_of_a_context_are_listed(client: ClientProcess, served: Served) -> None:
    first = client.do("send", message("hello")).only["task"]
    second = client.do("send", message("hello", contextId=first["contextId"])).only["task"]
    client.do("send", message("hello"))

    listed = client.do("list", {"contextId": first["contextId"]}).only

    assert [task["id"] for task in listed["tasks"]] == [second["id"], first["id"]]
    assert {task["contextId"] for task in listed["tasks"]} == {first["contextId"]}
    assert (listed["totalSize"], listed.get("nextPageToken", "")) == (2, "")
    assert [task.get("artifacts", []) for task in listed["tasks"]] == [[], []]
    messages = served.conversation(first)["messages"]
    assert [each["content"] for each in messages if each["role"] == "user"] == ["hello", "hello"]

    wanted = {"contextId": first["contextId"], "pageSize": 1, "includeArtifacts": True, "status": DONE}
    newest = client.do("list", wanted).only
    older = client.do("list", {**wanted, "pageToken": newest["nextPageToken"]}).only
    assert [task["id"] for task in newest["tasks"] + older["tasks"]] == [second["id"], first["id"]]
    assert texts(older["tasks"][0]["artifacts"]) == ["Hello yourself."]
    assert older.get("nextPageToken", "") == ""


def test_a_task_is_canceled(client: ClientProcess, served: Served, name: str) -> None:
    task = ask_to_add(client, name)
    (asked,) = pending(task["status"])

    canceled = client.do("cancel", {"id": task["id"]}).only

    assert (canceled["id"], canceled["status"]["state"]) == (task["id"], "TASK_STATE_CANCELED")
    assert client.do("get", {"id": task["id"]}).only["status"]["state"] == "TASK_STATE_CANCELED"
    assert served.server.get(f"/approvals/{asked['id']}")["approval"]["state"] == "void"
    assert served.conversation(task)["status"] == "active"
    assert served.added(name) == 0


def test_refusals_are_errors_that_the_client_knows(client: ClientProcess) -> None:
    task = client.do("send", message("hello")).only["task"]
    refused = [
        client.do("get", {"id": "nobody-has-this"}),
        client.do("cancel", {"id": task["id"]}),
        client.do("send", message("hello", task)),
        client.do("stream", message("hello", task)),
    ]

    errors = ["TaskNotFound", "TaskNotCancelable", "UnsupportedOperation", "UnsupportedOperation"]
    for heard, error in zip(refused, errors, strict=True):
        assert is_refused(heard, error), heard
