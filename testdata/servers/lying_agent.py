"""An agent of A2A 1.0 that lies, to see a client survive it:

    python lying_agent.py LEDGER [--card LIE] [--binding JSONRPC|HTTP+JSON] [--no-streaming] [--port PORT]

When it serves, it prints a line of JSON with its `url` and with `elsewhere`, a second origin, where it tells
of everything that arrives that it is stolen. Each request is appended to the file LEDGER, a line of JSON
that says `at` which of the two it arrived, "here" or "elsewhere". If whoever asked goes before the answer is
complete, the ledger has a line with `gone`: the words of the task, or the path. A task that is cancelled has
a line with `cancelled`.

What it does with a task says the text of its first message. Where it sends garbage, too much or without end,
a stream begins with an event that is in order.

    echo WORDS                  no lie
    ask [WORDS]                 no lie: asks that, and does what "approved" allows
    ask forever, login forever  asks again, whatever it is told
    restless                    asks, under another id whenever it is looked at
    stubborn                    says that it was cancelled, and works on
    contradict first            completed at once; a look says that it asks
    contradict completed        asks, then says it is completed; a look says that it still asks
    contradict asking           asks, whatever it is told; a look says that it is completed
    contradict after            completed, and then asks in the same stream
    other stream                another task's events in the stream
    other answer                another task as the answer to "approved"
    other get                   works; a look shows another task, which is completed
    other context               another context as the answer to "approved"
    id KIND                     asks, and the id of the task is one of IDS
    garbage KIND                one of `garbage_of`
    big one [MB]                an event, or a body, of so much; 100 if not told
    big lines [MB]              the same, of empty lines
    big chunks [MB]             an artifact of so much, in events of 64 kB
    big many [COUNT]            so many small events, or artifacts in a body; a million if not told
    big header [MB]             so much in the head
    big gzip [MB]               so much of nothing, compressed
    endless updates             says that it works, all the time
    endless comments            sends what a stream may have in it, but no event
    endless drip                an event that is never complete
    endless silence             nothing more
    endless head                nothing at all
    cut clean                   the stream ends too early; a look says that the task is completed after all
    cut event                   the same, in the middle of an event
    cut reset                   the same, with a reset
    cut before                  the same, before there is any answer
    cut unsupported, unheard, invalid
                                the same, with an error of A2A that refuses the request
    redirect CODE [loop]        to the second origin, or to itself
    unauthorized                401, whatever the credentials
    status CODE                 that status of HTTP, and to try again in a year

Lies of the card. Those that begin with "later" are told from the second look on.

    later path                  another path, which is not found
    later unstreamed            no streaming; it is refused from then on
    later elsewhere, elsewhere  the second origin as address of the interface
    file                        a file as address
    foreign, version            only bindings, or only versions, that nobody knows
    redirect                    redirects to the card of the second origin
    unauthorized                401
    garbage, types, empty       no JSON, wrong types, an empty object
    huge, endless, silent       100 MB, never ends, never begins
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import uuid
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import attrs
import h11
import trio
from lying_garbage import garbage_of
from lying_tasks import ASKS, DONE, IDS, WORKS, Reply, Task, another, seen, told
from lying_wire import PATHS, SENT, Asked, Call, Json, asked_of, event, read, refuse

MB = 1_000_000
BLOCK = b"x" * 64_000
MOMENT = 0.01
CARD = "/.well-known/agent-card.json"

parser = argparse.ArgumentParser()
parser.add_argument("ledger")
parser.add_argument("--card", metavar="LIE", default="")
parser.add_argument("--binding", choices=list(PATHS), default="JSONRPC")
parser.add_argument("--no-streaming", action="store_true")
parser.add_argument("--port", type=int, default=0)
CHOSEN = parser.parse_args()

ORIGINS: dict[str, str] = {}
TASKS: dict[Any, Task] = {}
looks: list[Call] = []
"""At the card."""


def note(**line: Any) -> None:
    with open(CHOSEN.ledger, "a", encoding="utf-8") as ledger:
        ledger.write(json.dumps(line) + "\n")


def lies(card: str) -> bool:
    """Whether the card tells that lie by now."""
    return CHOSEN.card == card and (not card.startswith("later ") or len(looks) > 1)


def task_of(asked: Asked) -> Task | None:
    """The task that is meant, and in it the message that has come, if one has."""
    message = asked.params.get("message")
    if message is None:
        # In a path each id is a text.
        return next((task for id, task in TASKS.items() if str(id) == str(asked.params.get("id"))), None)
    text = " ".join(part["text"] for part in message["parts"] if "text" in part)
    id = message.get("taskId")
    if id in TASKS:
        TASKS[id].answers.append(text)
    elif not id:
        words = text.split()
        id = IDS[words[1]] if words[:1] == ["id"] else str(uuid.uuid4())
        TASKS[id] = Task(words=[*words], id=id)
    return TASKS.get(id)


async def answer(call: Call) -> None:
    asked = asked_of(call, CHOSEN.binding)
    if asked is None:
        return await refuse(call, None, -32601, "not found")
    if asked.streamed and (CHOSEN.no_streaming or lies("later unstreamed")):
        return await refuse(call, asked, -32004, "streaming is not supported")
    task = task_of(asked)
    if task is None:
        return await refuse(call, asked, -32001, "Task not found")
    call.about = " ".join(task.words)
    if asked.method == "CancelTask":
        note(cancelled=task.id)
        task.cancelled = task.words != ["stubborn"]
        return await call.answer(asked.of_task(task.whole(Reply("CANCELED"))))
    return await LIES.get(task.words[0] if task.words else "", say)(call, asked, task)


@asynccontextmanager
async def answering(call: Call, asked: Asked, task: Task) -> AsyncIterator[None]:
    """The head of an answer that has no length, and of a stream the first event."""
    await call.head(kind="text/event-stream" if asked.streamed else "application/json")
    if asked.streamed:
        await event(call, asked, {"task": task.whole(WORKS)})
    yield


async def say(call: Call, asked: Asked, task: Task) -> None:
    """The truth, and the lies that look well."""
    reply = told(task) if asked.method in SENT else seen(task)
    match task.words:
        case ["other", "answer"] if task.answers:
            task = another(task)
        case ["other", "get"] if asked.method not in SENT:
            task = another(task)
        case ["other", "context"] if task.answers:
            task = attrs.evolve(task, context="another")
    if not asked.streamed:
        await call.answer(asked.of_task(task.whole(reply)))
        return
    events = task.events(reply)
    match task.words:
        case ["other", "stream"]:
            events = another(task).events(DONE)
        case ["contradict", "after"]:
            events.append(task.update(ASKS))
    async with answering(call, asked, task):
        for each in events:
            await event(call, asked, each)


async def garbage(call: Call, asked: Asked, task: Task) -> None:
    found = garbage_of(task.words[1], asked, task)
    async with answering(call, asked, task):
        await call.write(b"data: " + found + b"\n\n" if asked.streamed else found)


async def big(call: Call, asked: Asked, task: Task) -> None:
    kind, *given = task.words[1:]
    size = int(given[0]) if given else MB if kind == "many" else 100
    match kind:
        case "header":
            await call.write(b"HTTP/1.1 200 OK\r\nx-big: ")
            await call.repeat(b"x", size * MB)
            await call.write(b"\r\n\r\n")
        case "gzip":
            await gzip(call, asked, task, size * MB)
        case "chunks" if asked.streamed:
            chunk = task.chunk(BLOCK.decode(), append=True)
            await many(call, asked, task, chunk, size * MB // len(BLOCK))
        case "many" if asked.streamed:
            await many(call, asked, task, task.update(Reply("WORKING", "more")), size)
        case "many":
            await filled(call, asked, task, b'"}]}, {"artifactId": "a", "parts": [{"text": "more', size)
        case "lines":
            line = b"\ndata: " if asked.streamed else b"\n"
            await filled(call, asked, task, line, size * MB // len(line))
        case _:
            await filled(call, asked, task, b"x", size * MB)


async def many(call: Call, asked: Asked, task: Task, result: Json, times: int) -> None:
    async with answering(call, asked, task):
        await call.repeat(b"data: " + asked.wrapped(result) + b"\n\n", times)
        await event(call, asked, task.update(DONE))


async def filled(call: Call, asked: Asked, task: Task, filling: bytes, times: int) -> None:
    """An answer with a filling. If it is a line, it is where JSON can have one."""
    whole = asked.of_task(task.whole(Reply("COMPLETED", artifact="@")))
    before, _, after = whole.partition(b"@") if b"\n" not in filling else (whole[:1], b"", whole[1:])
    async with answering(call, asked, task):
        await call.write(b"data: " + before if asked.streamed else before)
        await call.repeat(filling, times)
        await call.write(after + b"\n\n")


async def gzip(call: Call, asked: Asked, task: Task, size: int) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    await call.head(
        kind="text/event-stream" if asked.streamed else "application/json", content_encoding="gzip"
    )
    await call.write(packer.compress(b"data: " if asked.streamed else b""))
    for _ in range(size // len(BLOCK)):
        await call.write(packer.compress(b" " * len(BLOCK)))
    await call.write(packer.compress(asked.of_task(task.whole(DONE)) + b"\n\n") + packer.flush())


async def endless(call: Call, asked: Asked, task: Task) -> None:
    kind = task.words[1]
    if asked.method == "GetTask":
        return await say(call, asked, task)
    if kind == "head":
        await trio.sleep_forever()
    update = b"data: " + asked.wrapped(task.update(Reply("WORKING", "more"))) + b"\n\n"
    block = {"updates": update, "comments": b": more\n\n", "drip": b" ", "silence": b""}[kind]
    async with answering(call, asked, task):
        if kind == "drip" and asked.streamed:
            await call.write(b"data: ")
        while block:
            await call.write(block if asked.streamed else b" ")
            await trio.sleep(MOMENT)
        await trio.sleep_forever()
    return None


LATE_REFUSALS = {"unsupported": -32004, "unheard": -32601, "invalid": -32602}


async def cut(call: Call, asked: Asked, task: Task) -> None:
    kind = task.words[1]
    if asked.method not in SENT:
        return await say(call, asked, task)
    if kind == "before":
        return None
    async with answering(call, asked, task):
        if kind == "event" or not asked.streamed:
            half = asked.of_task(task.whole(DONE))[:-20]
            await call.write(b"data: " + half if asked.streamed else half)
        elif kind in LATE_REFUSALS:
            await call.write(b"data: " + asked.refused(LATE_REFUSALS[kind], "no") + b"\n\n")
        if kind == "reset":
            call.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return None


async def redirect(call: Call, asked: Asked, task: Task) -> None:
    code, *where = task.words[1:]
    origin = ORIGINS["here" if where == ["loop"] else "elsewhere"]
    await call.json({}, int(code), location=origin + call.path)


def challenge() -> str:
    metadata = f"{ORIGINS['elsewhere']}/.well-known/oauth-protected-resource"
    return f'Bearer realm="more", resource_metadata="{metadata}"'


async def unauthorized(call: Call, asked: Asked, task: Task) -> None:
    await call.json({"error": "unauthorized"}, 401, www_authenticate=challenge())


async def status(call: Call, asked: Asked, task: Task) -> None:
    await call.json({"error": "no"}, int(task.words[1]), retry_after=str(365 * 86400))


LIES: dict[str, Callable[[Call, Asked, Task], Awaitable[None]]] = {
    "garbage": garbage,
    "big": big,
    "endless": endless,
    "cut": cut,
    "redirect": redirect,
    "unauthorized": unauthorized,
    "status": status,
}


def card() -> Json:
    origin = ORIGINS["elsewhere" if lies("elsewhere") or lies("later elsewhere") else "here"]
    path = "/gone" if lies("later path") else PATHS[CHOSEN.binding]
    return {
        "name": "lying-agent",
        "description": "Does not do what it is told",
        "version": "1.0.0",
        "supportedInterfaces": [
            {
                "url": "file:///etc/passwd" if lies("file") else origin + path,
                "protocolBinding": "PIGEON" if lies("foreign") else CHOSEN.binding,
                "protocolVersion": "9.9" if lies("version") else "1.0",
            }
        ],
        "capabilities": {"streaming": not CHOSEN.no_streaming and not lies("later unstreamed")},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "lie", "name": "Lie", "description": "Lies", "tags": ["test"]}],
    }


async def show_card(call: Call) -> None:
    looks.append(call)
    match CHOSEN.card:
        case "redirect":
            await call.json({}, 302, location=ORIGINS["elsewhere"] + CARD)
        case "unauthorized":
            await call.json({"error": "unauthorized"}, 401, www_authenticate=challenge())
        case "garbage":
            await call.answer(b"this is no JSON \xff")
        case "types":
            await call.json(
                {**card(), "supportedInterfaces": {"url": 7}, "skills": "many", "capabilities": []}
            )
        case "empty":
            await call.json({})
        case "silent":
            await trio.sleep_forever()
        case "huge" | "endless":
            await call.head()
            await call.write(b'{"comment": "')
            while CHOSEN.card == "endless":
                await call.write(b"x")
                await trio.sleep(MOMENT)
            await call.repeat(b"x", 100 * MB)
            await call.write(b'", ' + json.dumps(card()).encode()[1:])
        case _:
            await call.json(card())


async def steal(call: Call) -> None:
    """What the second origin answers."""
    if call.path == CARD:
        return await call.json(card())
    if (asked := asked_of(call, CHOSEN.binding)) is None:
        return await refuse(call, None, -32601, "not found")
    return await say(call, asked, Task(["stolen"], "stolen"))


async def serve(at: str, stream: trio.SocketStream) -> None:
    async with stream:
        with suppress(trio.BrokenResourceError, h11.RemoteProtocolError):
            if (call := await read(stream)) is None:
                return
            note(at=at, method=call.method, path=call.path, headers=call.headers, body=call.body)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch, call, nursery.cancel_scope)
                try:
                    if at == "elsewhere":
                        await steal(call)
                    else:
                        await (show_card(call) if call.path == CARD else answer(call))
                except trio.BrokenResourceError:
                    gone(call, nursery.cancel_scope)
                nursery.cancel_scope.cancel()


async def watch(call: Call, scope: trio.CancelScope) -> None:
    """See whoever asked go."""
    with suppress(trio.BrokenResourceError):
        while await call.stream.receive_some(65536):
            pass
    gone(call, scope)


def gone(call: Call, scope: trio.CancelScope) -> None:
    if not scope.cancel_called:
        note(gone=call.about or call.path)
        scope.cancel()


async def main() -> None:
    here = await trio.open_tcp_listeners(CHOSEN.port, host="127.0.0.1")
    elsewhere = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        for at, listeners in (("here", here), ("elsewhere", elsewhere)):
            ORIGINS[at] = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
            nursery.start_soon(partial(trio.serve_listeners, partial(serve, at), listeners))
        print(json.dumps({"url": ORIGINS["here"], "elsewhere": ORIGINS["elsewhere"]}), flush=True)


if __name__ == "__main__":
    trio.run(main)
