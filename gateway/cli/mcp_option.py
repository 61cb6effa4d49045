"""The option `--mcp` of the commands that run an agent."""

from __future__ import annotations

import argparse


def add_mcp_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mcp",
        action="append",
        default=[],
        metavar="[LABEL:]COMMAND-OR-URL",
        help="a further tool server, offered to models as one tool; may be repeated. The tool is called "
        "mcp_LABEL; without a label mcp, mcp2, ... by position",
    )
