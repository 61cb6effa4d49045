"""The limits of the memory of this process: those of the machine, and the bounds of what it keeps at once.

The machine limits the process as a whole, and kills it beyond that; the names are the kernel's. Everything
that a client, a model or a server sends is kept within a bound; the names are keys of the agent file, or say
what is kept in memory. `docs/guides/operate.md` has the table of both.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ...actors.a2a.agent_link import MAX_ANSWER
from ...actors.agent.agent import QUEUE_LIMIT
from ...actors.agent.watch import BUFFER
from ...actors.common.kept_forms import MOST_KEPT
from ...actors.models.providers.reading import MAX_BYTES as MAX_REPLY
from ...config.sections.agent_config import AgentConfig
from ...runtime.journal.question import MOST_BYTES
from ..contract.system_shapes import Memory, MemoryLimit, MemoryUnit
from ..http.body import MAX_BODY

_NO_LIMIT = 2**60
"""Version 1 of control groups writes a number of this size if there is none."""


def memory_of(config: AgentConfig) -> Memory:
    """The memory in use, and all limits."""
    return Memory(used_bytes=_used(), limits=[*machine_limits(), *process_bounds(config)])


def process_bounds(config: AgentConfig) -> Iterator[MemoryLimit]:
    """The bounds of what the process keeps at once. Pure."""
    bounds: tuple[tuple[str, int, MemoryUnit], ...] = (
        ("server.max_connections", config.server.max_connections, "connections"),
        ("request body", MAX_BODY, "bytes"),
        ("messages queued in a conversation", QUEUE_LIMIT, "messages"),
        ("events that wait for one client", BUFFER, "events"),
        ("page of a list", MOST_BYTES, "bytes"),
        ("kept forms of histories", MOST_KEPT, "bytes"),
        ("llm.max_concurrency", config.llm.max_concurrency, "calls"),
        *(
            (f"models.{name}.max_concurrency", each.max_concurrency, "calls")
            for name, each in config.models.items()
            if each.max_concurrency is not None
        ),
        ("reply of a model", MAX_REPLY, "bytes"),
        ("tools.max_parallel", config.tools.max_parallel, "calls"),
        ("tools.max_stored_bytes", config.tools.max_stored_bytes, "bytes"),
        *(
            (f"mcp_servers.{each.name}.max_concurrency", each.max_concurrency, "calls")
            for each in config.enabled_servers
        ),
        *(
            (f"a2a.{each.name}.max_concurrency", each.max_concurrency, "calls")
            for each in config.remote_agents
        ),
        *((("answer of an agent", MAX_ANSWER, "bytes"),) if config.remote_agents else ()),
    )
    for name, value, unit in bounds:
        yield MemoryLimit(name=name, value=value, unit=unit)


def machine_limits(root: Path = Path("/")) -> Iterator[MemoryLimit]:
    """The limits of the control groups of this process and of those above them, of which the lowest counts,
    and its own. Without `root`, those of this machine."""
    for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
        found = [value for file in _group_files(root, name) if (value := _number_in(file)) is not None]
        if found and min(found) < _NO_LIMIT:
            yield MemoryLimit(name=name, value=min(found), unit="bytes")
    for name in ("RLIMIT_AS", "RLIMIT_DATA"):
        soft, _ = resource.getrlimit(getattr(resource, name))
        if soft != resource.RLIM_INFINITY:
            yield MemoryLimit(name=name, value=soft, unit="bytes")


def _group_files(root: Path, name: str) -> Iterator[Path]:
    """The files of this name, from the group of this process up (cgroups(7), `/proc/PID/cgroup`)."""
    top = root / "sys/fs/cgroup"
    if name == "memory.limit_in_bytes":
        top /= "memory"
    with suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == ("memory" if name == "memory.limit_in_bytes" else ""):
                group = Path(path.lstrip("/"))
                yield from (top / each / name for each in (group, *group.parents))


def _number_in(file: Path) -> int | None:
    """None: there is no such file, or no limit in it (`max`)."""
    with suppress(OSError, ValueError):
        return int(file.read_text())
    return None


def _used() -> int | None:
    """The bytes of this process in memory; None if the system does not say."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return None
