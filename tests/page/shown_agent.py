"""The agent of the pictures: a release manager whose tools are made up and whose model is a script."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from tests.e2e.chains import written

Json = dict[str, Any]

HERE = Path(__file__).parent
ROLLOUT: Json = {
    "service": "exporter",
    "version": "2.14.0",
    "environment": "production",
    "change_id": 9007199254740993,
    "strategy": {"kind": "canary", "steps": [5, 25, 100], "pause_minutes": 15},
    "notify": {"channel": "#exporter-ops", "on_failure_only": False},
}


def usage(input: int, output: int) -> Json:
    return {"input_tokens": input, "output_tokens": output}


def call(name: str, **arguments: Any) -> Json:
    return {"name": name, "arguments": arguments}


def of(node: str, number: int, **reply: Any) -> Json:
    return {"when": {"user": "2.14.0", "node": node, "call": number}, "delay": 0.4, **reply}


SHIP = [
    of("plan", 1, tool_calls=[call("list_issues", milestone="2.14.0")], usage=usage(1840, 64)),
    of(
        "plan",
        2,
        tool_calls=[
            call("compare_commits", base="v2.13.4", head="main"),
            call("read_log", build="nightly-8841"),
        ],
        usage=usage(2410, 96),
    ),
    of(
        "plan",
        3,
        text="37 commits, none of them breaking. The nightly build is green, so a canary is enough:\n\n"
        "1. 5% of the traffic\n2. 25% after a quarter of an hour\n3. all of it",
        usage=usage(3120, 140),
    ),
    of("notes", 1, tool_calls=[call("compare_commits", base="v2.13.4", head="main")], usage=usage(1660, 50)),
    of(
        "notes",
        2,
        text="**Exporter 2.14.0.** Large exports no longer time out: files above 2 GB are written in parts "
        "and can be resumed.",
        usage=usage(2210, 88),
    ),
    of("canary", 1, tool_calls=[call("rollout_status", service="exporter")], usage=usage(1510, 40)),
    of(
        "canary",
        2,
        text="The exporter runs 2.13.4 everywhere. I start the canary.",
        tool_calls=[{"name": "start_rollout", "arguments": ROLLOUT}],
        usage=usage(1890, 120),
    ),
    of("canary", 3, text="The canary of 2.14.0 takes 5% of the traffic.", usage=usage(2030, 30)),
    of(
        "summary",
        1,
        text="2.14.0 is on its way: the canary runs, and the notes are ready.",
        usage=usage(900, 40),
    ),
]
CLOSE: list[Json] = [
    {
        "when": {"user": r"close (?P<ticket>\S+) as (?P<resolution>\w+)", "node": "canary", "call": 1},
        "tool_calls": [
            call("close_ticket", ticket="${ticket}", resolution="${resolution}", comment="Fixed in 2.13.4")
        ],
        "usage": usage(700, 40),
    },
    {"when": {"user": "close", "node": "canary"}, "text": "The ticket is closed.", "usage": usage(720, 12)},
]
REST: list[Json] = [
    {"when": {"user": "fail"}, "error": {"status": 400, "message": "the context is too long"}},
    {"text": "Nothing to do here.", "usage": usage(400, 8)},
]

RULES: list[Json] = [
    {
        "name": "production deploys ask",
        "tool": "start_rollout",
        "arguments": {"environment": {"equals": "production"}},
        "then": "ask",
    },
    {"name": "other deploys ask, too", "tool": "start_rollout", "then": "ask"},
    {
        "name": "fixed tickets close",
        "tool": "close_ticket",
        "arguments": {"resolution": {"equals": "fixed"}},
        "then": "run",
        "shadow": True,
    },
    {"name": "no rollbacks by night", "tool": "roll_back", "optional": True, "then": "deny"},
]


def release_manager(folder: Path) -> tuple[Path, dict[str, str]]:
    """Its file, and the environment it needs: pictures must not show where this machine has its programs."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    tools = programs / "release-tools"
    tools.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE / "release_tools.py"}" "$1"\n')
    tools.chmod(0o755)

    def node(name: str, prompt: str) -> Json:
        return {"type": "llm", "name": name, "prompt": prompt, "output_key": name}

    parallel: Json = {
        "type": "parallel",
        "name": "prepare",
        "agents": [node("canary", "Roll the release out."), node("notes", "Write the release notes.")],
    }
    steps = [node("plan", "Plan the release."), parallel, node("summary", "Say what was done.")]
    config: Json = {
        "name": "release-manager",
        "description": "Ships releases, and asks before production.",
        "llm": {"model": "script:replies.yaml"},
        "mcp_servers": [
            {"name": name, "command": "release-tools", "args": [name]}
            for name in ("github", "deploy", "tickets")
        ],
        "approval": {"expires_after": 5400, "in_parallel": "ask", "rules": RULES},
        "agent": {
            "type": "sequential",
            "name": "release",
            "agents": steps,
        },
    }
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return written(folder, config, SHIP + CLOSE + REST), {"PATH": path}
