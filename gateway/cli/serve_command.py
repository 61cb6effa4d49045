"""`stopgo serve`: one agent over HTTP, until it is told to stop."""

from __future__ import annotations

import argparse
import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING

from ..loopback import is_loopback
from .options import WRONG, add_mcp_option, listen_host, listen_port, path
from .undumpable import make_undumpable

if TYPE_CHECKING:
    from ...config.agent_config import AgentConfig


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `serve` to the command line."""
    serve = subparsers.add_parser("serve", help="serve an agent over HTTP")
    serve.add_argument(
        "--config",
        type=path,
        metavar="FILE",
        help="the agent file; default: config/agent.yaml, else the one that comes with the package",
    )
    serve.add_argument("--host", type=listen_host, help="address to listen on, in place of the file's")
    serve.add_argument("--port", type=listen_port, help="port to listen on, in place of the file's; 0: any")
    serve.add_argument(
        "--data-dir", type=path, metavar="DIR", help="where everything durable lives, in place of the file's"
    )
    serve.add_argument("--model", metavar="PROVIDER:NAME", help="model of every node, in place of the file's")
    serve.add_argument(
        "--record",
        type=path,
        metavar="DIR",
        help="write what the models say in each conversation to DIR, as a file for --model script:FILE",
    )
    add_mcp_option(serve)
    serve.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal comes.

    Exit code 0 after an orderly shutdown, 128 + signal after a hurried one, 2 for a configuration that
    cannot be used, 1 when the agent cannot start or has to stop.
    """
    from ...config.errors import ConfigError
    from ...config.load import load_config

    make_undumpable()
    try:
        config = load_config(args.config, data_dir=args.data_dir, model=args.model, mcp=args.mcp)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return WRONG
    host = config.host if args.host is None else args.host
    port = config.port if args.port is None else args.port

    # The command line answers at once; what serves takes a second to import.
    from ..serve_process import run_process
    from .terminal import printable

    # A log in a pipe is followed line by line.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    _say_what_is_served(config, host)
    code, failures = run_process(config, host, port, args.record)
    for failure in failures:  # which a server may have written a part of
        print(printable(f"stopgo serve: {failure}"), file=sys.stderr)
    return code


def _say_what_is_served(config: AgentConfig, host: str) -> None:
    if config.packaged:
        print(f"no config/agent.yaml here: serving the agent that comes with the package, {config.source}")
    for warning in config.warnings:
        print(f"stopgo serve: warning: {warning}", file=sys.stderr)
    if not is_loopback(host):
        print(
            f"stopgo serve: warning: {host} can be reached from other machines, and there is no "
            "authentication: any client that reaches it can talk to the agent and approve what it asks for",
            file=sys.stderr,
        )
        if not config.server.allowed_hosts and config.server.public_url is None:
            print(
                "stopgo serve: warning: clients can reach it by its IP addresses only; for another name add "
                "to the agent file: `server: {allowed_hosts: [NAME]}`",
                file=sys.stderr,
            )
