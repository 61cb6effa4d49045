"""`stopgo mcp`: lists and tests the tool servers of an agent, and calls their tools."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..process.options import WRONG, add_config_option, add_mcp_option, agent_config

if TYPE_CHECKING:
    from ....config.sections.agent_config import AgentConfig
    from ....config.sections.mcp import McpServerConfig


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `mcp` to the command line."""
    mcp = subparsers.add_parser("mcp", help="list and test tool servers, call their tools")
    commands = mcp.add_subparsers(required=True, metavar="COMMAND")
    listing = commands.add_parser(
        "list", help="print the servers", description="Prints the servers of an agent. Starts nothing."
    )
    show = commands.add_parser(
        "show",
        help="print the settings of a server",
        description="Prints the settings of a server, without the values of env and headers. Starts nothing.",
    )
    test = commands.add_parser(
        "test",
        help="connect to servers and print their tools",
        description="Connects to all servers, or to one, and prints the outcome, the tools, their hints and "
        "the gate's verdict on a call of each. Exit code: 1 if a server cannot be connected, 2 if the file "
        "is wrong: a command does not exist, names of tools collide, or a rule with ask or deny names a "
        "tool that does not exist.",
    )
    call = commands.add_parser(
        "call",
        help="call a tool of a server",
        description="Calls a tool through the gate, as a node at the root would. A call that asks is decided "
        "at the terminal. Exit code: 1 if the call fails, 2 if the server, the tool or the arguments are "
        "wrong, 3 if the call asks and there is no terminal or the answer is no, 4 if it is denied.",
    )
    for command, run in (
        (listing, list_servers),
        (show, show_server),
        (test, test_servers),
        (call, call_tool),
    ):
        add_config_option(command)
        add_mcp_option(command)
        command.set_defaults(run=run)
    show.add_argument("name", metavar="NAME", help="name of the server")
    test.add_argument("name", metavar="NAME", nargs="?", help="name of the server; default: all")
    call.add_argument("name", metavar="NAME", help="name of the server")
    call.add_argument("tool", metavar="TOOL", help="name of the tool on its server")
    call.add_argument(
        "arguments", metavar="JSON", nargs="?", default="{}", help="arguments of the call; default: none"
    )
    call.add_argument("--yes", action="store_true", help="make the call even if the gate asks")


def list_servers(args: argparse.Namespace) -> int:
    """Print a line for each server."""
    config = agent_config(args)
    rows = [
        (server.name, transport(server), server.as_written, _remarks(server)) for server in config.mcp_servers
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)] if rows else []
    for row in rows:
        padded = [text.ljust(width) for text, width in zip(row, widths, strict=False)]
        print("  ".join([*padded, row[3]]).rstrip())
    if not rows:
        print("No MCP servers configured")
    return 0


def show_server(args: argparse.Namespace) -> int:
    """Print the settings of a server."""
    server = _find(agent_config(args), args.name)
    if server is None:
        return WRONG
    for key, value in _settings(server):
        print(f"{key}: {value}")
    return 0


def test_servers(args: argparse.Namespace) -> int:
    """Connect to servers and print the outcome."""
    config = agent_config(args)
    servers = config.enabled_servers
    if args.name is not None:
        server = _find(config, args.name)
        if server is None:
            return WRONG
        servers = (server,)

    from ..client.mcp_session import run_test

    return run_test(config, servers)


def call_tool(args: argparse.Namespace) -> int:
    """Call a tool and print its result."""
    config = agent_config(args)
    server = _find(config, args.name)
    if server is None:
        return WRONG

    from ..client.mcp_session import run_call

    return run_call(config, server, args.tool, args.arguments, yes=args.yes)


def transport(server: McpServerConfig) -> str:
    """The transport of a server, as far as the file says."""
    if server.transport is None and server.url is not None:
        return "http or sse"
    return server.first_transport


def _find(config: AgentConfig, name: str) -> McpServerConfig | None:
    """The server; None, after an error message, if there is none."""
    from ....config.described.wording import nearest

    names = [server.name for server in config.mcp_servers]
    for server in config.mcp_servers:
        if server.name == name:
            return server
    hint = nearest(name, names) or f"servers: {', '.join(names) or 'none'}"
    print(f'stopgo mcp: no server is called "{name}" ({hint})', file=sys.stderr)
    return None


def _remarks(server: McpServerConfig) -> str:
    from ....actors.tools.catalogue import one_name

    remarks = []
    if not server.enabled:
        remarks.append("disabled")
    if not server.required:
        remarks.append("not required")
    if server.expose == "server":
        remarks.append(f"as one tool, {one_name(server)}")
    return f"({', '.join(remarks)})" if remarks else ""


def _settings(server: McpServerConfig) -> Iterator[tuple[str, object]]:
    from ....actors.tools.catalogue import one_name

    yield "name", server.name
    brought = "brought_by" if server.is_brought else "url"
    yield "command" if server.command is not None else brought, server.as_written
    yield "transport", transport(server)
    for key in (
        "mode",
        "enabled",
        "required",
        "connect_timeout",
        "timeout",
        "attempts",
        "max_concurrency",
    ):
        yield "max_retries" if key == "attempts" else key, _plain(getattr(server, key))
    yield "priority", server.priority
    yield "expose", f"{server.expose}, {one_name(server)}" if server.expose == "server" else server.expose
    given: dict[str, object] = {
        "description": server.description,
        "args": len(server.args) and f"{len(server.args)} (not shown)",
        "env": ", ".join(server.env),
        "env_file": server.env_file,
        "cwd": server.cwd,
        "headers": ", ".join(server.headers),
        "oauth": server.oauth and f"as {server.oauth.client_id}",
        "tools.include": None if server.tools.include is None else ", ".join(server.tools.include) or "none",
        "tools.exclude": ", ".join(server.tools.exclude),
    }
    yield from ((key, value) for key, value in given.items() if value)


def _plain(value: object) -> object:
    return (
        str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else value
    )
