"""A wire to a PostgreSQL server that can be disturbed."""

from __future__ import annotations

import socket
import socketserver
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, TypeAlias

import attrs

_PORT = ".s.PGSQL.5432"

Fault: TypeAlias = Literal["none", "no answers", "silence", "requests lost", "answers lost"]
"""no answers: what the server answers gets lost, and the connection with it. The others break nothing:
nothing gets through, or only what the server or what the client sends."""


@attrs.define(eq=False)
class Wire:
    dsn: str
    fault: Fault = "none"
    lost: int = 0
    """The number of connections that were lost with their answer."""
    _ends: list[socket.socket] = attrs.field(factory=list)

    @contextmanager
    def losing_answers(self) -> Iterator[None]:
        self.fault = "no answers"
        yield
        self.fault = "none"

    def cut(self) -> None:
        """Break the connections."""
        ends, self._ends = self._ends, []
        for each in ends:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def carry(self, source: socket.socket, target: socket.socket, *, answers: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if self.fault == "no answers" and answers:
                    self.lost += 1
                    break
                if self.fault not in ("silence", "answers lost" if answers else "requests lost"):
                    target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def join(self, client: socket.socket, server: socket.socket) -> None:
        self._ends += [client, server]
        back = threading.Thread(target=self.carry, args=(server, client), kwargs={"answers": True})
        back.start()
        self.carry(client, server, answers=False)
        back.join()
        client.close()
        server.close()


class _Listener(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


@contextmanager
def wire_to(dsn: str) -> Iterator[Wire]:
    """`dsn` names the folder of the server's socket as its host."""
    with tempfile.TemporaryDirectory(prefix="stopgo-wire-") as folder:
        parts = dict(part.split("=", 1) for part in dsn.split(" "))
        wire = Wire(" ".join(f"{name}={value}" for name, value in {**parts, "host": folder}.items()))

        class Connection(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                server = socket.socket(socket.AF_UNIX)
                try:
                    server.connect(str(Path(parts["host"]) / _PORT))
                except OSError:
                    server.close()
                    return
                wire.join(self.request, server)

        with _Listener(str(Path(folder) / _PORT), Connection) as listener:
            thread = threading.Thread(target=listener.serve_forever, args=(0.05,))
            thread.start()
            try:
                yield wire
            finally:
                wire.cut()
                listener.shutdown()
                thread.join()
