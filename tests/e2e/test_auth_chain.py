"""TS-010 and TS-028 with `auth:`: a pipeline that is reached over A2A, and delegates to another agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from tests.a2a_servers.peer_process import running
from tests.canary import KEY, TOKEN
from tests.e2e.chains import leaks
from tests.e2e.conftest import TESTDATA
from tests.gateway.a2a.tongues import DIALECTS, Told, read
from tests.gateway.keyring import Keyring
from tests.http_client import http_client

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve

PIPELINE = yaml.safe_load((TESTDATA / "e2e-chain-a.yaml").read_text())


def with_auth(folder: Path, url: str) -> Path:
    """The pipeline as an agent with `auth:`, and with a key of its own at the agent that it calls."""
    peer = {"name": "delegator", "url": url, "api_key": "${PEER_KEY}"}
    *first, last = PIPELINE["agent"]["agents"]
    last = {"agent": "delegator", **{name: value for name, value in last.items() if name != "url"}}
    tree = {**PIPELINE["agent"], "agents": [*first, last]}
    file = folder / "agent.yaml"
    file.write_text(json.dumps({**PIPELINE, "auth": {"api_keys": True}, "a2a": [peer], "agent": tree}))
    return file


async def test_ts_010_and_ts_028_with_authentication(serve: Serve, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    key = Keyring.of(data, {"desk": "operator"}).texts["desk"]
    async with running("sdk") as peer:
        server = serve(data, config=with_auth(tmp_path, peer.url), env={"PEER_KEY": KEY})
        async with http_client(base_url=server.run.url) as client:
            assert (await client.post("/a2a")).status_code == 401
        seen = 0
        for tongue in DIALECTS:
            for token in (TOKEN, None):
                bearer = {"Authorization": f"Bearer {token}"} if token else {}
                sent = tongue.send("echo hello").of_client(X_API_Key=key, **bearer)
                async with http_client(base_url=server.run.url) as client:
                    response = await client.request(**sent)
                    task = read(response.json())
                    assert isinstance(task, Told)
                    assert (task.state, task.answer) == ("completed", "echo: hello")
                    found = (await client.get(f"/conversations/{task.id}", headers={"X-API-Key": key})).json()
                messages = found["conversation"]["messages"]
                assert {each["node"] for each in messages if "node" in each} == {"analyzer", "delegator"}
                posts = [each["headers"] for each in peer.requests(method="POST")[seen:]]
                seen += len(posts)
                assert posts
                assert {each.get("authorization") for each in posts} == {f"Bearer {token}" if token else None}
                assert {each["x-api-key"] for each in posts} == {KEY}
        assert not any(key in str(each["headers"]) for each in peer.requests())
    assert leaks([server], TOKEN) == leaks([server], key) == leaks([server], KEY) == []
