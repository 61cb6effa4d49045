"""The story of `compose.yaml`: a chat with agent-a through the page, delegated to agent-b, which asks."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.deployment.processes import BIN, ROOT, Services, resolved
from tests.http_client import blocking_client

pytestmark = pytest.mark.deploy


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    compose = tmp_path / "compose"
    ignored = shutil.ignore_patterns("secrets*")
    shutil.copytree(ROOT / "deploy/compose", compose, ignore=ignored)
    subprocess.run([compose / "make-keys", BIN / "stopgo"], check=True, capture_output=True)
    content = resolved()
    for secret in content["secrets"].values():
        secret["file"] = secret["file"].replace(str(ROOT / "deploy/compose"), str(compose))
    services = Services(tmp_path, content)
    services.up()
    yield services
    services.down()


def test_keys_can_be_used_by_containers_and_found_by_nobody_else(services: Services) -> None:
    folder = services.folder / "compose" / "secrets"
    assert folder.stat().st_mode & 0o777 == 0o700
    for secret in services.content["secrets"].values():
        assert Path(secret["file"]).stat().st_mode & 0o777 == 0o644
    assert (folder / "agent-a-key").stat().st_mode & 0o777 == 0o600


def test_chat_reaches_the_tools_after_the_approval(services: Services) -> None:
    key = (services.folder / "compose/secrets/agent-a-key").read_text().strip()
    with blocking_client(base_url=services.address("web"), trust_env=False) as anyone:
        assert anyone.post("/conversations", json={"message": "add lamp with value 3"}).status_code == 401
    headers = {"X-API-Key": key}
    with blocking_client(base_url=services.address("web"), headers=headers, trust_env=False) as client:
        asked = client.post("/conversations", json={"message": "add lamp with value 3"}).json()["result"]
        assert asked["waiting_approval"] is True
        approval = asked["approval"]
        assert approval["tool_name"] == "resources_add"
        assert resources(services) == []
        answer = client.post(f"/approvals/{approval['uuid']}", json={"approved": True}).json()["result"]
        assert "lamp" in answer["response"]
    assert resources(services) == [("lamp", "3")]
    assert services.down() == dict.fromkeys(["web", "agent-a", "agent-b", "resources"], 0)


def resources(services: Services) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(services.folder / "resources-data/resources.db")) as db:
        return [(name, str(value)) for name, value in db.execute("SELECT name, value FROM resources")]
