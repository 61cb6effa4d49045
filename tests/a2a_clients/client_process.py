"""A client of A2A in a process of its own, and the line between it and the agent, which can be cut."""

from __future__ import annotations

import json
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs

Json = dict[str, Any]

HERE = Path(__file__).parent
PROGRAMS = {
    "python": [sys.executable, str(HERE / "a2a_client.py")],
    "js": ["node", str(HERE / "a2a_client.mjs")],
}


@attrs.frozen
class Kind:
    """Which client, and how it speaks."""

    program: str
    version: str
    binding: str

    def __str__(self) -> str:
        return f"{self.program}-{self.version}-{self.binding}"


@attrs.frozen
class Heard:
    """All that a client gave back for one order."""

    items: Sequence[Json]
    last: Json
    """With `end` or with `error`."""

    @property
    def only(self) -> Json:
        """The one item of an order that went well."""
        assert "end" in self.last, self
        (item,) = self.items
        return item


@attrs.define(eq=False)
class ClientProcess:
    """One client, told what to do line by line (a2a_client.py)."""

    kind: Kind
    _process: subprocess.Popen[str]
    _lines: queue.SimpleQueue[Json | None] = attrs.field(factory=queue.SimpleQueue)
    _busy: bool = False
    """An order has not come to its end, so that what comes next would not be of the next one."""
    _reader: threading.Thread = attrs.field(init=False)

    @classmethod
    def start(cls, kind: Kind, url: str) -> ClientProcess:
        argv = [*PROGRAMS[kind.program], url, kind.version, kind.binding]
        # Proxies of whoever runs the tests lead nowhere near the agent.
        env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        process = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return cls(kind, process)

    def __attrs_post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(json.loads(line))
        self._lines.put(None)

    def begin(self, do: str, params: Json, *extensions: str) -> Iterator[Json]:
        """Give an order; the lines that come of it, as they come, with the last one."""
        assert self._process.stdin is not None
        assert not self._busy, "an earlier order has not come to its end"
        self._busy = True
        order = {"do": do, "params": params, "extensions": extensions}
        print(json.dumps(order), file=self._process.stdin, flush=True)
        while True:
            line = self._lines.get()
            assert line is not None, "the client has ended"
            self._busy = "item" in line
            yield line
            if not self._busy:
                return

    def do(self, do: str, params: Json | None = None, *extensions: str) -> Heard:
        """Give an order and wait for all that comes of it."""
        *items, last = self.begin(do, params or {}, *extensions)
        return Heard([line["item"] for line in items], last)

    def close(self) -> None:
        """It ends with its input, unless a test has failed in the middle of an order."""
        assert self._process.stdin is not None
        if self._busy:
            self._process.kill()
        self._process.stdin.close()
        try:
            assert self._process.wait() == 0 or self._busy
        finally:
            self._process.kill()
            self._reader.join()


@attrs.define(eq=False)
class Line:
    """Carries connections to a server, and can be cut: all that is going over it breaks off."""

    _listener: socket.socket = attrs.field(factory=lambda: socket.create_server(("127.0.0.1", 0)))
    _ends: list[socket.socket] = attrs.field(factory=list)
    _server: tuple[str, int] | None = None
    _threads: list[threading.Thread] = attrs.field(factory=list)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def lead_to(self, server: str) -> None:
        """Take connections from now on."""
        host, _, port = server.removeprefix("http://").partition(":")
        self._server = host, int(port)
        self._run(self._accept)

    def cut(self) -> None:
        with self._lock:
            ends, self._ends = self._ends, []
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()

    def _run(self, target: Any, *args: Any) -> None:
        thread = threading.Thread(target=target, args=args)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        assert self._server is not None
        with suppress(OSError):  # closed
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._server)
                with self._lock:
                    self._ends += [near, far]
                self._run(self._carry, near, far)

    def _carry(self, near: socket.socket, far: socket.socket) -> None:
        with near, far:
            back = threading.Thread(target=self._copy, args=(far, near))
            back.start()
            self._copy(near, far)
            back.join()

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):  # cut
            while data := source.recv(65536):
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
