"""`stopgo approvals`: list, show and decide the approvals of a running agent."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..process.options import add_token_option, add_url_option, wrong

_EPILOG = (
    "The command ends when the decision is stored; it does not wait for the run. Exit codes: 0 done, 1 "
    "refused or not reached, 2 wrong usage or unknown approval, 4 too late: already decided, expired or "
    "void."
)

_TAKES = {
    "list": (),
    "show": (),
    "approve": ("reason", "by", "arguments"),
    "reject": ("reason", "by"),
    "respond": ("reason", "by", "result"),
    "retry": ("reason", "by"),
    "done": ("reason", "by", "result"),
    "failed": ("reason", "by"),
}
"""The options of each action."""
_OPTIONS = tuple(dict.fromkeys(option for options in _TAKES.values() for option in options))


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `approvals` to the command line."""
    command = subparsers.add_parser(
        "approvals",
        help="list and decide the approvals of a running agent",
        description="Lists the pending approvals of a running agent, shows one, or decides one.",
        epilog=_EPILOG,
    )
    command.add_argument(
        "action",
        nargs="?",
        choices=tuple(_TAKES),
        default="list",
        help="default: list. For an elicitation, approve accepts and reject declines. respond "
        "answers the model in place of a call, which is not sent. retry, done and failed "
        "decide about a call whose outcome is unknown",
    )
    command.add_argument(
        "id", nargs="?", metavar="ID", help="id of an approval; of a pending one, the beginning is enough"
    )
    add_url_option(command)
    add_token_option(command)
    command.add_argument("--json", action="store_true", help="print the JSON of the HTTP API")
    command.add_argument(
        "--reason",
        metavar="TEXT",
        help="reason for the decision; models see that of a rejection and of failed",
    )
    command.add_argument(
        "--result",
        metavar="TEXT",
        help="with done: the result of the call, for the model; with respond: the text in its place",
    )
    command.add_argument("--by", metavar="NAME", help="name of the person who decides, for the record")
    command.add_argument(
        "--arguments",
        type=_arguments,
        metavar="JSON",
        help="approve with these arguments instead of all that are shown, or answer an elicitation; @FILE "
        "reads them from a file",
    )
    command.set_defaults(run=run, command=command)


def run(args: argparse.Namespace) -> int:
    """List, show or decide. Exit codes: see the help."""
    given = {name: value for name in _OPTIONS if (value := getattr(args, name)) is not None}
    if (args.id is None) != (args.action == "list"):
        return wrong(args, f"{args.action} takes {'an' if args.id is None else 'no'} ID")
    for name in given:
        if name not in _TAKES[args.action]:
            return wrong(args, f"{args.action} does not take --{name}")

    from .approvals_process import run_approvals

    return run_approvals(args, given)


def _arguments(text: str) -> dict[str, Any]:
    """The type of `--arguments`."""
    from ....runtime.json_text import load_edge

    try:
        arguments = load_edge(Path(text[1:]).read_bytes() if text.startswith("@") else text)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{text[1:]} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise argparse.ArgumentTypeError("not a JSON object: {...}")
    return arguments
