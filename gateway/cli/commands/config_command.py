"""`stopgo config`: checks agent files, prints their JSON Schema, imports the servers of other MCP clients."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from ....config.checks.tree import rules_of
from ....config.load import load_config, read_text
from ....config.reading.pasted import read_pasted
from ....config.reading.pasted_file import agent_file
from ....config.reading.schema import json_schema
from ....config.sections.agent_config import AgentConfig
from ....config.sections.mcp import McpServerConfig
from ....config.sections.models import reachable_models, resolve_model
from ....config.text.compose import compose
from ....config.text.errors import ConfigError
from ....config.text.jsonc import jsonc_to_yaml
from ....config.text.values import plain
from ..process.options import WRONG, path
from .init_command import write_new


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
    print(json.dumps(json_schema(), indent=2))
    return 0


def check_file(args: argparse.Namespace) -> int:
    """Check a file. Exit code 2 if an agent would not start with it here. Raises ConfigError."""
    config = load_config(args.file)
    assert config.source is not None
    file = config.source
    if config.packaged:
        print(f"no agent file here: checking the agent that comes with the package, {file}")
    unlaunchable = list(_unlaunchable(config))
    optional = [why for server, why in unlaunchable if not server.required]
    for warning in (*config.warnings, *optional):
        print(f"{file}: warning: {warning}", file=sys.stderr)
    problems = list(_model_problems(config, file.parent))
    problems += [f"{file}: {why}" for server, why in unlaunchable if server.required]
    if problems:
        print("\n".join(dict.fromkeys(problems)), file=sys.stderr)
        return WRONG
    print(f"{file}: ok")
    if any(rule.tool for _, rule in rules_of(config)):
        print(f"{file}: stopgo mcp test, and each start, checks the names of tools in rules")
    return 0


def import_file(args: argparse.Namespace) -> int:
    """Import a file. Exit code 1 if the agent file cannot be written. Raises ConfigError."""
    file: Path = args.file
    value, problems = compose(jsonc_to_yaml(read_text(file)), str(file))
    if problems:
        raise ConfigError(problems)
    pasted = read_pasted(plain(value), str(file), keep_secrets=args.keep_secrets)
    text = agent_file(pasted, file.name)
    if args.output is None:
        print(text, end="")
        return 0
    return write_new(args.output, text, "stopgo config import", secret=args.keep_secrets)


def _model_problems(config: AgentConfig, folder: Path) -> Iterator[str]:
    """The errors that the start would report for the models."""
    from ....actors.models.messages.errors import ModelUnusable
    from ....actors.models.model_actors import unusable
    from ....actors.models.open_model import check_model

    for name in reachable_models(config.agent, config.llm, config.models):
        try:
            check_model(resolve_model(name, config.llm, config.models), folder=folder)
        except ModelUnusable as error:
            yield from unusable(config, name, error).splitlines()


def _unlaunchable(config: AgentConfig) -> Iterator[tuple[McpServerConfig, str]]:
    """The servers whose commands cannot be run, with the reason."""
    from ....actors.mcp.transports.environment import NotLaunchable, launch

    for server in config.enabled_servers:
        try:
            if server.command is not None:
                launch(server)
        except NotLaunchable as error:
            yield server, f'MCP server "{server.name}": {error}'
