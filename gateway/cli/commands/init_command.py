"""`stopgo init`: writes a commented agent file to start from."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from ....config.text.errors import ConfigError
from ..process.options import FAILED, WRONG, path

DEFAULT = Path("agent.yaml")
_DEMO_MODEL = "offline:rules"
_RULE = "tools that may do harm, and tools that do not say, ask a person first (approval.defaults: strict)"
_PURPOSE = re.compile(
    r"# The default agent.*?\n|^name: .*?(?=^# Only this machine)", re.DOTALL | re.MULTILINE
)
_SERVERS = re.compile(r"^mcp_servers:\n.*?(?=^ +#- name: remote)", re.DOTALL | re.MULTILINE)
_OWN_PURPOSE = """\
name: my-agent
description: ""

# The system prompt: the first message of every conversation.
prompt: |
  You help with the tools that you have.

  - When a value that a tool needs is missing, ask for it. Never make one up.
  - Some calls wait for a person to approve them. When one is rejected, say so, and do not try again.
  - Report what the tools returned, briefly.

# What the page offers to try before the first message.
examples:
  - What can you do?

"""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `init` to the command line."""
    init = subparsers.add_parser(
        "init",
        help="write a commented agent file to start from",
        description="Writes an agent file, with comments about what to change, which the other commands find "
        "when they are started beside it. In a terminal it asks for what the options do not say; the "
        "defaults are the model and the tool server of the demo, which need no key. The file is strict: "
        f"{_RULE}.",
    )
    init.add_argument(
        "file", type=path, nargs="?", default=DEFAULT, metavar="FILE", help=f"default: {DEFAULT}"
    )
    init.add_argument("--model", metavar="PROVIDER:NAME", help=f"the model; default: {_DEMO_MODEL}")
    init.add_argument(
        "--mcp",
        action="append",
        metavar="[LABEL:]COMMAND-OR-URL",
        help="a tool server with this name; may be repeated; default: the resources of the demo",
    )
    init.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the file. Exit code 1 if it exists or cannot be written, 2 for a wrong model or server."""
    model, servers = args.model, args.mcp
    if sys.stdin.isatty() and sys.stdout.isatty() and not args.file.exists():
        if model is None:
            model = _answer(f"Model, as provider:name [{_DEMO_MODEL}]: ")
        if servers is None:
            asked = "Tool servers, as commands or URLs with a comma between [the demo's resources]: "
            servers = [each for each in map(str.strip, _answer(asked).split(",")) if each]
    try:
        text = agent_file(model or "", servers or ())
    except (ConfigError, ValueError) as error:
        print(f"stopgo init: {error}", file=sys.stderr)
        return WRONG
    code = write_new(args.file, text, "stopgo init")
    if code == 0:
        print(f"In this file, {_RULE}.")
    return code


def agent_file(model: str, servers: Sequence[str]) -> str:
    """The text of an agent file: that of the demo, with another model or other servers if they are given.

    Raises:
        ValueError: the model has no provider.
        ConfigError: a server is neither a command nor a URL.
    """
    import yaml

    from ....config.reading.mcp_flag import flag_servers
    from ....config.sections.models import parse_model
    from ....config.text.interpolate import escape

    text = files("stopgo.config").joinpath("agent.yaml").read_text(encoding="utf-8")
    if model:
        parse_model(model)
        line = _yaml(f"${{STOPGO_MODEL:-{model}}}" if re.fullmatch(r"[^${}]+", model) else escape(model))
        text = text.replace('"${STOPGO_MODEL:-offline:rules}"', line)
    if servers:
        entries = []
        for server in flag_servers(servers, ()):
            entry: dict[str, object] = {"name": server.name}
            if server.url is not None:
                entry["url"] = escape(server.url)
            else:
                entry |= {"command": escape(server.command or ""), "args": [*map(escape, server.args)]}
            entries.append(entry)
        written = yaml.safe_dump({"mcp_servers": entries}, sort_keys=False, allow_unicode=True)
        written = re.sub(r"^(?=[- ])", "  ", written, flags=re.MULTILINE)
        text = _SERVERS.sub(lambda _: written, text)
        text = _PURPOSE.sub(
            lambda found: _OWN_PURPOSE if found[0].startswith("name") else "# An agent.\n", text
        )
        text = text.replace("{tool: resources_add, then: run}", '{tool: "*_list", then: run}')
    return text


def _yaml(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)


def _answer(question: str) -> str:
    """The answer of the person at the terminal; empty at its end."""
    try:
        return input(question).strip()
    except EOFError:
        print()
        return ""


def write_new(file: Path, text: str, command: str, *, secret: bool = False) -> int:
    """Write a new agent file, and say what to do next. Exit code 1 if it exists, or cannot be written.

    `secret`: whether only the owner may read it.
    """
    from ....config.load import DEFAULT_FILES, locate

    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with open(os.open(file, flags, 0o600 if secret else 0o666), "w", encoding="utf-8") as written:
            written.write(text)
    except OSError as error:
        why = "it exists, and is not replaced" if isinstance(error, FileExistsError) else error.strerror
        print(f"{command}: cannot write {file}: {why}", file=sys.stderr)
        return FAILED
    is_found = locate(None, *DEFAULT_FILES)[0] == file
    print(f"wrote {file}. Next:")
    print("  stopgo config check" + ("" if is_found else f" {shlex.quote(str(file))}"))
    print("  stopgo serve" + ("" if is_found else f" --config {shlex.quote(str(file))}"))
    return 0
