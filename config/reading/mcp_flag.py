"""Tool servers from the command line: `--mcp [label:]command-or-url`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from pathlib import Path

from ..sections.mcp import McpServerConfig, plain_server_name
from ..sections.secrets import shown_address
from ..text.errors import ConfigError, Problem

FLAG = "--mcp"

_LABEL = re.compile(r"(?P<label>[A-Za-z0-9_-]+):(?!//)(?P<rest>.*)", re.DOTALL)
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://\S+")
_EXPECTED = "expected [label:]command-or-url"


def flag_servers(values: Iterable[str], taken: Iterable[str]) -> tuple[McpServerConfig, ...]:
    """The servers of a repeated `--mcp`, each offered to models as one tool, its server facade.

    The label is the name of the server: `fs` has the facade `mcp_fs`. Without a label, the name and the
    facade are `mcp`, `mcp2` or `mcp3`, by position. A scheme is not a label: `http://...` is a URL.

    Args:
        taken: names of other servers.

    Raises:
        ConfigError: with all problems.
    """
    names = dict.fromkeys(map(plain_server_name, taken))
    servers: list[McpServerConfig] = []
    problems: list[Problem] = []
    for index, value in enumerate(values):
        labelled = _LABEL.fullmatch(value.strip())
        if labelled is not None and labelled["label"].lower() in ("http", "https"):
            labelled = None
        number = "" if index == 0 else str(index + 1)
        name = labelled["label"] if labelled else f"mcp{number}"
        target = labelled["rest"] if labelled else value
        try:
            server = _server(name, target.strip(), f"mcp_{name}" if labelled else name)
        except ValueError as error:
            problems.append(Problem("bad_format", str(error), FLAG, key=name))
            continue
        if name in names:
            problems.append(
                Problem("duplicate_name", "there is already a server of this name", FLAG, key=name)
            )
        names[name] = None
        servers.append(server)
    if problems:
        raise ConfigError(tuple(problems))
    return tuple(servers)


def _server(name: str, target: str, facade: str) -> McpServerConfig:
    """Raises ValueError with a sentence for the error."""
    if url := _URL.fullmatch(target):
        if url["scheme"].lower() not in ("http", "https"):
            raise ValueError(f"expected an http:// or https:// address, found {url['scheme']}://")
        return McpServerConfig(
            name=name, url=target, expose="server", facade=facade, as_written=shown_address((target,))
        )
    try:
        words = shlex.split(target)
    except ValueError as error:
        raise ValueError(f"{_EXPECTED}; the command cannot be split into words: {error}") from error
    if not words or not words[0]:
        raise ValueError(_EXPECTED)
    command = words[0]
    # As in a shell, a path is relative to the working directory, and a bare name is looked up on PATH.
    path = str(Path(command).absolute()) if "/" in command else command
    return McpServerConfig(
        name=name, command=path, args=tuple(words[1:]), expose="server", facade=facade, as_written=command
    )
