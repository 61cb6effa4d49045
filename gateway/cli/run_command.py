"""`stopgo run`: one turn from the command line, with the same agent, journal and approvals as `serve`."""

from __future__ import annotations

import argparse
import sys

from .options import WRONG, add_mcp_option, path
from .undumpable import make_undumpable

_EPILOG = (
    "Progress goes to stderr, the answer alone to stdout; at a terminal texts are shown while they come. "
    "Approvals are decided at the terminal. Exit codes: 0 finished, 1 failed, 2 wrong configuration or "
    "message, 3 waits for a decision, 130 cancelled."
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `run` to the command line."""
    command = subparsers.add_parser(
        "run", help="say one thing to an agent and print its answer", epilog=_EPILOG
    )
    command.add_argument(
        "--config",
        type=path,
        metavar="FILE",
        help="the agent file; default: config/agent.yaml, else the one that comes with the package",
    )
    command.add_argument(
        "--data-dir", type=path, metavar="DIR", help="where everything durable lives, in place of the file's"
    )
    command.add_argument(
        "--model", metavar="PROVIDER:NAME", help="model of every node, in place of the file's"
    )
    add_mcp_option(command)
    command.add_argument(
        "--conversation", metavar="ID", help="go on with this conversation of the data directory"
    )
    command.add_argument("message", metavar="MESSAGE", help="what to say")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run one turn of a conversation, which is kept in the data directory. Exit codes: see the help."""
    from ...config.errors import ConfigError
    from ...config.load import load_config

    make_undumpable()
    try:
        config = load_config(args.config, data_dir=args.data_dir, model=args.model, mcp=args.mcp)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return WRONG

    # The command line answers at once; what runs an agent takes a second to import.
    from .run_process import run_process

    given = {"--config": args.config, "--data-dir": args.data_dir, "--model": args.model}
    options = [part for name, value in given.items() if value is not None for part in (name, str(value))]
    options += [part for value in args.mcp for part in ("--mcp", value)]
    return run_process(config, args.conversation, args.message, options)
