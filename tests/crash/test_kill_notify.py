"""kill -9 of the real server at every event of a turn, while a webhook fails half of the time: everything
arrives, signed, and each event under one id."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import attrs
import pytest
from standardwebhooks.webhooks import Webhook

from tests.actors.notify.fake_channels import KEY
from tests.e2e.conftest import Servers
from tests.waiting import until_true

from .test_kill import TURN, Person, servers, write_agent

pytestmark = pytest.mark.crash

__all__ = ["servers"]

WANTED = ("approval.requested", "approval.resolved", "run.failed")
NOTIFY = """
notify:
  channels:
    ops:
      webhook: http://127.0.0.1:{port}/in
      secrets: [{key}]
      to_private: true
      events: [{events}]
"""


@attrs.define(eq=False)
class Hook:
    """A webhook that fails every other time, sometimes after it has taken the request."""

    told: dict[str, str] = attrs.field(factory=dict)
    """The types, by id."""
    wrongs: list[str] = attrs.field(factory=list)
    port: int = 0
    _requests: int = 0

    def take(self, headers: dict[str, str], body: bytes) -> int:
        self._requests += 1
        if self._requests % 4 == 1:
            return 503
        try:
            Webhook(KEY).verify(body, headers)
        except Exception as error:
            self.wrongs.append(f"{headers} {body!r}: {error}")
        type = json.loads(body)["type"]
        if self.told.setdefault(headers["webhook-id"], type) != type:
            self.wrongs.append(f"one id for {type} and something else")
        return 500 if self._requests % 4 == 3 else 204


@pytest.fixture
def hook() -> Iterator[Hook]:
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(hook.take({key.lower(): text for key, text in self.headers.items()}, body))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hook.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield hook
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("seq", range(1, len(TURN) + 1), ids=lambda seq: f"{seq}-{TURN[seq - 1]}")
def test_everything_arrives(seq: int, servers: Servers, hook: Hook, tmp_path: Path) -> None:
    config = write_agent(tmp_path)
    with config.open("a") as file:
        file.write(NOTIFY.format(port=hook.port, key=KEY, events=", ".join(WANTED)))
    person = Person(tmp_path)
    person.live(servers(tmp_path / "data", config=config), kill_at=seq)
    server = servers(tmp_path / "data", config=config)
    person.live(server)

    happened = sorted(type for type in person.seen if type in WANTED)

    def is_settled() -> bool:
        found = server.get("/notifications")["notifications"]
        return sorted(each["type"] for each in found if each["state"] != "pending") == happened

    until_true(is_settled)
    found = {each["id"]: each for each in server.get("/notifications")["notifications"]}
    assert {each["type"] for each in found.values() if each["state"] == "arrived"} <= set(hook.told.values())
    assert all(found[id]["type"] == type for id, type in hook.told.items())
    assert "approval.resolved" in hook.told.values()
    assert hook.wrongs == []
