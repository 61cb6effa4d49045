"""`stopgo mcp-resources`: the SQLite resource server, over stdio or HTTP."""

from __future__ import annotations

import argparse
import sqlite3
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..process.options import WRONG, path, warn_if_reachable

if TYPE_CHECKING:
    from ....actors.mcp.wire.sdk import Server


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `mcp-resources` to the command line."""
    command = subparsers.add_parser(
        "mcp-resources",
        help="serve named values in a SQLite file as MCP tools",
        description="Serves over stdio, or over HTTP with --http or --config. Needs --db or --config.",
    )
    command.add_argument(
        "--config",
        type=path,
        metavar="FILE",
        help="YAML file with host, port and db_path; serves Streamable HTTP at that address",
    )
    command.add_argument(
        "--db", type=path, metavar="FILE", help="SQLite file, created if missing; overrides `db_path`"
    )
    command.add_argument(
        "--http",
        type=_host_and_port,
        metavar="HOST:PORT",
        help="serve Streamable HTTP at /mcp instead of stdio; port 0 picks a free one; overrides `host` and "
        "`port`",
    )
    command.set_defaults(run=run, command=command)


def run(args: argparse.Namespace) -> int:
    """Serve until stdin ends or a signal arrives. Exit code 1: it cannot start; 2: the file is invalid."""
    db, address = args.db, args.http
    if args.config is not None:
        from ....config.resources_config import load_resources_config

        config = load_resources_config(args.config)
        db, address = db or config.db_path, address or (config.host, config.port)
    if db is None:
        args.command.error("--db or --config is required")
        return WRONG
    if address is not None:
        danger = "change the stored values"
        warn_if_reachable(address[0], "stopgo mcp-resources", ", and there is no authentication:", danger)
    return _serve(db, address)


def _serve(db: Path, address: tuple[str, int] | None) -> int:
    import trio

    # Imported here, because they load the MCP SDK, which takes a second.
    from ...servers.resource_store import ResourceStore
    from ...servers.resources import resource_server
    from ...servers.serving import serve_stdio

    try:
        store = ResourceStore(db)
    except (sqlite3.Error, OSError) as error:
        return _fail(f"cannot use the database {db}: {error}")
    server = resource_server(store)
    try:
        if address is not None:
            return _serve_http(server, address)
        trio.run(serve_stdio, server)
    finally:
        store.close()
    return 0


def _serve_http(server: Server[Any], address: tuple[str, int]) -> int:
    import trio

    from ....actors.common.errors import sentences
    from ...http.http_server import BindError
    from ...servers.serving import serve_http

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
