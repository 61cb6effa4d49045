"""`stopgo a2a`: inspects remote agents, and sends them messages."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ....config.sections.address import HEADERS, authorizes
from ..process.options import add_token_option, credential_headers, token_of, wrong

if TYPE_CHECKING:
    from ....config.sections.a2a import RemoteAgentConfig

_EPILOG = (
    "Progress goes to stderr, the answer to stdout. Questions of the agent are answered at the terminal. "
    "Exit codes: 0 completed, 1 failed or not reached, 2 wrong usage, 3 waits for a decision or a token, "
    "130 cancelled."
)


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `a2a` to the command line."""
    a2a = subparsers.add_parser("a2a", help="inspect remote agents, send them messages")
    commands = a2a.add_subparsers(required=True, metavar="COMMAND")
    card = commands.add_parser(
        "card",
        help="print the card of an agent",
        description="Finds the card of an agent as a delegation does, and prints it with the interface that "
        "a delegation would use. Exit code: 1 if the agent cannot be reached, or its card cannot be used.",
    )
    send = commands.add_parser("send", help="send a message to an agent, print its answer", epilog=_EPILOG)
    for command, run in ((card, show_card), (send, send_message)):
        command.add_argument(
            "url",
            type=_url,
            metavar="URL",
            help="address of the agent, of its card (ending with .json), or of the host that serves the card",
        )
        command.add_argument(
            "--header",
            type=_header,
            action="append",
            default=[],
            metavar="NAME:VALUE",
            help="header of every HTTP request; may be repeated",
        )
        command.set_defaults(run=run, command=command)
    card.add_argument("--json", action="store_true", help="print the card as received")
    send.add_argument("message", metavar="MESSAGE", help="the message")
    add_token_option(send)
    send.add_argument(
        "--timeout",
        type=_seconds,
        metavar="S",
        help="seconds to wait until the agent has ended or asks; default: 600",
    )


def show_card(args: argparse.Namespace) -> int:
    """Print the card of an agent."""
    from .agent_card_report import run_card

    return run_card(_config(args), as_json=args.json)


def send_message(args: argparse.Namespace) -> int:
    """Send a message and follow its task."""
    config, bearer = _config(args), token_of(args)
    if bearer is not None and authorizes(config.headers):
        return wrong(args, "--token-env and an Authorization header exclude each other")
    if not args.message.strip():
        return wrong(args, "the message is empty")

    from .send_process import run_send

    return run_send(config, args.message, bearer, args.token_env)


def _config(args: argparse.Namespace) -> RemoteAgentConfig:
    """The entry that an agent file would have for the agent, with the host as its name.

    Raises WrongUsage if the variable of the API key has no valid key.
    """
    from ....config.sections.a2a import EXCHANGE_TIMEOUT, RemoteAgentConfig

    headers = dict(args.header)
    if not any(name.lower() == "x-api-key" for name in headers):
        headers |= credential_headers()
    return RemoteAgentConfig(
        name=urlsplit(args.url).netloc,
        url=args.url,
        headers=headers,
        timeout=getattr(args, "timeout", None) or EXCHANGE_TIMEOUT,
    )


def _url(text: str) -> str:
    """The type of the argument `URL`."""
    from ....actors.a2a.wire.card_reader import origin_of

    try:
        origin_of(text)
        urlsplit(text)
    except ValueError:
        raise argparse.ArgumentTypeError("not a valid address; example: http://127.0.0.1:8080") from None
    return text


def _header(text: str) -> tuple[str, str]:
    """The type of `--header`. The error does not quote the value, which may be an API key."""
    name, colon, value = text.partition(":")
    name, value = name.strip(), value.strip()
    names, values = HEADERS["keys"].pattern, HEADERS["items"].pattern
    if not (colon and names and values and re.fullmatch(names, name) and re.fullmatch(values, value)):
        raise argparse.ArgumentTypeError("not a header; example: X-Api-Key:VALUE")
    return name, value


def _seconds(text: str) -> float:
    """The type of `--timeout`."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 86_400:
        raise argparse.ArgumentTypeError("not a number of seconds above 0 and up to 86400")
    return seconds
