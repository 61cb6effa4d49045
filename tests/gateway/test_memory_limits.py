"""The limits of memory that readiness names."""

from __future__ import annotations

import re
import resource
from pathlib import Path

import pytest

from stopgo.config.load import load_config
from stopgo.config.sections.agent_config import AgentConfig
from stopgo.gateway.rest.memory_limits import machine_limits, memory_of, process_bounds

ROOT = Path(__file__).parents[2]
FILE = """
models: {small: {provider: offline, model: rules, max_concurrency: 3}}
llm: {model: offline:rules}
mcp_servers: [{name: files, command: files, max_concurrency: 5}]
a2a: [{name: far, url: "http://far.example"}]
tools: {max_stored_bytes: 5000}
"""


def config(folder: Path) -> AgentConfig:
    (folder / "agent.yaml").write_text(FILE)
    return load_config(folder / "agent.yaml", environ={}, data_dir=folder / "data")


def test_settings_of_the_file_are_named_with_their_values(tmp_path: Path) -> None:
    limits = {each.name: (each.value, each.unit) for each in process_bounds(config(tmp_path))}
    assert limits["tools.max_stored_bytes"] == (5000, "bytes")
    assert limits["mcp_servers.files.max_concurrency"] == (5, "calls")
    assert limits["models.small.max_concurrency"] == (3, "calls")
    assert limits["a2a.far.max_concurrency"] == (16, "calls")
    assert limits["request body"] == (2**20, "bytes")


def test_guide_for_operators_has_every_limit(tmp_path: Path) -> None:
    guide = (ROOT / "docs/guides/operate.md").read_text()
    table = guide.partition("## Memory")[2].partition("## Bounds")[0]
    names = re.findall(r"`([^`]+)`", "".join(re.findall(r"^\| ([^|]*) \|", table, re.MULTILINE)))
    found = {each.name for each in process_bounds(config(tmp_path))}
    found = {re.sub(r"(mcp_servers|models|a2a)\.\w+\.", r"\1.NAME.", name) for name in found}
    kernel = {"memory.max", "memory.high", "memory.limit_in_bytes", "RLIMIT_AS", "RLIMIT_DATA"}
    assert {*names} == found | kernel


@pytest.mark.parametrize(
    ("files", "limits"),
    [
        # cgroups(7): in version 2, one line with an empty list of controllers
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1073741824\n"}, {"memory.max": 2**30}),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, {}),
        (
            {
                "proc/self/cgroup": "0::/system.slice/agent.service\n",
                "sys/fs/cgroup/system.slice/agent.service/memory.max": "max\n",
                "sys/fs/cgroup/system.slice/agent.service/memory.high": "500\n",
                "sys/fs/cgroup/system.slice/memory.max": "1000\n",
                "sys/fs/cgroup/memory.max": "2000\n",
            },
            {"memory.max": 1000, "memory.high": 500},
        ),
        # in version 1, one line for each group of controllers
        (
            {
                "proc/self/cgroup": "4:memory:/docker/1\n3:cpu,cpuacct:/docker/1\n",
                "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "900\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            {"memory.limit_in_bytes": 900},
        ),
        ({"proc/self/cgroup": "0::/gone\n"}, {}),
        ({"proc/self/cgroup": "nonsense"}, {}),
        ({}, {}),
    ],
)
def test_limits_of_control_groups_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], limits: dict[str, int]
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert {each.name: each.value for each in machine_limits(tmp_path)} == limits


def test_limits_of_the_process_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {resource.RLIMIT_AS: 7_000, resource.RLIMIT_DATA: resource.RLIM_INFINITY}
    monkeypatch.setattr(resource, "getrlimit", lambda which: (kept[which], resource.RLIM_INFINITY))
    assert [(each.name, each.value) for each in machine_limits(tmp_path)] == [("RLIMIT_AS", 7_000)]


def test_memory_in_use_is_that_of_the_process(tmp_path: Path) -> None:
    used = memory_of(config(tmp_path)).used_bytes
    assert used is not None
    assert 2**20 < used < 2**40
