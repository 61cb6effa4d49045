"""The environment variables a stdio server gets beside the few that are safe to inherit."""

from __future__ import annotations

import re
from pathlib import Path
from stat import S_ISREG

_ASSIGNMENT = re.compile(r"(?:export\s+)?([^\s=]+)\s*=\s*(.*)", re.DOTALL)
_QUOTED = re.compile(r"""(?:"((?:[^"\\]|\\.)*)"|'([^']*)')\s*(?:#.*)?""", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class EnvFileError(Exception):
    """The file cannot be read, or not be understood; the text names the place and no value."""


def read_env_file(path: Path) -> dict[str, str]:
    """The variables of a file of `KEY=VALUE` lines.

    Raises:
        EnvFileError: see there.
    """
    try:
        if not S_ISREG(path.stat().st_mode):  # to read a pipe could take for ever
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
    """Variables out of `KEY=VALUE` lines; `#` begins a comment, the last value of a key counts.

    A value in double quotes knows `\\n`, `\\t`, `\\r`, `\\"` and `\\\\`; one in single quotes is taken as it
    is. Without quotes it ends at ` #`, and white space around it is not part of it.

    Raises:
        EnvFileError: a line is not understood.
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
