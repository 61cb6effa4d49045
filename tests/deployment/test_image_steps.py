"""The steps of the Dockerfile, run without a container: the same commands on the same files, at other paths.

Only a daemon can run the rest: the base image, the user, the copies between stages, and the read-only root.
Instead of the latter, the test sees that nothing outside the data directory changes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deployment.processes import ROOT

pytestmark = pytest.mark.deploy

DOCKERFILE = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())


def instructions(name: str) -> list[str]:
    return re.findall(rf"^{name} (.*)$", DOCKERFILE, re.MULTILINE)


def context(folder: Path) -> None:
    """Copy the files of the repository that `.dockerignore` lets through."""
    kept = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *kept]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0"):
        if name and (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in place of `/`, with everything that the image has besides its base."""
    root = tmp_path_factory.mktemp("image")
    context(root / "src")
    for step in instructions("RUN"):
        if "/opt/stopgo" in step:
            command = step.replace("/opt/stopgo", f"{root}/opt/stopgo").replace(
                "python -m venv", f"{sys.executable} -m venv"
            )
            subprocess.run(command, shell=True, cwd=root / "src", check=True, capture_output=True)
    [(source, target)] = [copy.split() for copy in instructions("COPY") if copy.startswith("deploy/image")]
    (root / target.lstrip("/")).parent.mkdir(parents=True)
    config = (root / "src" / source).read_text()
    config = (
        config.replace("/data", f"{root}/data")
        .replace("0.0.0.0", "127.0.0.1")
        .replace("port: 8080", "port: 0")
    )
    (root / target.lstrip("/")).write_text(config)
    (root / "data").mkdir(mode=0o700)
    return root


def state(folder: Path) -> Iterator[tuple[str, int, int]]:
    for path in sorted(folder.rglob("*")):
        found = path.lstat()
        yield str(path), found.st_size, found.st_mtime_ns


def test_image_has_no_tools_and_no_other_files(root: Path) -> None:
    installed = {path.name for path in (root / "opt/stopgo/bin").iterdir()}
    assert "stopgo" in installed
    assert not [name for name in installed if name.startswith("pip")]
    assert not (root / "src/tests").exists()
    assert not (root / "src/deploy/compose").exists()
    names = [path.name for path in (root / "opt/stopgo").rglob("*.dist-info")]
    assert [name for name in names if name.startswith("prometheus_client")]
    assert [name for name in names if name.startswith("opentelemetry_sdk")]


def test_container_serves_is_healthy_and_stops(root: Path) -> None:
    [entrypoint], [command] = (
        [json.loads(each) for each in instructions(name)] for name in ("ENTRYPOINT", "CMD")
    )
    words = [word.replace("/etc/", f"{root}/etc/") for word in (*entrypoint, *command)]
    environment = {"PATH": f"{root}/opt/stopgo/bin:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
    before = [*state(root / "opt"), *state(root / "etc")]
    process = subprocess.Popen(
        words,
        cwd=root / "data",
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        executable=root / "opt/stopgo/bin/stopgo",
    )
    assert process.stdout is not None
    try:
        lines = iter(process.stdout)
        address = next(line for line in lines if line.startswith("listening on")).split()[-1]
        [probe] = [json.loads(each.partition(" CMD ")[2]) for each in instructions("HEALTHCHECK")]
        probe = [word.replace("http://127.0.0.1:8080", address) for word in probe]
        subprocess.run(probe, env=environment, check=True)
        add = ["keys", "add", "me", "--role", "admin", "--config", f"{root}/etc/stopgo/agent.yaml"]
        key = subprocess.run(
            ["stopgo", *add], env=environment, capture_output=True, text=True, check=True
        ).stdout
        assert key.startswith("sg_")
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    finally:
        process.kill()
        process.stdout.close()
    assert [*state(root / "opt"), *state(root / "etc")] == before
    assert {path.name for path in (root / "data").iterdir()} >= {"journal.db", "keys.json", "resources.db"}
