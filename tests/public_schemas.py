"""The tools of public servers in every dialect, judged as `test_schema_dialects.py` judges generated schemas.

    make public-schemas                  all servers of the table
    make public-schemas ARGS='git n8n'   those whose names have one of the words

It installs the servers of npm and PyPI below `build/`, and asks each for its tools. The servers need neither
keys nor their services for that. Exit code 1 when a provider would refuse a schema, or an argument is not
declared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from tests.actors.models.test_schema_dialects import SENT, declared, judged, refused_by_name

BUILD = Path(__file__).parents[1] / "build" / "public-schemas"
PATIENCE = 60.0
"""Seconds that a server may take to list its tools."""


@attrs.frozen
class Public:
    """A server: its package, its program, and the variables that it wants before it starts."""

    package: str
    program: str
    args: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()


KEY = "0123456789abcdef0123456789abcdef"
NOWHERE = "http://127.0.0.1:9"
NPM = [
    Public("@modelcontextprotocol/server-everything", "mcp-server-everything"),
    Public("@modelcontextprotocol/server-filesystem", "mcp-server-filesystem", (str(BUILD),)),
    Public("@modelcontextprotocol/server-memory", "mcp-server-memory"),
    Public("@modelcontextprotocol/server-sequential-thinking", "mcp-server-sequential-thinking"),
    Public("@modelcontextprotocol/server-github", "mcp-server-github"),
    Public(
        "@modelcontextprotocol/server-gitlab", "mcp-server-gitlab", keys=("GITLAB_PERSONAL_ACCESS_TOKEN",)
    ),
    Public(
        "@modelcontextprotocol/server-google-maps", "mcp-server-google-maps", keys=("GOOGLE_MAPS_API_KEY",)
    ),
    Public(
        "@modelcontextprotocol/server-slack", "mcp-server-slack", keys=("SLACK_BOT_TOKEN", "SLACK_TEAM_ID")
    ),
    Public("@notionhq/notion-mcp-server", "notion-mcp-server", keys=("NOTION_TOKEN",)),
    Public("@playwright/mcp", "playwright-mcp"),
    Public("@upstash/context7-mcp", "context7-mcp"),
    Public("@antv/mcp-server-chart", "mcp-server-chart"),
    Public("chrome-devtools-mcp", "chrome-devtools-mcp"),
    Public("firecrawl-mcp", "firecrawl-mcp", keys=("FIRECRAWL_API_KEY",)),
    Public("tavily-mcp", "tavily-mcp", keys=("TAVILY_API_KEY",)),
    Public("exa-mcp-server", "exa-mcp-server", keys=("EXA_API_KEY",)),
    Public("mongodb-mcp-server", "mongodb-mcp-server"),
    Public(
        "@brave/brave-search-mcp-server",
        "brave-search-mcp-server",
        ("--transport", "stdio"),
        keys=("BRAVE_API_KEY",),
    ),
    Public("@roychri/mcp-server-asana", "mcp-server-asana", keys=("ASANA_ACCESS_TOKEN",)),
    Public("@dokploy/mcp", "dokploy-mcp", keys=("DOKPLOY_API_KEY",), urls=("DOKPLOY_URL",)),
    Public("figma-developer-mcp", "figma-developer-mcp", ("--stdio",), keys=("FIGMA_API_KEY",)),
    Public("mcp-server-kubernetes", "mcp-server-kubernetes"),
    Public("n8n-mcp", "n8n-mcp"),
]
PYPI = [
    Public("mcp-server-git", "mcp-server-git"),
    Public("mcp-server-fetch", "mcp-server-fetch"),
    Public("mcp-server-time", "mcp-server-time"),
    Public("awslabs.aws-documentation-mcp-server", "awslabs.aws-documentation-mcp-server"),
    Public(
        "mcp-atlassian",
        "mcp-atlassian",
        keys=("JIRA_PERSONAL_TOKEN", "CONFLUENCE_PERSONAL_TOKEN"),
        urls=("JIRA_URL", "CONFLUENCE_URL"),
    ),
    Public("duckduckgo-mcp-server", "duckduckgo-mcp-server"),
]


def install(server: Public, *, npm: bool) -> Path:
    """Install a server into a folder of its own, unless it is there. Returns its program."""
    place = BUILD / server.program
    if npm:
        program = place / "node_modules" / ".bin" / server.program
        command = ["npm", "install", "--prefix", str(place), "--no-audit", "--no-fund", "--ignore-scripts"]
        command.append(server.package)
    else:
        program = place / "bin" / server.program
        if not program.exists():
            venv.create(place, with_pip=True)
        command = [str(place / "bin" / "pip"), "install", "-q", server.package]
    if not program.exists():
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=300)
    return program


def tools_of(server: Public, *, npm: bool) -> list[dict[str, Any]]:
    """The tools that a server lists. Raises `OSError`, `ValueError` or `subprocess.SubprocessError`."""
    wanted = dict.fromkeys(server.keys, KEY) | dict.fromkeys(server.urls, NOWHERE)
    environ = {**os.environ, "HOME": str(BUILD), **wanted}
    process = subprocess.Popen(
        [str(install(server, npm=npm)), *server.args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environ,
        cwd=BUILD,
    )
    stop = threading.Timer(PATIENCE, process.kill)
    stop.start()
    try:
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "schemas", "version": "1"},
        }
        ask(process, 1, "initialize", hello)
        send(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        tools, cursor, number = [], None, 1
        while number == 1 or (cursor and number < 20):
            number += 1
            answer = ask(process, number, "tools/list", {"cursor": cursor} if cursor else {})
            tools += answer["tools"]
            cursor = answer.get("nextCursor")
        return tools
    finally:
        stop.cancel()
        process.kill()
        process.communicate()


def send(process: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()


def ask(process: subprocess.Popen[bytes], number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    send(process, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    assert process.stdout is not None
    for line in process.stdout:
        if not line.startswith(b"{"):
            continue
        message = json.loads(line)
        if message.get("id") == number and "method" not in message:
            return dict(message["result"])
    raise ValueError("the server ended without an answer")


def problems(tools: list[dict[str, Any]]) -> Iterator[str]:
    for tool in tools:
        schema = tool.get("inputSchema", {})
        for dialect in SENT:
            refusals, shown, _ = judged(schema, dialect)
            if refusals:
                yield f"{tool['name']} for {dialect.name}: {refusals}"
            for name in sorted(declared(schema) - shown["properties"].keys()):
                if not refused_by_name(name, dialect):
                    yield f"{tool['name']} for {dialect.name}: {name} is not declared"


def main(words: list[str]) -> int:
    BUILD.mkdir(parents=True, exist_ok=True)
    failed = total = 0
    for server in (*NPM, *PYPI):
        if words and not any(word in server.package for word in words):
            continue
        try:
            tools = tools_of(server, npm=server in NPM)
        except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            print(f"{server.package}: not tried, {type(error).__name__}: {error}", flush=True)
            continue
        found = list(problems(tools))
        failed, total = failed + len(found), total + len(tools)
        print(f"{server.package}: {len(tools)} tools, {len(found)} problems", flush=True)
        for each in found[:20]:
            print(f"    {each}")
    print(f"{total} tools in {len(SENT)} dialects, {failed} problems")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
