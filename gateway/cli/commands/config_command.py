"""`stopgo config`: checks agent files, prints their JSON Schema, imports the servers of other MCP clients."""

from __future__ import annotations

import argparse

from ..process.options import path


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `config schema`, `config check` and `config import` to the command line."""
    config = subparsers.add_parser(
        "config", help="check an agent file, print its JSON Schema, import servers"
    )
    commands = config.add_subparsers(required=True, metavar="COMMAND")

    schema = commands.add_parser("schema", help="print the JSON Schema of agent files")
    schema.set_defaults(run=print_schema)

    check = commands.add_parser(
        "check",
        help="report every mistake in an agent file",
        description="Reports every mistake in an agent file, and checks the scripts, commands, files, "
        "variables and API keys that it names. Starts and contacts nothing. Exit code: 2 if the file cannot "
        "be used.",
    )
    check.add_argument(
        "file",
        type=path,
        metavar="FILE",
        nargs="?",
        help="agent file; default: config/agent.yaml, else agent.yaml, else the file of the package",
    )
    check.set_defaults(run=check_file)

    pasted = commands.add_parser(
        "import",
        help="write an agent file for the servers of another MCP client",
        description="Writes an agent file for the servers in a file of another MCP client, such as mcp.json "
        "or claude_desktop_config.json, with comments about all that it could not take over. A secret "
        "becomes a variable. Exit code: 2 if the file has no servers.",
    )
    pasted.add_argument("file", type=path, metavar="FILE", help="JSON, with comments or without, or YAML")
    pasted.add_argument(
        "--output",
        type=path,
        metavar="FILE",
        help="agent file to write, which must not exist; default: stdout",
    )
    pasted.add_argument(
        "--keep-secrets", action="store_true", help="write keys and passwords as they are, in the clear"
    )
    pasted.set_defaults(run=import_file)


def print_schema(args: argparse.Namespace) -> int:
    """Print the JSON Schema."""
    from .config_process import run_schema

    return run_schema()


def check_file(args: argparse.Namespace) -> int:
    """Check a file."""
    from .config_process import run_check

    return run_check(args.file)


def import_file(args: argparse.Namespace) -> int:
    """Import a file."""
    from .config_process import run_import

    return run_import(args.file, args.output, keep_secrets=args.keep_secrets)
