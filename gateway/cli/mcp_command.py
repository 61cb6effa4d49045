"""`stopgo mcp`: look at the tool servers of an agent, try them, and call their tools."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .options import WRONG, add_mcp_option, path

if TYPE_CHECKING:
    from ...config.agent_config import AgentConfig
    from ...config.mcp import McpServerConfig


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `mcp` to the command line."""
    mcp = subparsers.add_parser("mcp", help="look at tool servers, try them, and call their tools")
    commands = mcp.add_subparsers(required=True, metavar="COMMAND")
    listing = commands.add_parser(
        "list", help="print the servers", description="Prints the servers of an agent. Nothing is started."
    )
    show = commands.add_parser(
        "show",
        help="print what the file says of a server",
        description="Prints what holds for a server, without the values of env and headers. Nothing is "
        "started.",
    )
    test = commands.add_parser(
        "test",
        help="connect, and print the tools",
        description="Connects to the servers, or to one of them, and prints how that went, its tools, what "
        "they say of themselves, and what the gate does with a call of each. Exit code: 1 when one "
        "cannot be connected, 2 when the file is wrong: there is no such command, tools collide, or a rule "
        "that asks or denies names a tool that does not exist.",
    )
    call = commands.add_parser(
        "call",
        help="call a tool of a server",
        description="Calls a tool past the gate, as a node at the root would. What asks is asked at the "
        "terminal. Exit code: 1 when the call fails, 2 when it makes no sense, 3 when it asks and there "
        "is no terminal, or when the answer is no, 4 when it is denied.",
    )
    for command, run in (
        (listing, list_servers),
        (show, show_server),
        (test, test_servers),
        (call, call_tool),
    ):
        command.add_argument(
            "--config",
            type=path,
            metavar="FILE",
            help="the agent file; default: config/agent.yaml, else the one that comes with the package",
        )
        add_mcp_option(command)
        command.set_defaults(run=run)
    show.add_argument("name", metavar="NAME", help="the server")
    test.add_argument("name", metavar="NAME", nargs="?", help="the server; default: all")
    call.add_argument("name", metavar="NAME", help="the server")
    call.add_argument("tool", metavar="TOOL", help="the tool, as its server calls it")
    call.add_argument(
        "arguments", metavar="JSON", nargs="?", default="{}", help="its arguments; default: none"
    )
    call.add_argument("--yes", action="store_true", help="make the call although the gate would ask")


def list_servers(args: argparse.Namespace) -> int:
    """Print a line for each server."""
    config = _config(args)
    if config is None:
        return WRONG
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
    """Print what holds for a server."""
    config = _config(args)
    server = None if config is None else _find(config, args.name)
    if server is None:
        return WRONG
    for key, value in _settings(server):
        print(f"{key}: {value}")
    return 0


def test_servers(args: argparse.Namespace) -> int:
    """Connect to servers and print what comes of it."""
    config = _config(args)
    if config is None:
        return WRONG
    servers = config.enabled_servers
    if args.name is not None:
        server = _find(config, args.name)
        if server is None:
            return WRONG
        servers = (server,)

    from .mcp_session import run_test

    return run_test(config, servers)


def call_tool(args: argparse.Namespace) -> int:
    """Call a tool and print its result."""
    config = _config(args)
    server = None if config is None else _find(config, args.name)
    if config is None or server is None:
        return WRONG

    from .mcp_session import run_call

    return run_call(config, server, args.tool, args.arguments, yes=args.yes)


def transport(server: McpServerConfig) -> str:
    """How a server is spoken to, as far as the file says."""
    if server.transport is None and server.url is not None:
        return "http or sse"
    return server.first_transport


def _config(args: argparse.Namespace) -> AgentConfig | None:
    """None when there is none, which has been said."""
    from ...config.errors import ConfigError
    from ...config.load import load_config

    try:
        return load_config(args.config, mcp=args.mcp)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return None


def _find(config: AgentConfig, name: str) -> McpServerConfig | None:
    """None when there is none, which has been said."""
    from ...config.wording import nearest

    names = [server.name for server in config.mcp_servers]
    for server in config.mcp_servers:
        if server.name == name:
            return server
    hint = nearest(name, names) or (f"there is {', '.join(names)}" if names else "there is none")
    print(f'stopgo mcp: no server is called "{name}" ({hint})', file=sys.stderr)
    return None


def _remarks(server: McpServerConfig) -> str:
    from ...actors.tools.catalogue import one_name

    said = []
    if not server.enabled:
        said.append("switched off")
    if not server.required:
        said.append("not required")
    if server.expose == "server":
        said.append(f"as one tool, {one_name(server)}")
    return f"({', '.join(said)})" if said else ""


def _settings(server: McpServerConfig) -> Iterator[tuple[str, object]]:
    from ...actors.tools.catalogue import one_name

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
        "max_retries",
        "max_concurrency",
    ):
        yield key, _plain(getattr(server, key))
    yield "priority", server.priority
    yield "expose", f"{server.expose}, {one_name(server)}" if server.expose == "server" else server.expose
    given: dict[str, object] = {
        "description": server.description,
        "args": len(server.args) and f"{len(server.args)} of them",
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
