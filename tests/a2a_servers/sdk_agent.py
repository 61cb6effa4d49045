"""An agent made with `a2a-sdk` that does what the text of a message says, in a process of its own:

    python sdk_agent.py LEDGER [--version 1.0|0.3] [--binding JSONRPC|HTTP+JSON] [--no-streaming]
                        [--store FILE] [--port PORT]

It offers that one version over that one binding. When it serves, it prints a line of JSON with its `url`.
Each request it gets is appended to the file LEDGER, a line of JSON. With a store, it keeps its tasks there,
and has them again when it starts the next time. js_agent.mjs knows the same words:

    echo WORDS      complete with an artifact
    say WORDS       answer with a message, not with a task
    ask             ask once; "approved" is a yes, anything else a no
    ask twice       ask again after the first yes
    ask items       ask for two decisions, each a data part of a message of its own
    login           ask for credentials, until a message comes with `Bearer good`
    file            complete with a text, a file, data and a link
    slow SECONDS    work for so long, and tell when half of it is over
    fail, reject    what they say
"""

from __future__ import annotations

import argparse
import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Message,
    Part,
    Role,
    Task,
    TaskState,
    TaskStatus,
)
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value
from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

Json = dict[str, Any]

ITEMS: dict[str, Json] = {
    "i1": {"tool": "rm", "arguments": {"path": "/x"}, "description": "Remove /x"},
    "i2": {"tool": "mv", "arguments": {"from": "/y", "to": "/z"}, "description": "Move /y to /z"},
}
QUESTIONS = {"ask": ["May I?"], "ask twice": ["May I?", "Really?"]}


def data_part(value: Json) -> Part:
    return Part(data=ParseDict(value, Value()))


def text_of(message: Message) -> str:
    return " ".join(part.text for part in message.parts if part.HasField("text")).strip()


def decisions_in(messages: Sequence[Message]) -> dict[str, bool]:
    """The first decision on each of the items."""
    found: dict[str, bool] = {}
    for part in (part for message in messages for part in message.parts if part.HasField("data")):
        match MessageToDict(part.data):
            case {"id": str(id), "approved": bool(approved)} if id in ITEMS:
                found.setdefault(id, approved)
    return found


FILES = {
    "text": Part(text="a text"),
    "file": Part(raw=bytes(range(256)), filename="bytes.bin", media_type="application/octet-stream"),
    "data": data_part({"rows": [1, 2, 3]}),
    "link": Part(url="https://files.example/a.pdf", filename="a.pdf", media_type="application/pdf"),
}


class Scripted(AgentExecutor):
    def __init__(self, ledger: Path) -> None:
        self.ledger = ledger

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        assert context.task_id is not None
        task = context.current_task
        said = {each.message_id: each for each in (*(task.history if task else ()), context.message)}
        messages = [each for each in said.values() if each.role == Role.ROLE_USER]
        headers = context.call_context.state["headers"]
        turn = Turn(
            TaskUpdater(event_queue, context.task_id, context.context_id or ""),
            [text_of(each) for each in messages[1:]],
            decisions_in(messages),
            headers.get("authorization"),
        )
        words = text_of(messages[0])
        if words.startswith("say "):
            await event_queue.enqueue_event(turn.message(Part(text=f"say: {words[4:]}")))
            return
        if task is None:
            status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
            first = Task(id=context.task_id, context_id=context.context_id, status=status, history=messages)
            await event_queue.enqueue_event(first)
        await turn.go(words)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        note(self.ledger, cancelled=context.task_id)
        await TaskUpdater(event_queue, context.task_id, context.context_id or "").cancel()


class Turn:
    """What one message makes of a task."""

    def __init__(
        self, updater: TaskUpdater, answers: list[str], decided: dict[str, bool], bearer: str | None
    ) -> None:
        self.updater = updater
        self.answers = answers
        self.decided = decided
        self.bearer = bearer

    def message(self, *parts: Part) -> Message:
        return self.updater.new_agent_message(list(parts))

    async def complete(self, text: str) -> None:
        await self.updater.add_artifact([Part(text=text)])
        await self.updater.complete()

    async def go(self, words: str) -> None:
        match words.split():
            case ["echo", *_]:
                await self.complete(f"echo: {words[5:]}")
            case ["ask", "items"]:
                await self.ask_items()
            case ["ask"] | ["ask", "twice"]:
                await self.ask(QUESTIONS[words])
            case ["login"] if self.bearer == "Bearer good":
                await self.complete("hello good")
            case ["login"]:
                await self.updater.requires_auth(self.message(Part(text="login at https://idp.example")))
            case ["file"]:
                for name, part in FILES.items():
                    await self.updater.add_artifact([part], name=name)
                await self.updater.complete()
            case ["slow", seconds]:
                await self.work(float(seconds))
            case ["reject"]:
                await self.updater.reject(self.message(Part(text="I will not")))
            case _:
                told = "it broke" if words == "fail" else f"what is {words!r}?"
                await self.updater.failed(self.message(Part(text=told)))

    async def ask(self, questions: Sequence[str]) -> None:
        if any(answer != "approved" for answer in self.answers):
            await self.complete("not done")
        elif len(self.answers) == len(questions):
            await self.complete("done")
        else:
            question = questions[len(self.answers)]
            await self.updater.requires_input(self.message(Part(text=question)))

    async def ask_items(self) -> None:
        pending = [{"id": id, "kind": "tool", **item} for id, item in ITEMS.items() if id not in self.decided]
        if pending:
            asked = self.message(Part(text="May I do these?"), data_part({"pending": pending}))
            await self.updater.requires_input(asked)
            return
        told = {id: "approved" if self.decided[id] else "rejected" for id in ITEMS}
        await self.complete(", ".join(f"{id} {decision}" for id, decision in told.items()))

    async def work(self, seconds: float) -> None:
        await self.updater.start_work()
        await anyio.sleep(seconds / 2)
        await self.updater.start_work(self.message(Part(text="half of it is over")))
        await anyio.sleep(seconds / 2)
        await self.complete("slow: all of it is over")


class FileStore(InMemoryTaskStore):
    """A task that changes is written once more; its last line counts. There are no callers to tell apart."""

    def __init__(self, file: Path) -> None:
        super().__init__(owner_resolver=lambda context: "")
        self.file = file

    async def load(self) -> None:
        for line in self.file.read_text("utf-8").splitlines() if self.file.exists() else ():
            await super().save(ParseDict(json.loads(line), Task()), ServerCallContext())

    async def save(self, task: Task, context: ServerCallContext) -> None:
        await super().save(task, context)
        append(self.file, MessageToDict(task))


def append(file: Path, line: Json) -> None:
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(line) + "\n")


def note(ledger: Path, **line: Any) -> None:
    append(ledger, line)


def parsed(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body.decode("utf-8", "replace")


class Noted:
    """Writes down each request before the agent sees it."""

    def __init__(self, app: ASGIApp, ledger: Path) -> None:
        self.app = app
        self.ledger = ledger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        whole = [{"type": "http.request", "body": body}]
        note(
            self.ledger,
            method=scope["method"],
            path=scope["raw_path"].decode(),
            headers={name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
            body=parsed(body),
        )

        async def again() -> Any:
            return whole.pop() if whole else await receive()

        await self.app(scope, again, send)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("ledger", type=Path)
    parser.add_argument("--version", choices=["1.0", "0.3"], default="1.0")
    parser.add_argument("--binding", choices=["JSONRPC", "HTTP+JSON"], default="JSONRPC")
    parser.add_argument("--no-streaming", action="store_true")
    parser.add_argument("--store", type=Path)
    parser.add_argument("--port", type=int, default=0)
    return parser.parse_args()


def agent(chosen: argparse.Namespace, url: str, store: InMemoryTaskStore) -> ASGIApp:
    paths = {"JSONRPC": "/a2a", "HTTP+JSON": "/rest"}
    card = AgentCard(
        name="sdk-agent",
        description="Does what it is told",
        version="1.0.0",
        supported_interfaces=[
            AgentInterface(
                url=url + paths[chosen.binding],
                protocol_binding=chosen.binding,
                protocol_version=chosen.version,
            )
        ],
        capabilities=AgentCapabilities(streaming=not chosen.no_streaming),
        default_input_modes=["text/plain", "application/json"],
        default_output_modes=["text/plain", "application/json", "application/octet-stream"],
        skills=[AgentSkill(id="script", name="Script", description="Does what it is told", tags=["test"])],
    )
    handler = DefaultRequestHandler(agent_executor=Scripted(chosen.ledger), task_store=store, agent_card=card)
    older = chosen.version == "0.3"
    routes: Sequence[BaseRoute] = (
        create_jsonrpc_routes(handler, "/a2a", enable_v0_3_compat=older)
        if chosen.binding == "JSONRPC"
        else create_rest_routes(handler, path_prefix="/rest", enable_v0_3_compat=older)
    )
    return Noted(Starlette(routes=[*create_agent_card_routes(card), *routes]), chosen.ledger)


async def main() -> None:
    chosen = arguments()
    store = InMemoryTaskStore()
    if chosen.store is not None:
        store = FileStore(chosen.store)
        await store.load()
    # It listens before it says so; uvicorn takes over. Unless the socket names its protocol, asyncio does not
    # see that it is TCP, and answers wait for more to send.
    with socket.socket(proto=socket.IPPROTO_TCP) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", chosen.port))
        listening.listen()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        print(json.dumps({"url": url}), flush=True)
        config = uvicorn.Config(agent(chosen, url, store), log_level="warning", lifespan="off")
        await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    anyio.run(main)
