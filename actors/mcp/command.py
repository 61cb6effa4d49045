"""Where the executable of a stdio server is found."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


class CommandNotFound(Exception):
    """There is no executable file of that name."""


def find_command(command: str, *, search_path: str | None = None) -> str:
    """Return the path of the executable a `command` means.

    A bare name is looked up beside the running interpreter first, so that `stopgo` and `python`
    mean this installation whether or not its environment is activated; then on `search_path`
    (default: `PATH`). A command with a slash in it is a path already.

    Raises:
        CommandNotFound: nothing executable is there.
    """
    hint = "; its arguments go into args" if " " in command else ""
    if os.sep in command:
        found = shutil.which(command)
        if found is None:
            raise CommandNotFound(f"command not found: {command} (no executable file at that path{hint})")
        return found
    beside = Path(sys.executable).parent
    found = shutil.which(command, path=str(beside)) or shutil.which(command, path=search_path)
    if found is None:
        raise CommandNotFound(f"command not found: {command} (looked in {beside}, then on PATH{hint})")
    return found
