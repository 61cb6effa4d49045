"""`stopgo mcp-resources`: the SQLite resource server, over stdio or HTTP."""

from __future__ import annotations

import argparse
import sqlite3
import sys
from typing import TYPE_CHECKING, Any

from .options import path

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `mcp-resources` to the command line."""
    command = subparsers.add_parser("mcp-resources", help="serve named values in a SQLite file as MCP tools")
    command.add_argument(
        "--db", type=path, required=True, metavar="FILE", help="the SQLite file; created if missing"
    )
    command.add_argument(
        "--http",
        type=_host_and_port,
        metavar="HOST:PORT",
        help="serve Streamable HTTP at /mcp instead of stdio; port 0 is any free one",
    )
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until stdin ends or a signal comes. Exit code 1 when that cannot even begin."""
    import trio

    # Half a second of imports that no other command should pay for.
    from ..servers.resource_store import ResourceStore
    from ..servers.resources import resource_server
    from ..servers.serving import serve_stdio

    try:
        store = ResourceStore(args.db)
    except (sqlite3.Error, OSError) as error:
        return _fail(f"cannot use the database {args.db}: {error}")
    server = resource_server(store)
    try:
        if args.http is not None:
            return _serve_http(server, args.http)
        trio.run(serve_stdio, server)
    finally:
        store.close()
    return 0


def _serve_http(server: Server[Any], address: tuple[str, int]) -> int:
    import trio

    from ...actors.common.errors import sentences
    from ..http.http_server import BindError
    from ..servers.serving import serve_http

    failures: list[str] = []
    try:
        trio.run(serve_http, server, address, _announce)
    except* BindError as group:
        failures = sentences(group)
    return _fail("; ".join(failures)) if failures else 0


def _announce(address: str) -> None:
    print(f"listening on {address}", flush=True)


def _fail(text: str) -> int:
    print(f"stopgo mcp-resources: {text}", file=sys.stderr)
    return 1


def _host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, for instance 127.0.0.1:8090")
    return host.removeprefix("[").removesuffix("]"), int(port)
