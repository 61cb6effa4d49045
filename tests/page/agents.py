"""Agents for the page to show, whose models are scripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.e2e.chains import echo_server, written

Json = dict[str, Any]


def known_as(address: str) -> Json:
    """Settings of an agent that browsers reach at this address."""
    return {"server": {"allowed_origins": [address]}}


def keeper(folder: Path, **settings: Any) -> Path:
    """The agent that comes with the package, with other settings."""
    args = ["mcp-resources", "--db", "${data_dir}/resources.db"]
    resources = {"name": "resources", "command": "stopgo", "args": args}
    config = {"name": "keeper", "llm": {"model": "offline:rules"}, "mcp_servers": [resources], **settings}
    return written(folder, config)


def busy_agent(folder: Path) -> Path:
    """A pipeline of three nodes: each message makes about a hundred events."""
    calls = [{"name": "echo", "arguments": {"text": f"part {number}"}} for number in range(8)]
    usage = {"input_tokens": 900, "output_tokens": 60}
    replies: list[Json] = [
        {"when": {"call": 1}, "text": "I look at the parts.", "tool_calls": calls, "usage": usage},
        {"when": {"call": 2}, "tool_calls": calls, "usage": usage},
        {"text": "All parts were **looked at**, and they hold.", "usage": usage},
    ]
    nodes = [
        {"type": "llm", "name": name, "prompt": "Work.", "output_key": name}
        for name in ("plan", "work", "check")
    ]
    agent = {"type": "sequential", "name": "line", "agents": nodes}
    config: Json = {
        "name": "busy",
        "llm": {"model": "script:replies.yaml"},
        "mcp_servers": [echo_server("parts")],
        "agent": agent,
    }
    return written(folder, config, replies)


def hostile_agent(folder: Path, text: str) -> Path:
    """It says the text, calls a tool with it, and gets it as the result."""
    calls = [{"name": "wipe", "arguments": {"text": text}}]
    replies: list[Json] = [
        {"when": {"call": 1}, "text": f"Before: {text}", "tool_calls": calls},
        {"text": f"After: {text}"},
    ]
    config: Json = {
        "name": "hostile",
        "description": text,
        "llm": {"model": "script:replies.yaml"},
        "mcp_servers": [echo_server("echoes")],
    }
    return written(folder, config, replies)
