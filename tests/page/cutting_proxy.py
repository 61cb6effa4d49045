"""A TCP proxy that cuts or holds its connections when it is told to, as a bad network does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import attrs


@attrs.define(eq=False)
class CuttingProxy:
    url: str
    _target: tuple[str, int] = ("", 0)
    _open: set[socket.socket] = attrs.field(factory=set)
    _lock: threading.Lock = attrs.field(factory=threading.Lock)
    _refuses: bool = False
    _flows: threading.Event = attrs.field(factory=threading.Event)

    def __attrs_post_init__(self) -> None:
        self._flows.set()

    def stand_before(self, url: str) -> None:
        """Say where the server is, which may be told about the proxy when it starts."""
        address = urlsplit(url)
        assert address.hostname is not None
        assert address.port is not None
        self._target = (address.hostname, address.port)

    def hold(self) -> None:
        """Keep back what the server says, until `release`; what the client says goes on."""
        self._flows.clear()

    def release(self) -> None:
        self._flows.set()

    def cut(self) -> None:
        """Break all connections, and refuse new ones."""
        with self._lock:
            self._refuses = True
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        with self._lock:
            self._refuses = False

    def take(self, client: socket.socket) -> None:
        with self._lock:
            refused = self._refuses
            if not refused:
                self._open.add(client)
        if refused:
            client.close()
            return
        with client, socket.create_connection(self._target) as server:
            with self._lock:
                self._open.add(server)
            back = threading.Thread(target=carry, args=(server, client, self._flows), daemon=True)
            back.start()
            carry(client, server)
            back.join()
            with self._lock:
                self._open -= {client, server}


def carry(source: socket.socket, target: socket.socket, flows: threading.Event | None = None) -> None:
    """Until either end is closed."""
    with suppress(OSError):
        while data := source.recv(65536):
            if flows is not None:
                flows.wait()
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def cutting_proxy() -> Iterator[CuttingProxy]:
    """It listens, and waits for its server."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        proxy = CuttingProxy(f"http://127.0.0.1:{port}")

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    threading.Thread(target=proxy.take, args=(client,), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.release()
            proxy.cut()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
