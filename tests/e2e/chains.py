"""Agents that delegate to each other, each in its own process, and clients of them."""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from tests.waiting import until_true

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve, Server

Json = dict[str, Any]

SERVERS = Path(__file__).parents[2] / "testdata" / "servers"
SCRIPTED = {"model": "script:replies.yaml"}
TELL = {"when": {"tool_result": "(?s)(?P<result>.*)"}, "text": "told: ${result}"}
"""The last reply of a scripted model: the tool's result."""


def eventually(condition: Callable[[], Any]) -> Any:
    """Poll until the condition returns a value, because another process has to make it true."""
    found: Any = None

    def holds() -> bool:
        nonlocal found
        found = condition()
        return bool(found)

    until_true(holds)
    return found


# ---------------------------------------------------------------------------- agent files


def written(folder: Path, config: Json, replies: Sequence[Json] = ()) -> Path:
    """An agent file, which is JSON and so YAML, and the script of its model."""
    folder.mkdir(exist_ok=True)
    (folder / "replies.yaml").write_text(json.dumps({"replies": list(replies) or [TELL]}))
    (folder / "agent.yaml").write_text(json.dumps(config))
    return folder / "agent.yaml"


def passing_on(to: str, **settings: Any) -> Json:
    """An agent that has the agent at `NEXT`, which it calls `to`, do everything."""
    agent = {"type": "a2a", "name": "onward", "agent": to}
    remote = {"name": to, "url": "${NEXT}/a2a"}
    return {"llm": {"model": "offline:rules"}, "a2a": [remote], "agent": agent, **settings}


def echo_server(name: str, **env: str) -> Json:
    """`testdata/servers/echo_server.py`, whose ledger records the executed calls."""
    command = {"command": sys.executable, "args": ["-S", str(SERVERS / "echo_server.py")]}
    return {"name": name, **command, "env": {"LEDGER": "${LEDGER}", **env}}


def calling(tool: str, words: str | None = None, **when: Any) -> Json:
    """The reply that calls the tool with what follows its name, or these words, in the message."""
    condition = {"user": f"{words or tool} (?P<text>.*)", "call": 1, **when}
    return {"when": condition, "tool_calls": [{"name": tool, "arguments": {"text": "${text}"}}]}


def entries(ledger: Path) -> list[Json]:
    """The calls that the echo servers executed."""
    return [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []


def done(ledger: Path) -> list[str]:
    return [f"{entry['tool']} {entry['arguments'].get('text')}" for entry in entries(ledger)]


# ---------------------------------------------------------------------------- processes


@attrs.frozen
class Chain:
    """Each agent calls the next one."""

    agents: Sequence[Server]

    @property
    def first(self) -> Server:
        return self.agents[0]

    @property
    def last(self) -> Server:
        return self.agents[-1]

    @property
    def conversations(self) -> list[int]:
        """How many each agent has."""
        return [each.get("/conversations")["summary"]["total"] for each in self.agents]


def start_chain(serve: Serve, folder: Path, configs: Sequence[Path], env: Mapping[str, str]) -> Chain:
    """The last one first, since the others need its address."""
    agents: list[Server] = []
    next = ""
    for number, config in reversed(list(enumerate(configs))):
        data = folder / f"data{number}"
        server = serve(data, config=config, env={**env, "NEXT": next, "CHAIN_B": next})
        next = server.run.url
        agents.insert(0, server)
    return Chain(agents)


# ----------------------------------------------------------------------- what people do


def begin(server: Server, message: str, token: str | None = None) -> Json:
    """A turn of a new conversation, as far as it goes without people."""
    return server.post("/conversations", {"message": message}, status=201, token=token)


def begin_and_leave(server: Server, message: str) -> str:
    """The id of a new conversation, without waiting for its turn."""
    id = server.new()
    headers = {"Prefer": "respond-async"}
    path, body = f"/conversations/{id}/messages", {"message": message}
    response = server.client.post(path, json=body, headers=headers)
    assert response.status_code == 202, response.text
    return id


def pending(server: Server, **wanted: str) -> list[Json]:
    """The pending approvals, optionally of one kind or conversation."""
    found: list[Json] = server.get("/approvals")["approvals"]
    return [each for each in found if wanted.items() <= each.items()]


def asked_in(conversation: Json) -> list[Json]:
    """Its pending approvals in full, the oldest first."""
    return [each for each in conversation["approvals"] if each["state"] == "pending"]


def decide(server: Server, approval: Json, status: int = 200, token: str | None = None, **words: Any) -> Json:
    """Decide and return the turn. Without words: approve."""
    return server.post(
        f"/approvals/{approval['uuid']}", words or {"approved": True}, status=status, token=token
    )


def decide_and_leave(server: Server, approval: Json, **words: Any) -> None:
    """Decide without waiting for the turn."""
    headers = {"Prefer": "respond-async"}
    path, body = f"/approvals/{approval['uuid']}", words or {"approved": True}
    response = server.client.post(path, json=body, headers=headers)
    assert response.status_code == 202, response.text


def approval_of(server: Server, approval: Json) -> Json:
    """The same approval as it is now."""
    now: Json = server.get(f"/approvals/{approval['uuid']}")["approval"]
    return now


def ended(server: Server, id: str, state: str = "finished") -> Json:
    """The conversation, once its run is in this state."""

    def found() -> Json | None:
        conversation = server.conversation(id)
        return conversation if conversation.get("run", {}).get("state") == state else None

    conversation: Json = eventually(found)
    return conversation


def answer_of(conversation: Json) -> str:
    text: str = conversation["messages"][-1]["content"]
    return text


def calls_of(conversation: Json) -> list[Json]:
    """The calls of the conversation, in order."""
    return [each["tool_call"] for each in conversation["messages"] if "tool_call" in each]


def task_of(server: Server, approval: Json) -> Json:
    """The conversation of the agent that asked: its task has the id of that, unless it is a later one."""
    return server.conversation(approval["remote_task_id"].partition("~")[0])


# ------------------------------------------------------------------------ what is left


def session_ids(server: Server, path: str) -> set[str]:
    """The sessions that the log names with requests of this path."""
    return set(re.findall(rf"POST {path}\S* \d+ .*sid=(\S+)", server.log))


def leaks(servers: Sequence[Server], secret: str, *answers: object) -> list[str]:
    """Where the secret is, of the logs, all files and the answers."""
    places = {f"the log of {each.data_dir.name}": each.log.encode() for each in servers}
    places["the answers"] = repr(answers).encode()
    for each in servers:
        files = (file for file in each.data_dir.rglob("*") if file.is_file())
        places |= {str(file): file.read_bytes() for file in files}
    return [place for place, content in places.items() if secret.encode() in content]


@contextmanager
def held_port() -> Iterator[int]:
    """A port reserved for an agent that starts later or restarts."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        port: int = holder.getsockname()[1]
        yield port
