"""Watchers that cost little: raw sockets in one process, which take frames apart when all have come."""

from __future__ import annotations

import gc
import json
import select
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Literal

import attrs

from tests.streams.raw_websocket import TEXT, UPGRADE, request, taken

Transport = Literal["ws", "sse"]
HEAD_END = b"\r\n\r\n"


@attrs.frozen
class Received:
    """An event as a watcher got it."""

    watcher: int
    event: dict[str, Any]
    latency: float
    """Seconds from its `at`, which is taken just before the commit, so the flush of the disk is included."""


@attrs.define(eq=False)
class Crowd:
    """Connections to a server: watchers, and some that send requests without waiting for the answers."""

    address: str
    _epoll: select.epoll = attrs.field(factory=select.epoll)
    _sockets: dict[int, socket.socket] = attrs.field(factory=dict)
    _watchers: dict[int, int] = attrs.field(factory=dict)
    """Number of the watcher by file descriptor."""
    _transport: Transport = "ws"
    _chunks: list[tuple[int, float, bytes]] = attrs.field(factory=list)
    """Watcher, time and bytes of all that has come."""
    _free: list[int] = attrs.field(factory=list)
    """Descriptors of connections that may send a request."""
    _answers: dict[int, bytearray] = attrs.field(factory=dict)
    failures: list[bytes] = attrs.field(factory=list)

    def watch(self, ids: Iterable[str], transport: Transport = "ws") -> None:
        """Open a watcher for each id, with nothing to be replayed beyond `conversation.created`."""
        self._transport = transport
        headers = UPGRADE if transport == "ws" else {"Host": "localhost"}
        path = "ws" if transport == "ws" else "events"
        for number, id in enumerate(ids, len(self._watchers)):
            sock = self._connect()
            sock.sendall(request(f"/conversations/{id}/{path}?after=1", headers))
            head = b""
            while HEAD_END not in head:
                head += sock.recv(2**16)
            status, _, rest = head.partition(HEAD_END)
            assert status.split()[1] in (b"101", b"200"), head
            self._watchers[sock.fileno()] = number
            self._chunks.append((number, time.time(), rest))
            self._add(sock)

    def open_senders(self, count: int) -> None:
        for _ in range(count):
            sock = self._connect()
            self._add(sock)
            self._free.append(sock.fileno())
            self._answers[sock.fileno()] = bytearray()

    def send(self, path: str, body: object) -> None:
        """POST, and ask for an answer as soon as the request is stored."""
        while not self._free:
            self.poll(1.0)
        raw = json.dumps(body)
        headers = {"Host": "localhost", "Prefer": "respond-async", "Content-Length": str(len(raw))}
        self._sockets[self._free.pop(0)].sendall(request(path, headers, "POST") + raw.encode())

    def poll(self, seconds: float) -> None:
        """Take what comes within the time, or the first of it."""
        for fd, _ in self._epoll.poll(seconds):
            data, now = self._sockets[fd].recv(2**18), time.time()
            if fd in self._watchers:
                assert data, "the server has closed the connection of a watcher"
                self._chunks.append((self._watchers[fd], now, data))
            else:
                self._answered(fd, data)

    def poll_for(self, seconds: float) -> None:
        """Take all that comes within the time."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.poll(left)

    def poll_until(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not within {seconds} s"
            self.poll(0.05)

    @property
    def busy(self) -> bool:
        """Whether a request has no answer yet."""
        return len(self._free) < len(self._answers)

    def has_chunks(self, count: int) -> bool:
        """Whether so many pieces have come. A commit is at least one piece for each of its watchers."""
        return len(self._chunks) >= count

    def take(self) -> list[Received]:
        """All events that have come since it was last asked."""
        buffers: dict[int, bytearray] = {}
        received = []
        for watcher, now, data in self._chunks:
            buffer = buffers.setdefault(watcher, bytearray())
            buffer += data
            split = _messages if self._transport == "ws" else _datas
            for event in map(json.loads, split(buffer)):
                if "seq" in event:
                    at = datetime.fromisoformat(event["at"]).timestamp()
                    received.append(Received(watcher, event, now - at))
        self._chunks.clear()
        return received

    def close(self) -> None:
        for sock in self._sockets.values():
            sock.close()
        self._epoll.close()

    def _connect(self) -> socket.socket:
        host, _, port = self.address.rpartition(":")
        sock = socket.create_connection((host, int(port)))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sockets[sock.fileno()] = sock
        return sock

    def _add(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._epoll.register(sock.fileno(), select.EPOLLIN)

    def _answered(self, fd: int, data: bytes) -> None:
        answer = self._answers[fd]
        answer += data
        head, _, body = bytes(answer).partition(HEAD_END)
        length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
        if length and len(body) >= int(length):
            if head.split()[1] != b"202":
                self.failures.append(bytes(answer))
            answer.clear()
            self._free.append(fd)


def _messages(buffer: bytearray) -> Iterator[bytes]:
    while (frame := taken(buffer)) is not None:
        if frame.opcode == TEXT:
            yield frame.payload


def _datas(buffer: bytearray) -> Iterator[bytes]:
    *lines, rest = bytes(buffer).split(b"\n")
    buffer[:] = rest
    return (line.removeprefix(b"data: ") for line in lines if line.startswith(b"data: "))


@contextmanager
def crowd_at(address: str) -> Iterator[Crowd]:
    """Without pauses of our own garbage collector."""
    crowd = Crowd(address)
    gc.collect()
    gc.disable()
    try:
        yield crowd
    finally:
        gc.enable()
        crowd.close()


def percentile(values: Sequence[float], part: float) -> float:
    return sorted(values)[int(len(values) * part)]
