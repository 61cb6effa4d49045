"""The agents that ours delegates to, as processes, and what has arrived at them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import attrs
import trio

from tests.waiting import LIMIT, until

Json = dict[str, Any]

HERE = Path(__file__).parent
SERVERS = HERE.parents[1] / "testdata" / "servers"
PROGRAMS: dict[str, Sequence[str]] = {
    "sdk": (sys.executable, str(HERE / "sdk_agent.py")),
    "js": ("node", str(HERE / "js_agent.mjs")),
    "older": (sys.executable, str(SERVERS / "older_agent.py")),
    "lying": (sys.executable, str(SERVERS / "lying_agent.py")),
}


def clean_environment() -> dict[str, str]:
    """Without the proxies of whoever runs the tests: they lead nowhere near a peer."""
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}


@attrs.define(eq=False)
class Peer:
    """One agent. It can end and start again where it was; only the ledger outlives it, and its store."""

    _argv: Sequence[str]
    _ledger: Path
    told: Json = attrs.field(factory=dict)
    """What it said when it began to serve."""
    process: trio.Process | None = None

    @property
    def url(self) -> str:
        """What an agent file names."""
        url: str = self.told["url"]
        return url

    def ledger(self) -> list[Json]:
        """Each request that arrived, and what else it wrote down, in order."""
        if not self._ledger.exists():
            return []
        # The last line may be half written.
        *lines, _ = self._ledger.read_text("utf-8").split("\n")
        return [json.loads(line) for line in lines]

    def requests(self, **like: Any) -> list[Json]:
        """The requests of the ledger, or those of them with these fields: `method="POST", at="elsewhere"`."""
        return [line for line in self.ledger() if "method" in line and like.items() <= line.items()]

    def calls(self, method: str) -> list[Json]:
        """The JSON-RPC requests of that method."""
        return [
            line
            for line in self.requests()
            if isinstance(line["body"], dict) and line["body"].get("method") == method
        ]

    async def noted(self, **like: Any) -> Json:
        """The first line of the ledger that has these fields, once it is there: `gone="endless updates"`."""

        def found() -> Iterator[Json]:
            return (line for line in self.ledger() if like.items() <= line.items())

        await until(lambda: any(found()))
        return next(found())

    async def start(self, *more: str) -> None:
        process = await trio.lowlevel.open_process(
            [*self._argv, *more],
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        self.process = process
        assert process.stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            received = await process.stdout.receive_some(65536)
            assert received, "it does not serve"
            line += received
        self.told = json.loads(line)

    async def kill(self) -> None:
        """What a crash looks like to those who talk to it."""
        process, self.process = self.process, None
        if process is None:
            return
        process.kill()
        with trio.CancelScope(shield=True, deadline=trio.current_time() + LIMIT):
            await process.wait()
        assert process.stdout is not None
        await process.stdout.aclose()

    async def restart(self) -> None:
        """Kill it and start it again at the same port, with the same options."""
        await self.kill()
        await self.start("--port", str(urlsplit(self.url).port))


@asynccontextmanager
async def running(kind: str, *options: str) -> AsyncIterator[Peer]:
    """A peer of that kind, as long as the context lasts. Its own file tells of its options.

    The ledger lies apart from what tests leave behind: the credentials that arrive are meant to be in it.
    """
    with TemporaryDirectory() as folder:
        ledger = Path(folder) / "ledger.jsonl"
        peer = Peer([*PROGRAMS[kind], str(ledger), *options], ledger)
        try:
            await peer.start()
            yield peer
        finally:
            await peer.kill()
