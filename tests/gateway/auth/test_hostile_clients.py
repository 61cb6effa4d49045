"""Clients that send credentials in odd ways, and streams that outlast the credential."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stopgo.gateway.auth.key_changes import revoked
from stopgo.gateway.auth.key_file import KeyFile
from tests.gateway.auth.parties import serving


async def test_a_stream_of_a2a_ends_with_the_key(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        id, _ = await served.wiping()
        body = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": id}}
        headers = {"A2A-Version": "1.0", **served.headers("owner")}
        async with served.client.stream("POST", "/a2a", json=body, headers=headers) as response:
            assert response.headers["Content-Type"].startswith("text/event-stream")
            lines = response.aiter_lines()
            assert (await anext(lines)).startswith("data:")
            with KeyFile.in_directory(tmp_path / "data").changing() as stored:
                stored[:] = revoked(stored, "owner", now=time.time())
            async for _ in lines:
                pass
        assert (await served.call("owner", "GET", "/tools")).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([("X-API-Key", "{owner}"), ("X-API-Key", "{admin}")], 400),
        ([("X-API-Key", "{owner}, {admin}")], 401),
        ([("X-API-Key", "{owner} {admin}")], 401),
        ([("X-API-Key", "")], 401),
        ([("X-API-Key", "sg_" + "a" * 60_000)], 401),
        ([("X-API-Key", "sg_\xe9\xff_" + "a" * 40)], 401),
        ([("X-API-Key", "{revoked}"), ("Authorization", "Bearer {admin}")], 400),
        ([("Authorization", "Bearer {admin}"), ("Authorization", "Basic YTpi")], 400),
        ([("Authorization", "Basic YTpi")], 401),
        ([("Authorization", "Bearer")], 401),
        ([("X-API-Key", "{owner}"), ("X-Tool-Authorization", "Bearer {admin}")], 400),
        ([("X-API-Key", "{owner}"), ("Authorization", "Bearer {admin}")], 400),
        ([("Cookie", "X-API-Key={admin}")], 401),
        ([("X-API-Key", "{owner}")], 200),
        ([("Authorization", "bearer  {owner}")], 200),
    ],
)
async def test_odd_headers(headers: list[tuple[str, str]], status: int, tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        keys = {name: served.keys[name] for name in ("owner", "admin", "revoked")}
        sent = [(name, value.format(**keys).encode("latin-1")) for name, value in headers]
        named = [(name.encode(), value) for name, value in sent]
        answer = await served.client.get("/tools", headers=named)
        assert answer.status_code == status, answer.text
        assert not any(key in answer.text for key in keys.values())
