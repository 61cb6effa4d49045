"""Options, arguments and exit codes that several commands have."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

FAILED = 1
WRONG = 2
"""Exit code: the configuration, or what was asked, is wrong."""
WAITING = 3
"""Exit code: the run waits for a decision or a token."""

URL = "http://127.0.0.1:8080"
"""Where `stopgo serve` listens by default."""


def add_url_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", type=_url, default=URL, help=f"where the agent listens; default: {URL}")


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise argparse.ArgumentTypeError("not a valid address; example: http://127.0.0.1:8080")
    return text.rstrip("/")


def add_token_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--token-env", metavar="VAR", help="the environment variable with the bearer token to send"
    )


def token_of(args: argparse.Namespace) -> str | None:
    """The bearer token to send. Raises ValueError when the variable has none."""
    if args.token_env is None:
        return None
    token = os.environ.get(args.token_env)
    if not token:
        raise ValueError(f"the environment variable {args.token_env} is not set")
    if not re.fullmatch("[!-~]+", token):
        raise ValueError(f"the environment variable {args.token_env} does not contain a valid token")
    return token


def add_mcp_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mcp",
        action="append",
        default=[],
        metavar="[LABEL:]COMMAND-OR-URL",
        help="a further tool server, offered to models as one tool; may be repeated. The tool is called "
        "mcp_LABEL; without a label mcp, mcp2, ... by position",
    )


def path(text: str) -> Path:
    """The type of an argument that is a path. An empty one, as of a shell variable that is not set, would
    be the working directory."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty")
    return Path(text)


def listen_host(text: str) -> str:
    """The type of an argument that is an address to listen on."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty; 0.0.0.0 stands for every address of this machine")
    return text


def listen_port(text: str) -> int:
    """The type of an argument that is a port to listen on."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return int(text)
