"""`stopgo completion`: prints the completion script of a shell."""

from __future__ import annotations

import argparse


def register(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], root: argparse.ArgumentParser
) -> None:
    """Add `completion` to the command line. `root`: the parser of the whole command line."""
    completion = subparsers.add_parser(
        "completion",
        help="print the completion script of a shell",
        description='For bash: eval "$(stopgo completion bash)". For zsh: save the output as _stopgo in a '
        "folder of $fpath.",
    )
    completion.add_argument("shell", choices=("bash", "zsh"))
    completion.set_defaults(run=lambda args: _print(root, args.shell))


def _print(root: argparse.ArgumentParser, shell: str) -> int:
    import shtab

    from ..process.options import path

    _complete_files(root, path)
    print(shtab.complete(root, shell))
    return 0


def _complete_files(parser: argparse.ArgumentParser, path: object) -> None:
    """Complete the names of files and folders wherever an argument of a command is a path."""
    import shtab

    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _complete_files(command, path)
        elif action.type is path:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
