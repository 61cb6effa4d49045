"""An agent that listens beyond this machine, in a network namespace of the test.

Where such namespaces are not allowed, it listens on the loopback address, to which the same rules apply.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

OPEN = "10.11.12.13"
IN_NAMESPACE = (
    *("unshare", "--map-root-user", "--net", "sh", "-c"),
    f'ip link set lo up && ip address add {OPEN}/32 dev lo && exec "$@"',
    "sh",
)
LOOPBACK: tuple[str, str, tuple[str, ...]] = ("127.0.0.1", "127.0.0.1", ())
AGENT = """
llm: {model: offline:rules}
auth: {api_keys: true}
"""
# Runs in the namespace: serves the agent on all addresses, and prints the status and code of each answer.
CLIENT = """
import http.client, json, subprocess, sys
stopgo, key, address, listens = sys.argv[1:]
server = subprocess.Popen([stopgo, "serve", "--config", "agent.yaml", "--host", listens, "--port", "0"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
line = next(line for line in server.stdout if line.startswith("listening"))
port = int(line.strip().rpartition(":")[2])
found = {}
for host in (address, f"{address}:{port}", "rebound.example", "localhost.rebound.example"):
    for name, headers in (("open", {}), ("key", {"X-API-Key": key})):
        connection = http.client.HTTPConnection(address, port)
        connection.request("GET", "/conversations", headers={"Host": host, **headers})
        answer = connection.getresponse()
        found[f"{host.removesuffix(f':{port}')} {name}"] = [answer.status, json.load(answer).get("code")]
        connection.close()
server.terminate()
server.wait()
print(json.dumps(found))
"""
STOPGO = str(Path(sys.executable).with_name("stopgo"))


def has_namespaces() -> bool:
    """Whether an ordinary user may make network namespaces here."""
    if not (shutil.which("unshare") and shutil.which("ip")):
        return False
    return subprocess.run([*IN_NAMESPACE, "true"], capture_output=True).returncode == 0


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_names_of_others_reach_nothing_even_with_a_key(tmp_path: Path) -> None:
    """DNS rebinding: the page of an attacker whose name resolves to the agent's address."""
    (tmp_path / "agent.yaml").write_text(AGENT)
    made = run(STOPGO, "keys", "add", "ci", "--role", "admin", "--config", "agent.yaml", folder=tmp_path)
    client = (sys.executable, "-c", CLIENT, STOPGO, made.stdout.strip())
    address, listens, prefix = (OPEN, "0.0.0.0", IN_NAMESPACE) if has_namespaces() else LOOPBACK
    served = run(*prefix, *client, address, listens, folder=tmp_path)
    assert served.returncode == 0, served.stderr
    assert json.loads(served.stdout) == {
        f"{address} open": [401, "unauthenticated"],
        f"{address} key": [200, None],
        "rebound.example open": [421, "wrong_host"],
        "rebound.example key": [421, "wrong_host"],
        "localhost.rebound.example open": [421, "wrong_host"],
        "localhost.rebound.example key": [421, "wrong_host"],
    }
