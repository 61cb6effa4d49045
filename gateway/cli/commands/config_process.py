"""The work of `stopgo config`: checks, the JSON Schema, imports."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from ....actors.mcp.transports.environment import NotLaunchable, launch
from ....actors.models.messages.errors import ModelUnusable
from ....actors.models.model_actors import unusable
from ....actors.models.open_model import check_model
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
from ..process.options import WRONG
from .init_command import write_new


def run_schema() -> int:
    print(json.dumps(json_schema(), indent=2))
    return 0


def run_check(file: Path | None) -> int:
    """Check a file. Exit code 2 if an agent would not start with it here. Raises ConfigError."""
    config = load_config(file)
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


def run_import(file: Path, output: Path | None, *, keep_secrets: bool) -> int:
    """Import a file. Exit code 1 if the agent file cannot be written. Raises ConfigError."""
    value, problems = compose(jsonc_to_yaml(read_text(file)), str(file))
    if problems:
        raise ConfigError(problems)
    pasted = read_pasted(plain(value), str(file), keep_secrets=keep_secrets)
    text = agent_file(pasted, file.name)
    if output is None:
        print(text, end="")
        return 0
    return write_new(output, text, "stopgo config import", secret=keep_secrets)


def _model_problems(config: AgentConfig, folder: Path) -> Iterator[str]:
    """The errors that the start would report for the models."""
    for name in reachable_models(config.agent, config.llm, config.models):
        try:
            check_model(resolve_model(name, config.llm, config.models), folder=folder)
        except ModelUnusable as error:
            yield from unusable(config, name, error).splitlines()


def _unlaunchable(config: AgentConfig) -> Iterator[tuple[McpServerConfig, str]]:
    """The servers whose commands cannot be run, with the reason."""
    for server in config.enabled_servers:
        try:
            if server.command is not None:
                launch(server)
        except NotLaunchable as error:
            yield server, f'MCP server "{server.name}": {error}'
