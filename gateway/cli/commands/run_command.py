"""`stopgo run`: one turn from the command line, with the same agent, journal and approvals as `serve`."""

from __future__ import annotations

import argparse

from ..process.options import (
    WRONG,
    add_config_option,
    add_journal_option,
    add_mcp_option,
    add_override_options,
    agent_config,
    is_installed,
)
from ..process.undumpable import make_undumpable

_EPILOG = (
    "Progress goes to stderr, the answer to stdout; at a terminal, texts are shown as they stream. "
    "Approvals are decided at the terminal. Exit codes: 0 finished, 1 failed, 2 wrong configuration or "
    "message, 3 waits for a decision, 130 cancelled."
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `run` to the command line."""
    command = subparsers.add_parser(
        "run", help="send an agent one message and print its answer", epilog=_EPILOG
    )
    add_config_option(command)
    add_override_options(command)
    add_journal_option(command)
    add_mcp_option(command)
    command.add_argument(
        "--conversation", metavar="ID", help="continue this conversation of the data directory"
    )
    command.add_argument("message", metavar="MESSAGE", help="the message")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run one turn of a conversation, which is kept in the data directory. Exit codes: see the help."""
    make_undumpable()
    config = agent_config(args, with_overrides=True)

    # Imported here, because the agent takes a second to import.
    from .run_process import run_process

    given = {"--config": args.config, "--data-dir": args.data_dir, "--model": args.model}
    options = [part for name, value in given.items() if value is not None for part in (name, str(value))]
    if args.journal is not None and not is_installed("postgres", "run"):
        return WRONG
    options += [part for value in args.mcp for part in ("--mcp", value)]
    return run_process(config, args.journal, args.conversation, args.message, options)
