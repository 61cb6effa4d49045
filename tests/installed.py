"""A program of `tests/matrix.py`, run in an environment with the wheel, with warnings as errors.

It imports every module and prints the help of every command. The arguments are libraries that are not
installed: modules that need one of them are left out.
"""

from __future__ import annotations

import argparse
import importlib
import io
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress

import stopgo
from stopgo.gateway.cli import main


def import_all(missing: set[str]) -> int:
    """Import every module, and return their number."""
    count = 0
    for module in pkgutil.walk_packages(stopgo.__path__, "stopgo."):
        try:
            if not module.name.endswith(".__main__"):
                importlib.import_module(module.name)
                count += 1
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in missing:
                raise
    return count


def commands(parser: argparse.ArgumentParser, *words: str) -> Iterator[tuple[str, ...]]:
    """The words of every command below this parser."""
    yield words
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from commands(below, *words, name)


def show_help(words: tuple[str, ...]) -> None:
    with redirect_stdout(io.StringIO()) as shown, suppress(SystemExit):
        main.main([*words, "--help"])
    assert shown.getvalue().startswith(f"usage: stopgo {' '.join(words)}".rstrip()), words


if __name__ == "__main__":
    modules = import_all(set(sys.argv[1:]))
    told = list(commands(main._parser()))
    for each in told:
        show_help(each)
    print(f"{modules} modules, {len(told)} helps, {stopgo.__file__}")
