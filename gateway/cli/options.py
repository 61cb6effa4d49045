"""Options, arguments and exit codes that several commands have."""

from __future__ import annotations

import argparse
from pathlib import Path

FAILED = 1
WRONG = 2
"""Exit code: the configuration, or what was asked, is wrong."""
WAITING = 3
"""Exit code: the run waits for a decision or a token."""


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
