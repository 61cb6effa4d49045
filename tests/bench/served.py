"""Real servers in processes of their own, and what they cost: CPU, never wall time."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

STOPGO = str(Path(sys.executable).parent / "stopgo")
CLIENTS = 16


def serve_command(config: Path, data: Path, *options: str) -> list[str]:
    return [STOPGO, "serve", "--config", str(config), "--port", "0", "--data-dir", str(data), *options]


@contextmanager
def serving(argv: Sequence[str]) -> Iterator[tuple[str, psutil.Process]]:
    """Run a server; its address (host and port) once it listens, and its process."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            address = next(line for line in process.stdout if line.startswith("listening on"))
            # A full pipe would stop the server.
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield address.split("//")[1].strip(), psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(20)


def cpu_seconds(process: psutil.Process) -> float:
    """CPU time of the process so far, all its threads, children not."""
    # clock_getcpuclockid(3) as Linux has it: the table of processes counts in steps of 10 ms.
    return time.clock_gettime(~process.pid << 3 | 2)


def cpu_of(process: psutil.Process, work: Callable[[], None]) -> float:
    before = cpu_seconds(process)
    work()
    return cpu_seconds(process) - before


Read = Callable[[http.client.HTTPResponse], Any]


def post_all(
    address: str,
    requests: Sequence[tuple[str, bytes]],
    check: Callable[[Any], bool],
    clients: int = CLIENTS,
    read: Read = json.load,
    headers: Mapping[str, str] = {},
) -> None:
    """POST to each path once, by some clients at the same time over kept connections."""
    failures: list[object] = []

    def client(mine: Sequence[tuple[str, bytes]]) -> None:
        connection = http.client.HTTPConnection(address)
        for path, body in mine:
            answer = post(connection, path, body, read, headers)
            if not check(answer):
                failures.append(answer)
        connection.close()

    threads = [threading.Thread(target=client, args=(requests[n::clients],)) for n in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def post(
    connection: http.client.HTTPConnection,
    path: str,
    body: bytes,
    read: Read = json.load,
    headers: Mapping[str, str] = {},
) -> Any:
    connection.request("POST", path, body, {"Content-Type": "application/json", **headers})
    return read(connection.getresponse())


def new_conversations(address: str, count: int, headers: Mapping[str, str] = {}) -> list[str]:
    connection = http.client.HTTPConnection(address)
    ids = [
        post(connection, "/conversations", b"{}", headers=headers)["conversation"]["id"] for _ in range(count)
    ]
    connection.close()
    return ids


def report(**figures: object) -> None:
    """One line of JSON."""
    print(json.dumps({k: round(v, 3) if isinstance(v, float) else v for k, v in figures.items()}))
