"""The environment of tool servers on this machine: executables and the variables of an `env_file`."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from ....config.sections.mcp import McpServerConfig


class NotLaunchable(Exception):
    """The command of a server cannot be run as configured; the text says why."""


class CommandNotFound(NotLaunchable):
    """No executable file has that name."""


def launch(config: McpServerConfig) -> tuple[str, dict[str, str]]:
    """Return the path of the executable of a server, and the variables of its `env_file`.

    Reads files. Raises:
        NotLaunchable: the command does not exist, its `env_file` is invalid, or its `cwd` is not a directory.
    """
    assert config.command is not None
    variables = {} if config.env_file is None else read_env_file(config.env_file)
    path = find_command(config.command, search_path=(variables | dict(config.env)).get("PATH"))
    try:
        if config.cwd is not None and not S_ISDIR(config.cwd.stat().st_mode):
            raise NotLaunchable(f"cwd {config.cwd}: Not a directory")
    except OSError as error:
        raise NotLaunchable(f"cwd {config.cwd}: {error.strerror}") from error
    return path, variables


def find_command(command: str, *, search_path: str | None = None) -> str:
    """Return the path of the executable that a `command` names.

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


# ----------------------------------------------------------------- env_file

_ASSIGNMENT = re.compile(r"(?:export\s+)?([^\s=]+)\s*=\s*(.*)", re.DOTALL)
_QUOTED = re.compile(r"""(?:"((?:[^"\\]|\\.)*)"|'([^']*)')\s*(?:#.*)?""", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class EnvFileError(NotLaunchable):
    """The file cannot be read or parsed; the text names the place and no value."""


def read_env_file(path: Path) -> dict[str, str]:
    """Return the variables of a file of `KEY=VALUE` lines.

    Raises:
        EnvFileError
    """
    try:
        if not S_ISREG(path.stat().st_mode):  # reading a pipe could block forever
            raise EnvFileError(f"env_file {path}: not a file")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise EnvFileError(f"env_file {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise EnvFileError(f"env_file {path}: not UTF-8 text") from None
    try:
        return parse_env(text)
    except EnvFileError as error:
        raise EnvFileError(f"env_file {path}, {error}") from None


def parse_env(text: str) -> dict[str, str]:
    """Return the variables in `KEY=VALUE` lines. `#` begins a comment; the last value of a key counts.

    In double quotes a value may hold `\\n`, `\\t`, `\\r`, `\\"` and `\\\\`; in single quotes it is literal.
    A value without quotes ends at ` #`, and white space around it is removed.

    Raises:
        EnvFileError: a line cannot be parsed.
    """
    variables: dict[str, str] = {}
    for number, line in enumerate(re.split("\r\n|\n|\r", text), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        assignment = _ASSIGNMENT.fullmatch(stripped)
        if assignment is None:
            raise EnvFileError(f"line {number}: expected KEY=VALUE")
        key, written = assignment.groups()
        value = _value(written)
        if value is None or "\0" in key + value:
            raise EnvFileError(f"line {number}: the value of {key} is not understood")
        variables[key] = value
    return variables


def _value(written: str) -> str | None:
    if not written.startswith(('"', "'")):
        return re.split(r"\s+#|^#", written, maxsplit=1)[0].strip()
    quoted = _QUOTED.fullmatch(written)
    if quoted is None:
        return None
    double, single = quoted.groups()
    if double is None:
        return str(single)
    return _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), double)
