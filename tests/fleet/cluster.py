"""Three real `stopgo serve` on one PostgreSQL, and the ledger of what their tools did."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

import attrs
from psycopg.conninfo import conninfo_to_dict

from tests.e2e.conftest import Server, Servers, StopgoProcess, clean_environment
from tests.forks import Fork
from tests.http_client import blocking_client

ROOT = Path(__file__).parents[2]
ECHO_SERVER = ROOT / "testdata" / "servers" / "echo_server.py"
LEASE = 1.0

AGENT = """
name: careful
shutdown_grace: 5
llm:
  model: script:{folder}/replies.yaml
mcp_servers:
  - name: echo
    command: {python}
    args: ["-S", "{server}"]
    env: {{LEDGER: "{folder}/ledger.jsonl", DELAY: "{delay}"}}
"""

REPLIES = """
replies:
  - when: {user: 'wipe (?P<name>\\S+)', call: 1}
    tool_calls: [{name: wipe, arguments: {text: '${name}'}}]
  - when: {user: 'bump (?P<name>\\S+)', call: 1}
    tool_calls: [{name: bump, arguments: {text: '${name}'}}]
  - when: {user: 'slow (?P<name>\\S+)', call: 1}
    tool_calls: [{name: slow, arguments: {seconds: 3}}]
  - when: {tool_result: '(?P<result>.+)'}
    text: 'result: ${result}'
  - text: 'said'
"""


def url_of(dsn: str) -> str:
    """A connection string as a URL."""
    given = {name: value for name, value in conninfo_to_dict(dsn).items() if name != "dbname"}
    return f"postgresql:///postgres?{urlencode(given)}"


@attrs.define(eq=False)
class Cluster:
    """The members, by position. Requests go to those that are not known to be down."""

    folder: Path
    urls: list[str]
    """The address of the journal, for each member."""
    members: list[Server] = attrs.field(factory=list)
    down: set[int] = attrs.field(factory=set)
    delay: float = 0.0
    """Seconds that a destructive call takes."""
    in_order: bool = False
    """Whether requests go to the first member that is up, instead of any."""
    lease: float = LEASE
    _dying: set[int] = attrs.field(factory=set)
    _servers: Servers = attrs.field(factory=Servers)

    def __attrs_post_init__(self) -> None:
        (self.folder / "replies.yaml").write_text(REPLIES)
        config = AGENT.format(folder=self.folder, python=sys.executable, server=ECHO_SERVER, delay=self.delay)
        (self.folder / "agent.yaml").write_text(config)
        for position in range(len(self.urls)):
            self.members.append(self._start(position))

    def _start(self, position: int) -> Server:
        return self._servers(
            self.folder / f"member{position}",
            config=self.folder / "agent.yaml",
            env={"STOPGO_JOURNAL": self.urls[position]},
            options=["--lease", str(self.lease)],
        )

    def start(self, position: int) -> None:
        self._dying.discard(position)
        self.members[position].client.close()
        self.members[position] = self._start(position)
        self.down.discard(position)

    def start_dying(self, position: int, write: int, edge: str) -> None:
        """Start a member that kills itself before or after a write to the journal (`dying_member.py`)."""
        data = self.folder / f"member{position}"
        command = [sys.executable, str(Path(__file__).with_name("dying_member.py")), str(write), edge]
        command += ["--config", str(self.folder / "agent.yaml"), "--data-dir", str(data)]
        process = subprocess.Popen(
            [*command, "--lease", str(LEASE), "--port", "0"],
            env={
                **clean_environment(),
                "STOPGO_JOURNAL": self.urls[position],
                "PYTHONPATH": str(ROOT / ".dev"),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        run = StopgoProcess(cast(Fork, process))
        self.members[position].client.close()
        self.members[position] = Server(run, data, blocking_client(base_url=run.url))
        self.down.discard(position)
        self._dying.add(position)

    def kill(self, position: int) -> None:
        self.down.add(position)
        self.members[position].run.kill()

    def signal(self, position: int, number: signal.Signals) -> None:
        self.members[position].run.process.send_signal(number)

    def stop(self, position: int) -> None:
        """Stop a member in good order."""
        self.down.add(position)
        self.members[position].run.interrupt()

    def stop_all(self) -> None:
        for position in self._dying:
            self.members[position].client.close()
        self._servers.stop_all()

    def any(self) -> Server:
        """A member for a request."""
        up = self.up or self.members
        return up[0] if self.in_order else random.choice(up)

    @property
    def up(self) -> list[Server]:
        gone = {position for position in range(len(self.members)) if self.has_died(position)} | self.down
        return [member for position, member in enumerate(self.members) if position not in gone]

    def has_died(self, position: int) -> bool:
        """Whether a dying member has killed itself."""
        return position in self._dying and self.members[position].run.process.poll() is not None

    def ledger(self) -> Counter[tuple[str, str]]:
        """The calls that were executed: tool and text, with their numbers."""
        path = self.folder / "ledger.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        calls: list[dict[str, Any]] = [json.loads(line) for line in lines]
        return Counter((call["tool"], str(call["arguments"].get("text"))) for call in calls)


@contextmanager
def cluster(folder: Path, *urls: str, delay: float = 0.0, lease: float = LEASE) -> Iterator[Cluster]:
    made = Cluster(folder, list(urls), delay=delay, lease=lease)
    try:
        yield made
    finally:
        made.stop_all()
