"""The services of `compose.yaml` as processes of this machine: `make run-up`, `make run-down`, and the tests.

The file is read as `docker-compose config` resolves it. Names of services become 127.0.0.1, as do all
addresses of a container; ports become free ones; the targets of mounts become their sources. Nothing else
changes: the commands, the agent files, the health checks, and the order of the starts are those of the file.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import attrs

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
FOLDER = ROOT / "build" / "compose"
"""Seconds until a service has to be healthy."""
PAUSE = 0.2

Json = dict[str, Any]


def resolved(file: str = "compose.yaml") -> Json:
    """A compose file with all references resolved. It may refer to no variable of this machine but that with
    the password of the database."""
    command = [str(BIN / "docker-compose"), "--file", f"{ROOT}/{file}", "config", "--format", "json"]
    allowed = {name: os.environ[name] for name in ("PATH", "STOPGO_DB_PASSWORD") if name in os.environ}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=allowed)
    assert not done.stderr, done.stderr
    content: Json = json.loads(done.stdout)
    return content


def in_order(services: Mapping[str, Json]) -> list[str]:
    """The names of the services, each after those that it depends on."""
    order: list[str] = []
    while len(order) < len(services):
        ready = [name for name, each in services.items() if set(each.get("depends_on", {})) <= set(order)]
        order += [name for name in ready if name not in order]
    return order


@attrs.define
class Services:
    """The services, with their data and logs in a folder."""

    folder: Path
    content: Json = attrs.field(factory=resolved)
    ports: dict[str, str] = attrs.field(factory=dict)
    """Free ports of this machine, by the ports of the file."""
    pids: dict[str, int] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        named = re.findall(r"127\.0\.0\.1:(\d+)", json.dumps(self.content["services"]))
        self.ports = {port: str(_free_port()) for port in sorted(set(named))}

    def address(self, service: str) -> str:
        """Where clients reach a service."""
        [port] = self.content["services"][service]["ports"]
        return f"http://127.0.0.1:{self.ports[str(port['target'])]}"

    def up(self) -> None:
        """Start all services, each when those that it depends on are healthy."""
        for name in in_order(self.content["services"]):
            service, paths = self.content["services"][name], dict(self._mounts(name))
            environment = {
                key: self._local(value, paths) for key, value in service.get("environment", {}).items()
            }
            self._start(name, [self._local(word, paths) for word in service["command"]], environment)
            kind, *probe = [self._local(word, paths) for word in service["healthcheck"]["test"]]
            assert kind == "CMD"
            self._wait(name, probe)

    def down(self) -> dict[str, int | None]:
        """Stop the services, the last one first. Returns their exit codes, where they are known."""
        codes: dict[str, int | None] = {}
        for name, pid in reversed(self.pids.items()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
                codes[name] = _end_of(pid)
                while codes[name] is None:  # the child of another process: until there is no such process
                    os.kill(pid, 0)
                    _pause()
        return codes

    def log(self, service: str) -> str:
        return (self.folder / f"{service}.log").read_text()

    def _start(self, name: str, words: list[str], environment: Mapping[str, str]) -> None:
        environment = {"PATH": f"{BIN}:{os.environ['PATH']}", **environment}
        create = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        self.pids[name] = os.posix_spawn(
            BIN / "stopgo",
            ["stopgo", *words],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(self.folder / f"{name}.log"), create, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )

    def _wait(self, name: str, probe: list[str]) -> None:
        while subprocess.run([BIN / probe[0], *probe[1:]], capture_output=True).returncode:
            if _end_of(self.pids[name], wait=False) is not None:
                self.down()
                sys.exit(f"{name} is not healthy:\n{self.log(name)}")
            _pause()

    def _mounts(self, name: str) -> Iterator[tuple[str, str]]:
        """The mounts of a service, as pairs of target and source. Files of the configuration are copied, with
        the changes of addresses, ports and paths."""
        service = self.content["services"][name]
        paths: dict[str, str] = {}
        for mount in service.get("volumes", []):
            if mount["type"] == "volume":
                source = self.folder / mount["source"]
                source.mkdir(mode=0o700, parents=True, exist_ok=True)
                paths[mount["target"]] = str(source)
        for secret in service.get("secrets", []):
            source = Path(self.content["secrets"][secret["source"]]["file"])
            inside = next((paths[each] for each in paths if secret["target"].startswith(f"{each}/")), None)
            if inside is None:
                paths[secret["target"]] = str(source)
            else:
                Path(inside, Path(secret["target"]).name).write_bytes(source.read_bytes())
        for mount in service.get("volumes", []):
            if mount["type"] == "bind":
                source = self.folder / f"{name}-{Path(mount['target']).name}"
                source.write_text(self._local(Path(mount["source"]).read_text(), paths))
                paths[mount["target"]] = str(source)
        yield from paths.items()

    def _local(self, text: str, paths: Mapping[str, str]) -> str:
        names = "|".join(map(re.escape, self.content["services"]))
        text = re.sub(rf"//({names})(?=:)", "//127.0.0.1", text).replace("0.0.0.0", "127.0.0.1")
        text = re.sub(rf"\b({'|'.join(self.ports)})\b", lambda found: self.ports[found[0]], text)
        for target in sorted(paths, key=len, reverse=True):
            text = re.sub(rf"(?<![\w/]){re.escape(target)}(?![\w-])", paths[target], text)
        return text


def _pause() -> None:
    threading.Event().wait(PAUSE)


def _free_port() -> int:
    with closing(socket.socket()) as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def _end_of(pid: int, *, wait: bool = True) -> int | None:
    """The exit code of a child; None if it runs, or is the child of another process."""
    try:
        found, status = os.waitpid(pid, 0 if wait else os.WNOHANG)
    except ChildProcessError:
        return None
    return os.waitstatus_to_exitcode(status) if found else None


def main() -> int:
    kept = FOLDER / "pids.json"
    if sys.argv[1:] == ["down"]:
        Services(FOLDER, pids=json.loads(kept.read_text()) if kept.exists() else {}).down()
        kept.unlink(missing_ok=True)
    elif kept.exists():
        sys.exit("the services run already; stop them with `make run-down`")
    else:
        FOLDER.mkdir(parents=True, exist_ok=True)
        services = Services(FOLDER)
        services.up()
        kept.write_text(json.dumps(services.pids))
        for name in ("web", "agent-a", "agent-b"):
            print(f"{name} listens on {services.address(name)}")
        print(f"logs and data: {FOLDER}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
