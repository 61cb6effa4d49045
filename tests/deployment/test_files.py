"""The files for operators, as their own tools judge them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from stopgo.config.load import load_config
from stopgo.config.web_config import load_web_config
from stopgo.gateway.serve_process import LAST_RESORT
from tests.deployment.processes import BIN, ROOT, in_order, resolved

pytestmark = pytest.mark.deploy


@pytest.mark.parametrize(
    "command",
    [
        ("hadolint", "Dockerfile"),
        ("docker-compose", "config", "--quiet"),
        ("docker-compose", "--file", "compose.fleet.yaml", "config", "--quiet"),
        ("kubernetes-validate", "--strict", "deploy/kubernetes/agent.yaml"),
    ],
    ids=" ".join,
)
def test_checkers_are_satisfied(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOPGO_DB_PASSWORD", "secret")
    done = subprocess.run([BIN / command[0], *command[1:]], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "FAIL" not in done.stdout


def test_services_start_in_the_order_of_their_health() -> None:
    services = resolved()["services"]
    assert in_order(services) == ["resources", "agent-b", "agent-a", "web"]
    for each in services.values():
        assert all(on["condition"] == "service_healthy" for on in each.get("depends_on", {}).values())
        assert each["read_only"] is True
        assert each["cap_drop"] == ["ALL"]
        assert {port["host_ip"] for port in each.get("ports", [])} <= {"127.0.0.1"}
        assert "--insecure" not in each["command"]


PROBED = re.compile(r"http://127\.0\.0\.1:\d+[\w/]*")


def probes() -> list[list[str]]:
    """The health checks of the image and of the services that are ours."""
    text = (ROOT / "Dockerfile").read_text()
    [of_image] = re.findall(r"^HEALTHCHECK .* CMD (.*)$", text, re.MULTILINE)
    found = [json.loads(of_image)]
    for file in ("compose.yaml", "compose.fleet.yaml"):
        for service in yaml.safe_load((ROOT / file).read_text())["services"].values():
            found.append(service.get("healthcheck", {}).get("test", [])[1:])
    return [each for each in found if any(PROBED.search(word) for word in each)]


def test_health_checks_use_no_proxy() -> None:
    # Docker sets HTTP_PROXY in each container if its configuration has proxies
    # (docs.docker.com/engine/cli/proxy), and `urlopen` would ask it for this machine.
    class Healthy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path.startswith("/health") else 404)
            self.end_headers()

    environment = {"http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
    with ThreadingHTTPServer(("127.0.0.1", 0), Healthy) as server:
        threading.Thread(target=server.serve_forever).start()
        here = f"http://127.0.0.1:{server.server_port}/health"
        try:
            assert probes()
            for probe in probes():
                words = [PROBED.sub(here, word) for word in probe]
                subprocess.run([sys.executable, *words[1:]], env=environment, check=True)
        finally:
            server.shutdown()


def test_nodes_of_the_fleet_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOPGO_DB_PASSWORD", "secret")
    services = resolved("compose.fleet.yaml")["services"]
    nodes = [services[f"agent-{number}"] for number in (1, 2, 3)]
    urls = [each["environment"].pop("STOPGO_ADVERTISE_URL") for each in nodes]
    assert urls == [f"http://agent-{number}:8082" for number in (1, 2, 3)]
    assert nodes[0] == nodes[1] == nodes[2]
    [file] = [each["source"] for each in nodes[0]["volumes"]]
    port = load_config(Path(file)).port
    balancer = (ROOT / "deploy/compose/Caddyfile").read_text()
    assert f"reverse_proxy agent-1:{port} agent-2:{port} agent-3:{port} {{" in balancer
    assert in_order(services)[-1] == "balancer"
    assert [name for name, each in services.items() if "ports" in each] == ["balancer"]


def test_agent_files_are_valid_and_need_credentials() -> None:
    for file in ("image/agent.yaml", "compose/agent-b.yaml"):
        config = load_config(ROOT / "deploy" / file)
        assert config.auth is not None
        assert config.approval.defaults == "strict"
        assert config.warnings == ()
    assert load_web_config(ROOT / "deploy/compose/web.yaml").port == 3000


def test_agent_of_the_cluster_is_valid(tmp_path_factory: pytest.TempPathFactory) -> None:
    documents = list(yaml.safe_load_all((ROOT / "deploy/kubernetes/agent.yaml").read_text()))
    kinds = {each["kind"]: each for each in documents}
    file = tmp_path_factory.mktemp("cluster") / "agent.yaml"
    file.write_text(kinds["ConfigMap"]["data"]["agent.yaml"])
    config = load_config(file)
    pod = kinds["StatefulSet"]["spec"]["template"]["spec"]
    assert config.auth is not None
    assert config.approval.defaults == "strict"
    assert pod["terminationGracePeriodSeconds"] >= config.shutdown_grace + LAST_RESORT
    [container] = pod["containers"]
    assert {port["containerPort"] for port in container["ports"]} >= {config.port}


def test_unit_restarts_all_but_mistakes() -> None:
    unit = (ROOT / "deploy/systemd/agent.service").read_text()
    keys = dict(re.findall(r"^(\w+)=(.*)$", unit, re.MULTILINE))
    assert keys["RestartPreventExitStatus"] == "2"
    assert int(keys["TimeoutStopSec"]) >= load_config(ROOT / "config/agent.yaml").shutdown_grace + LAST_RESORT
    assert keys["KillMode"] == "mixed"


def test_unit_takes_away_what_an_agent_does_not_need() -> None:
    """What `systemd-analyze security` (systemd.exec(5)) asks for, but for what tool servers need."""
    unit = (ROOT / "deploy/systemd/agent.service").read_text()
    keys = dict(re.findall(r"^(\w+)=(.*)$", unit, re.MULTILINE))
    switches = (
        "LockPersonality NoNewPrivileges PrivateDevices PrivateTmp ProtectClock ProtectControlGroups "
        "ProtectHome ProtectHostname ProtectKernelLogs ProtectKernelModules ProtectKernelTunables RemoveIPC "
        "RestrictNamespaces RestrictRealtime RestrictSUIDSGID"
    )
    assert {keys.get(name) for name in switches.split()} == {"yes"}
    assert (keys["CapabilityBoundingSet"], keys["ProtectSystem"], keys["UMask"]) == ("", "strict", "0077")
    assert keys["SystemCallFilter"] == "@system-service"
    assert keys["ReadWritePaths"] == keys["WorkingDirectory"] == "/srv/agent"
    assert "--config /etc/stopgo/agent.yaml" in keys["ExecStart"]  # tool servers cannot change their rules


def test_images_of_others_are_pinned_by_their_digests(tmp_path: Path) -> None:
    """With a registry that knows two digests, one after the other."""
    files = ("Dockerfile", "compose.fleet.yaml")
    for name in (*files, "deploy/pin-images"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    docker = tmp_path / "docker"
    for number in (1, 2):
        digest = f"sha256:{str(number) * 64}"
        docker.write_text(f"#!/bin/sh\necho {digest}\n")
        docker.chmod(0o755)
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        subprocess.run([tmp_path / "deploy/pin-images"], env=environment, check=True, capture_output=True)
        dockerfile, compose = ((tmp_path / name).read_text() for name in files)
        bases = [line.split()[1] for line in dockerfile.splitlines() if line.startswith("FROM ")]
        assert {each.partition("@")[2] for each in bases} == {digest}
        assert dockerfile.count(" AS build\n") == 1
        images = {each["image"] for each in yaml.safe_load(compose)["services"].values()}
        assert {each.partition("@")[2] for each in images} == {digest, ""}
        assert [each for each in images if "@" not in each] == ["stopgo"]
    docker.write_text("#!/bin/sh\necho no such image\n")
    failed = subprocess.run([tmp_path / "deploy/pin-images"], env=environment, capture_output=True, text=True)
    assert failed.returncode == 1
    assert "no digest of python:" in failed.stderr
    assert (tmp_path / "Dockerfile").read_text() == dockerfile
