"""`stopgo chat`: a conversation with a running agent in a terminal."""

from __future__ import annotations

import argparse
import os
import sys

from ..process.options import add_token_option, add_url_option, token_of, wrong

_EPILOG = (
    "Ctrl-C cancels the run, at a question after a confirmation. Ctrl-D leaves the chat; a run that was not "
    "cancelled continues. Exit codes: 0 the chat was closed, 1 the agent cannot be reached or refuses, 2 "
    "wrong usage, 143 terminated."
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `chat` to the command line."""
    command = subparsers.add_parser(
        "chat",
        help="chat with a running agent, decide its approvals",
        description="Opens a chat with a running agent in a terminal. /help lists the commands.",
        epilog=_EPILOG,
    )
    add_url_option(command)
    command.add_argument(
        "--conversation",
        metavar="ID",
        help="continue this conversation; the beginning of a recent id is enough",
    )
    add_token_option(command)
    command.set_defaults(run=run, command=command)


def run(args: argparse.Namespace) -> int:
    """Chat until the person leaves. Exit codes: see the help."""
    bearer = token_of(args)
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty()):
        terminal = "stdin and stdout must be a terminal"
        return wrong(args, f"{terminal}; otherwise use `stopgo run` and `stopgo approvals`")
    if os.environ.get("TERM", "dumb") == "dumb":
        return wrong(args, "TERM must name a terminal with cursor control")

    from .chat_process import run_chat

    return run_chat(args.url, args.conversation, bearer)
