"""`stopgo init`: writes a commented agent file to start from."""

from __future__ import annotations

import argparse
import shlex
import sys
from importlib.resources import files
from pathlib import Path

from .options import FAILED, path

DEFAULT = Path("agent.yaml")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `init` to the command line."""
    init = subparsers.add_parser(
        "init",
        help="write a commented agent file to start from",
        description="Writes an agent file that works without a key, with comments about what to change.",
    )
    init.add_argument(
        "file", type=path, nargs="?", default=DEFAULT, metavar="FILE", help=f"default: {DEFAULT}"
    )
    init.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the file. Exit code 1 if it exists, or cannot be written."""
    text = files("stopgo.config").joinpath("agent.yaml").read_text(encoding="utf-8")
    return write_new(args.file, text, "stopgo init")


def write_new(file: Path, text: str, command: str) -> int:
    """Write a new agent file, and say what to do next. Exit code 1 if it exists, or cannot be written."""
    try:
        with file.open("x", encoding="utf-8") as written:
            written.write(text)
    except OSError as error:
        why = "it exists, and is not replaced" if isinstance(error, FileExistsError) else error.strerror
        print(f"{command}: cannot write {file}: {why}", file=sys.stderr)
        return FAILED
    quoted = shlex.quote(str(file))
    print(f"wrote {file}. Next:")
    print(f"  stopgo config check {quoted}")
    print(f"  stopgo serve --config {quoted}")
    return 0
