"""`stopgo config`: what an agent file may hold, and whether one holds it."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from ...config.agent_config import AgentConfig
from ...config.errors import ConfigError
from ...config.load import load_config
from ...config.models import reachable_models, resolve_model
from ...config.schema import json_schema
from ...config.tree import rules_of
from .options import path


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `config schema` and `config check` to the command line."""
    config = subparsers.add_parser("config", help="check an agent file, or print its JSON Schema")
    commands = config.add_subparsers(required=True, metavar="COMMAND")

    schema = commands.add_parser("schema", help="print the JSON Schema of agent files")
    schema.set_defaults(run=print_schema)

    check = commands.add_parser("check", help="report everything that is wrong with an agent file")
    check.add_argument("file", type=path, metavar="FILE", help="the agent file")
    check.set_defaults(run=check_file)


def print_schema(args: argparse.Namespace) -> int:
    print(json.dumps(json_schema(), indent=2))
    return 0


def check_file(args: argparse.Namespace) -> int:
    """Exit code 0 when the file and the scripts it names can be used, 1 when not. Variables are those of this
    process."""
    try:
        config = load_config(args.file)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    for warning in config.warnings:
        print(f"{args.file}: warning: {warning}", file=sys.stderr)
    problems = _model_problems(config, args.file.parent)
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 1
    print(f"{args.file}: ok")
    if any(rule.tool for _, rule in rules_of(config)):
        print(f"{args.file}: the names of tools in rules are checked by stopgo mcp test, and at the start")
    return 0


def _model_problems(config: AgentConfig, folder: Path) -> list[str]:
    """What the start would say of the models, as far as that shows without keys."""
    from ...actors.models.errors import ModelUnusable
    from ...actors.models.open_model import check_model

    problems: list[str] = []
    for name in reachable_models(config.agent, config.llm, config.models):
        try:
            check_model(resolve_model(name, config.llm, config.models), folder=folder)
        except ModelUnusable as error:
            problems += str(error).splitlines()
    return list(dict.fromkeys(problems))
