"""`stopgo web`: the page of an agent at a separate address, until a signal stops it."""

from __future__ import annotations

import argparse
import sys
from io import TextIOWrapper

from ..process.options import add_listen_options, add_log_options, path, warn_if_reachable
from ..process.undumpable import make_undumpable


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `web` to the command line."""
    web = subparsers.add_parser(
        "web",
        help="serve the page of an agent at a separate address",
        description="Serves the page of an agent that runs elsewhere, and forwards requests to the agent.",
    )
    web.add_argument(
        "--config",
        type=path,
        metavar="FILE",
        help="web file; default: config/web.yaml or, without it, the file of the package",
    )
    add_listen_options(web)
    add_log_options(web)
    web.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal comes.

    Exit codes: 0 after a graceful shutdown, 128 + signal after an immediate one, 2 if the file cannot be
    used, 1 if listening fails.
    """
    from ....config.web_config import load_web_config

    make_undumpable()
    config = load_web_config(args.config)
    host = config.host if args.host is None else args.host
    port = config.port if args.port is None else args.port

    from ...proxy.web_process import run_web

    # Otherwise readers of a pipe would get the log in blocks.
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    if config.packaged:
        print(f"no config/web.yaml here: using the one that comes with the package, {config.source}")
    warn_if_reachable(host, "stopgo web", "; if the agent has no `auth:`,")
    code, failures = run_web(config, host, port, args.log_format, args.log_level)
    for failure in failures:
        print(f"stopgo web: {failure}", file=sys.stderr)
    return code
