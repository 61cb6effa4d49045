"""An agent whose tool reaches the agent's own API tries to approve its own call."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import TESTDATA, Serve
from tests.gateway.auth.parties import make_keys

REPLIES = """
replies:
  - when: {user: wipe, call: 1}
    tool_calls: [{name: wipe, arguments: {}}]
  - when: {user: approve, call: 1}
    tool_calls:
      - {name: fetch, arguments: {method: GET, path: /approvals}}
      - {name: fetch, arguments: {method: POST, path: /approvals/UUID, body: {approved: true}}}
      - {name: fetch, arguments: {method: POST, path: /unhalt}}
  - text: Done.
"""
SERVER = {
    "name": "web",
    "command": sys.executable,
    "args": [str(TESTDATA / "servers" / "fetching_server.py")],
}
AGENT: dict[str, Any] = {"name": "wiper", "llm": {"model": "script:replies.yaml"}}


@pytest.mark.parametrize("with_auth", [False, True])
def test_an_agent_approves_its_own_call_only_without_auth(
    with_auth: bool, serve: Serve, tmp_path: Path
) -> None:
    (tmp_path / "replies.yaml").write_text(REPLIES)
    auth = {"auth": {"api_keys": True}} if with_auth else {}
    config = tmp_path / "agent.yaml"
    config.write_text(json.dumps({**AGENT, "mcp_servers": [{**SERVER, "cwd": str(tmp_path)}], **auth}))
    data = tmp_path / "data"
    data.mkdir()
    keys = make_keys(data, {"owner": ("operator",), "admin": ("admin",)})
    server = serve(data, config=config)
    if with_auth:
        server.client.headers["X-API-Key"] = keys["owner"]
    asked = server.post("/conversations", {"message": "wipe"}, 201)
    uuid = asked["result"]["approval"]["uuid"]
    (tmp_path / "target.json").write_text(json.dumps({"url": server.run.url, "uuid": uuid}))
    tried = server.post("/conversations", {"message": "approve it"}, 201)["conversation"]
    statuses = [each["content"][:3] for each in tried["messages"] if each["role"] == "tool"]
    assert statuses == (["401"] * 3 if with_auth else ["200"] * 3)
    assert server.get(f"/approvals/{uuid}")["approval"]["state"] == ("pending" if with_auth else "decided")
    assert (tmp_path / "wiped").exists() is not with_auth
    if with_auth:
        assert uuid not in json.dumps(tried)
    written = [server.log.encode(), *(each.read_bytes() for each in data.rglob("*") if each.is_file())]
    assert not any(key.encode() in each for key in keys.values() for each in written)
