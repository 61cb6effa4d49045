"""The `stopgo` command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line. Exit codes: 2 if it or the configuration is wrong, 1 if the command failed."""
    if os.getpid() == 1:
        from .process.init_process import leave_init

        leave_init()
    try:
        try:
            code = _run(_parser().parse_args(argv))
        finally:
            # Flush here, because a failure at exit would print a traceback.
            if sys.stdout is not None:
                sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except OSError as error:
        code = 1
        sys.stdout = None  # otherwise it would be flushed again at exit
        if not isinstance(error, BrokenPipeError):  # then the reader has closed the pipe on purpose
            print(f"stopgo: {error.strerror or error}", file=sys.stderr)
    return code


def _run(args: argparse.Namespace) -> int:
    from ...config.text.errors import ConfigError
    from .process.options import WRONG, WrongUsage, wrong

    try:
        code: int = args.run(args)
    except ConfigError as error:
        print(error, file=sys.stderr)
        code = WRONG
    except WrongUsage as error:
        code = wrong(args, str(error))
    return code


_NO_COMMAND = "the following arguments are required: COMMAND"
"""The message of argparse if only the command is missing."""


class _Parser(argparse.ArgumentParser):
    """Reports unknown arguments with the name of the command, and refers to its help. Prints the help if the
    command is missing."""

    def parse_known_args(self, *args: Any, **named: Any) -> Any:
        known, unknown = super().parse_known_args(*args, **named)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown

    def error(self, message: str) -> NoReturn:
        if message == _NO_COMMAND:
            self.print_help(sys.stderr)
            self.exit(2)
        super().error(f"{message} (see {self.prog} --help)")


class _Version(argparse.Action):
    """Prints the version, which takes longer to find out than everything that a help needs."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from importlib.metadata import version

        print(f"stopgo {version('agent-stop-and-go')}")
        parser.exit()


def _root() -> argparse.ArgumentParser:
    return _Parser(
        prog="stopgo",
        description="An agent runtime that stops before a tool call can do harm, asks a person, and "
        "continues after the answer.",
    )


def _parser() -> argparse.ArgumentParser:
    # Imported here, so that Ctrl-C during the imports prints no traceback either.
    from .commands import (
        a2a_command,
        approvals_command,
        chat_command,
        completion_command,
        config_command,
        fleet_command,
        halt_command,
        init_command,
        journal_command,
        keys_command,
        mcp_command,
        mcp_resources_command,
        notify_command,
        policy_command,
        run_command,
        serve_command,
        tools_command,
        tree_command,
        web_command,
    )

    parser = _root()
    parser.add_argument("--version", action=_Version, help="show program's version number and exit")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    init_command.register(commands)
    serve_command.register(commands)
    web_command.register(commands)
    run_command.register(commands)
    chat_command.register(commands)
    approvals_command.register(commands)
    halt_command.register(commands)
    notify_command.register(commands)
    fleet_command.register(commands)
    keys_command.register(commands)
    journal_command.register(commands)
    config_command.register(commands)
    tree_command.register(commands)
    policy_command.register(commands)
    mcp_command.register(commands)
    tools_command.register(commands)
    a2a_command.register(commands)
    mcp_resources_command.register(commands)
    completion_command.register(commands, parser)
    return parser
