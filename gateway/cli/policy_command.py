"""`stopgo policy`: what the gate does with a call, and why, without making it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from .options import WRONG, path

if TYPE_CHECKING:
    from ...actors.gate.gate import Action, PolicyScope
    from ...actors.tools.tool import Tool
    from ...config.agent_config import AgentConfig

EXIT_CODES: dict[Action, int] = {"run": 0, "ask": 3, "deny": 4}


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `policy explain` to the command line."""
    policy = subparsers.add_parser("policy", help="see what the gate does with a tool call, and why")
    commands = policy.add_subparsers(required=True, metavar="COMMAND")
    explain = commands.add_parser(
        "explain",
        help="say which rule decides about a call, and why",
        description="Says what the gate does with a call, and why, rule by rule. No server is started and "
        "nothing is called, so what the tool says of itself has to be told. Exit code: 0 when the call "
        "runs, 3 when it asks, 4 when it is denied, or when no node sees the tool; of several nodes that "
        "see it, the strictest counts.",
    )
    explain.add_argument(
        "--config",
        type=path,
        metavar="FILE",
        help="the agent file; default: config/agent.yaml, else the one that comes with the package",
    )
    explain.add_argument("--tool", required=True, metavar="NAME", help="name of the tool")
    explain.add_argument(
        "--args", default="{}", metavar="JSON", help="arguments of the call, as a JSON object; default: none"
    )
    explain.add_argument("--node", metavar="NAME", help="the node that calls; default: each llm node in turn")
    explain.add_argument(
        "--server",
        metavar="NAME",
        help="the tool's server; default: the one that has the tool, by the file and the data directory",
    )
    for hint, meaning in (
        ("read-only", "changes nothing"),
        ("destructive", "may destroy something"),
        ("idempotent", "changes nothing more when it is repeated"),
    ):
        explain.add_argument(
            f"--{hint}",
            action=argparse.BooleanOptionalAction,
            help=f"the tool says that it {meaning}, or, with --no-, that it does not",
        )
    explain.set_defaults(run=explain_call)


def explain_call(args: argparse.Namespace) -> int:
    """Exit code 2: the configuration or what was asked is wrong; for the others see the command's help."""
    from ...config.errors import ConfigError
    from ...config.load import load_config

    try:
        config = load_config(args.config)
        arguments, scopes = _arguments(args.args), _scopes(config, args.node)
        servers = _servers(args, config) or [""]
        answers = [
            [
                _answer(_tool(args.tool, server, args, config), arguments, policy_scope)
                for policy_scope in scopes
            ]
            for server in servers
        ]
        if any(each != answers[0] for each in answers[1:]):
            raise _Unusable(
                f"--server is needed: {' or '.join(servers)} (stopgo mcp test says which tools they have)"
            )
    except ConfigError as error:
        print(error, file=sys.stderr)
        return WRONG
    except _Unusable as error:
        print(f"stopgo policy explain: {error}", file=sys.stderr)
        return WRONG

    for _, text in answers[0]:
        print(text)
    seen = [EXIT_CODES[action] for action, _ in answers[0] if action is not None]
    return max(seen, default=EXIT_CODES["deny"])


class _Unusable(Exception):
    """What was asked makes no sense; the text says why."""


def _servers(args: argparse.Namespace, config: AgentConfig) -> list[str]:
    """The servers that may have the tool."""
    from ...actors.tools.catalogue import admits
    from ...actors.tools.known import servers_known_with
    from ...actors.tools.names import PREFIX

    servers = [server.name for server in config.enabled_servers]
    if args.server is not None:
        _check_known("server", args.server, servers)
        return [args.server]
    named = [name for name in servers if args.tool.startswith(f"{PREFIX}{name}__")]
    admitting = [server.name for server in config.enabled_servers if admits(server.tools, args.tool)]
    candidates = named or admitting or servers
    known = () if len(candidates) < 2 else servers_known_with(args.tool, candidates, config.data_dir)
    return list(known) or candidates


def _tool(name: str, server: str, args: argparse.Namespace, config: AgentConfig) -> Tool:
    from ...actors.tools.catalogue import catalogue
    from ...actors.tools.tool import Hints, Tool

    hints = Hints(args.read_only, args.destructive, args.idempotent)
    tool = Tool(name.removeprefix(f"mcp__{server}__"), "", {}, server, hints=hints)
    named = catalogue(config, {server: [tool]}).tools
    return named[0] if named else tool


def _arguments(text: str) -> dict[str, Any]:
    from ...runtime.json_text import load_edge

    try:
        arguments = load_edge(text)
    except ValueError as error:
        raise _Unusable(f"--args is not JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise _Unusable('--args must be a JSON object, for instance \'{"name": "x"}\'')
    return arguments


def _scopes(config: AgentConfig, name: str | None) -> list[PolicyScope]:
    """The policy scopes of the nodes that may make the call. Raises `_Unusable` if there is none."""
    from ...actors.gate.gate import policy_scopes, root_scope
    from ...config.nodes import LlmNode

    callers = {
        node.name: policy_scope
        for node, policy_scope in policy_scopes(config.agent, root_scope(config))
        if isinstance(node, LlmNode)
    }
    if name is not None:
        _check_known("llm node", name, list(callers))
        return [callers[name]]
    if not callers:
        raise _Unusable("the tree has no llm node, so nothing calls a tool")
    return list(callers.values())


def _check_known(what: str, name: str, known: list[str]) -> None:
    from ...config.wording import nearest

    if name not in known:
        hint = nearest(name, known) or (f"there is {', '.join(known)}" if known else "there is none")
        raise _Unusable(f'no {what} is called "{name}" ({hint})')


def _answer(tool: Tool, arguments: dict[str, Any], policy_scope: PolicyScope) -> tuple[Action | None, str]:
    """What becomes of the call in one policy scope, None where the tool is not seen, and that in words."""
    from ...actors.gate.explain import explain
    from ...actors.gate.gate import offered

    if not offered(tool, policy_scope):
        return None, f"{policy_scope.node}: not seen\n      mcp_servers or tools of the node leave it out\n"
    verdict, steps = explain(tool, arguments, policy_scope)
    said = [f"  {'*' if step.decides else '-'} {step.text}\n      {step.why}\n" for step in steps]
    return verdict.action, f"{policy_scope.node}: {verdict.action}\n{''.join(said)}"
