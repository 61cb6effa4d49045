"""`stopgo web`: the page of an agent, served beside it, until it is told to stop."""

from __future__ import annotations

import argparse
import sys
from io import TextIOWrapper

from ..loopback import is_loopback
from .options import WRONG, listen_host, listen_port, path
from .undumpable import make_undumpable


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `web` to the command line."""
    web = subparsers.add_parser(
        "web",
        help="serve the page of an agent at an address of its own",
        description="Serves the page of an agent that runs elsewhere, and passes on what the page asks for.",
    )
    web.add_argument(
        "--config",
        type=path,
        metavar="FILE",
        help="the web file; default: config/web.yaml, else the one that comes with the package",
    )
    web.add_argument("--host", type=listen_host, help="address to listen on, in place of the file's")
    web.add_argument("--port", type=listen_port, help="port to listen on, in place of the file's; 0: any")
    web.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal comes.

    Exit code 0 after an orderly shutdown, 128 + signal after a hurried one, 2 for a file that cannot be used,
    1 when the address cannot be listened on.
    """
    from ...config.errors import ConfigError
    from ...config.web_config import load_web_config

    make_undumpable()
    try:
        config = load_web_config(args.config)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return WRONG
    host = config.host if args.host is None else args.host
    port = config.port if args.port is None else args.port

    from ..proxy.web_process import run_web

    # A log in a pipe is followed line by line.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    if config.packaged:
        print(f"no config/web.yaml here: using the one that comes with the package, {config.source}")
    if not is_loopback(host):
        print(
            f"stopgo web: warning: {host} can be reached from other machines, and there is no "
            "authentication: any client that reaches it can talk to the agent and approve what it asks for",
            file=sys.stderr,
        )
    code, failures = run_web(config, host, port)
    for failure in failures:
        print(f"stopgo web: {failure}", file=sys.stderr)
    return code
