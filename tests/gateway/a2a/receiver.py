"""A receiver of push notifications over real sockets, and names that resolve as a test wants it."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import trio
import trio.testing

OK = b"HTTP/1.1 204 No Content\r\n\r\n"


@attrs.frozen
class Got:
    head: str
    body: Any

    def header(self, name: str) -> str | None:
        for line in self.head.splitlines()[1:]:
            if line.lower().startswith(f"{name.lower()}:"):
                return line.partition(":")[2].strip()
        return None


@attrs.define(eq=False)
class Receiver:
    """A receiver with given answers, of which the last one repeats."""

    port: int
    answers: list[bytes] = attrs.field(factory=lambda: [OK])
    got: list[Got] = attrs.field(factory=list)
    at: list[float] = attrs.field(factory=list)
    """When each of these came."""
    hold: trio.Event | None = None
    """Answers wait until it is set."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?key=1"

    async def serve(self, stream: trio.abc.Stream) -> None:
        try:
            async with stream:
                await self._serve(stream)
        except trio.BrokenResourceError:
            return  # the sender has left

    async def _serve(self, stream: trio.abc.Stream) -> None:
        read = b""
        while b"\r\n\r\n" not in read:
            piece = await stream.receive_some()
            if not piece:
                return
            read += piece
        head, _, body = read.partition(b"\r\n\r\n")
        found = Got(head.decode(), None)
        length = int(found.header("Content-Length") or 0)
        while len(body) < length:
            body += await stream.receive_some()
        self.at.append(trio.current_time())
        self.got.append(attrs.evolve(found, body=json.loads(body)))
        if self.hold is not None:
            await self.hold.wait()
        await stream.send_all(self.answers[0] if len(self.answers) == 1 else self.answers.pop(0))

    @property
    def states(self) -> list[str]:
        """Those that were sent, in both versions."""
        statuses = [
            (got.body.get("statusUpdate") or got.body)["status"]
            for got in self.got
            if "artifactUpdate" not in got.body
        ]
        return [status["state"].removeprefix("TASK_STATE_").lower() for status in statuses]


async def open_receiver(nursery: trio.Nursery) -> Receiver:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    found = Receiver(listeners[0].socket.getsockname()[1])
    nursery.start_soon(trio.serve_listeners, found.serve, listeners)
    return found


def answer(status: int, more: str = "") -> bytes:
    return f"HTTP/1.1 {status} Said\r\nContent-Length: 0\r\n{more}\r\n".encode()


def resolving(*answers: Sequence[str], asked: list[str] | None = None) -> Any:
    """A resolver with given results, of which the last one repeats. Empty: the name is unknown."""
    left = list(answers)

    async def resolve(host: str, port: int) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        if asked is not None:
            asked.append(host)
        found = left[0] if len(left) == 1 else left.pop(0)
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return found

    return resolve


async def until_blocked(condition: Callable[[], bool]) -> None:
    """Wait for real I/O without advancing virtual time."""
    for _ in range(1000):
        if condition():
            return
        await trio.testing.wait_all_tasks_blocked(0.01)
    raise AssertionError("it did not happen")
