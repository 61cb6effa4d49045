"""kill -9 of the real server at every event of a destructive turn that comes, and is answered, by A2A."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import httpx2
import pytest

from tests.e2e.conftest import Server, Servers
from tests.gateway.a2a.tongues import V1, Ask, Refused, Told, read
from tests.http_client import blocking_client

from .test_kill import TURN, Person, write_agent


@attrs.define
class Peer(Person):
    """The same person, who has a client of A2A. A message that comes again gets the task as it is by then."""

    tasks: dict[str, Told] = attrs.field(factory=dict)

    def _post(self, server: Server, key: str, path: str) -> None:
        if key in self.tasks:
            return
        if key == "say":
            wanted = V1.send("wipe it all", id=key, context=self.conversation)
        else:
            answer = {"data": {"id": self.asked, "approved": True}}
            wanted = V1.send(answer, id=key, task=self.conversation)
        try:
            told = ask(server, wanted, key)
        except httpx2.TransportError:
            return  # killed: to be said again
        assert isinstance(told, Told), told
        self.tasks[key] = told


def ask(server: Server, wanted: Ask, key: str | None = None) -> Told | Refused:
    headers = {} if key is None else {"Idempotency_Key": key}
    with blocking_client(base_url=server.run.url) as client:
        response = client.request(**wanted.of_client(**headers))
    assert response.status_code == 200, response.text
    return read(response.json())


@pytest.fixture
def servers() -> Iterator[Servers]:
    servers = Servers()
    yield servers
    servers.stop_all()


@pytest.mark.crash
@pytest.mark.parametrize("seq", range(1, len(TURN) + 1), ids=lambda seq: f"{seq}-{TURN[seq - 1]}")
def test_killed_at(seq: int, servers: Servers, tmp_path: Path) -> None:
    config = write_agent(tmp_path)
    peer = Peer(tmp_path)
    peer.live(servers(tmp_path / "data", config=config), kill_at=seq)
    before, done = list(peer.seen), list(peer.ledger)
    assert before == list(TURN[:seq])

    server = servers(tmp_path / "data", config=config)
    peer.live(server)

    assert peer.seen[:seq] == before, "an event that was told is lost"
    assert peer.seen[-1] == "run.finished"
    assert peer.ledger == ["everything"]
    if done:
        assert peer.seen.count("tool.started") == 1, "it was done, and done again"
    task = ask(server, V1.get(peer.conversation))
    assert isinstance(task, Told)
    assert (task.state, task.history, task.answer) == ("completed", ["wipe it all"], "wiped: everything")
    assert server.conversation(peer.conversation)["messages"][-1]["content"] == task.answer
    for key in "say", "yes":
        peer.tasks.pop(key)
        peer._post(server, key, "")
        assert peer.tasks[key] == task, "a message that comes again is carried out again"
    late = ask(server, V1.subscribe(peer.conversation))
    assert isinstance(late, Refused)
    assert late.code == -32004
