"""`stopgo policy`: explains how the gate judges a call, without making it, and shows the policies of an
agent. `policy_replay` tries other rules on recorded calls; `policy_report` tells what the rules decided."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..process.options import WRONG, add_config_option, add_token_option, add_url_option
from . import policy_replay, policy_report

if TYPE_CHECKING:
    from ....actors.gate.gate import Action, PolicyScope
    from ....actors.tools.tool import Hints, Tool
    from ....config.sections.agent_config import AgentConfig
    from ..client.agent_client import AgentClient
    from .with_agent import InWords

_EPILOG = "Exit codes: 0 done, 1 refused or not reached, 2 wrong usage."
EXIT_CODES: dict[Action, int] = {"run": 0, "ask": 3, "deny": 4}


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `policy` to the command line."""
    policy = subparsers.add_parser(
        "policy", help="explain how the gate judges tool calls, show its policy, or try other rules"
    )
    commands = policy.add_subparsers(required=True, metavar="COMMAND")
    explain = commands.add_parser(
        "explain",
        help="print which rule decides about a call, and why",
        description="Explains the verdict on a call rule by rule. Starts no server and calls nothing: the "
        "hints of the tool are those of the options or, without these, those on record in the data "
        "directory. Exit code: 0 if the call runs, 3 if it asks, 4 if it is denied or no node may use the "
        "tool. Of several nodes, the strictest verdict counts.",
    )
    add_config_option(explain)
    explain.add_argument("--tool", required=True, metavar="NAME", help="name of the tool")
    explain.add_argument(
        "--args", default="{}", metavar="JSON", help="arguments of the call, a JSON object; default: none"
    )
    explain.add_argument("--node", metavar="NAME", help="node that makes the call; default: each llm node")
    explain.add_argument(
        "--server",
        metavar="NAME",
        help="server of the tool; default: the one that has it, by the agent file and the data directory",
    )
    for hint, name in (
        ("read-only", "readOnlyHint"),
        ("destructive", "destructiveHint"),
        ("idempotent", "idempotentHint"),
    ):
        explain.add_argument(
            f"--{hint}",
            action=argparse.BooleanOptionalAction,
            help=f"hint of the tool: {name} is true or, with --no-, false",
        )
    explain.set_defaults(run=explain_call)
    policy_replay.add_parser(commands)
    policy_report.add_parser(commands)
    show = commands.add_parser(
        "show",
        help="print the policy of a running agent",
        description="Prints the rules and settings by which a running agent judges calls, or judged them.",
        epilog=_EPILOG,
    )
    show.add_argument("revision", nargs="?", metavar="REVISION", help="default: that of new runs")
    history = commands.add_parser(
        "history",
        help="list the policies that a running agent has had",
        description="Lists the revisions of the policy by which a running agent has judged calls.",
        epilog=_EPILOG,
    )
    for command, run in ((show, show_policy), (history, list_policies)):
        add_url_option(command)
        add_token_option(command)
        command.add_argument("--json", action="store_true", help="print the JSON of the HTTP API")
        command.set_defaults(run=run, command=command)


def show_policy(args: argparse.Namespace) -> int:
    """Print a policy. Exit codes: see the help."""
    from .with_agent import with_agent

    async def request(client: AgentClient) -> InWords:
        chosen = {} if args.revision is None else {"revision": args.revision}
        found = await client.get("/policy", **chosen)
        return found, policy_lines(found)

    return with_agent(args, request)


def policy_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """A policy for a person."""
    policy = found["policy"]
    yield f"revision {found['revision']}, used since {found['since']}"
    yield f"contradictory hints: {'ask' if policy['contradiction_asks'] else 'read_only'}"
    texts = {rule["id"]: rule["text"] for rule in policy["rules"]}
    for node in policy["nodes"]:
        settings = {"unannotated": node["unannotated"], **node["above"]}
        yield f"node {node['node']}: {', '.join(f'{key}: {value}' for key, value in settings.items())}"
        yield from (f"  {id}  {texts[id]}" for id in node["rules"])


def list_policies(args: argparse.Namespace) -> int:
    """Print the revisions. Exit codes: see the help."""
    from .with_agent import with_agent

    async def request(client: AgentClient) -> InWords:
        found = await client.get("/policy/history")
        return found, history_lines(found)

    return with_agent(args, request)


def history_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """The revisions for a person."""
    yield "REVISION          RULES  VERDICTS  FIRST                 LAST"
    for each in found["revisions"]:
        now = " (now)" if each["current"] else ""
        used = [each.get(name) or "-" for name in ("first_used", "last_used")]
        counts = f"{each['revision']:<16}  {each['rules']:>5}  {each['verdicts']:>8}"
        yield f"{counts}  {used[0]:<20}  {used[1]}{now}"


def explain_call(args: argparse.Namespace) -> int:
    """Explain a call. Exit code 2 if the configuration or an option is wrong; see the help for the others."""
    from ....config.load import load_config

    try:
        config = load_config(args.config)
        arguments, scopes = _arguments(args.args), _scopes(config, args.node)
        servers = _servers(args, config) or [""]
        hints = [_hints(args, config, server) for server in servers]
        tools = [_tool(args.tool, *each, config) for each in zip(servers, hints, strict=True)]
        verdicts = [[_verdict(tool, arguments, policy_scope) for policy_scope in scopes] for tool in tools]
        if any(each != verdicts[0] for each in verdicts[1:]):
            raise _UnusableCall(
                f"--server is needed: {' or '.join(servers)} (stopgo mcp test says which tools they have)"
            )
    except _UnusableCall as error:
        print(f"stopgo policy explain: {error}", file=sys.stderr)
        return WRONG

    for _, text in verdicts[0]:
        print(text)
    if hints[0] is None:
        print(
            f'The hints of "{args.tool}" are not known, so this is the verdict on a tool without hints. '
            "Give them as options; `stopgo mcp test` prints the verdict on the hints that the server lists.",
            file=sys.stderr,
        )
    seen = [EXIT_CODES[action] for action, _ in verdicts[0] if action is not None]
    return max(seen, default=EXIT_CODES["deny"])


class _UnusableCall(Exception):
    """An option has an unusable value; the text says why."""


def _servers(args: argparse.Namespace, config: AgentConfig) -> list[str]:
    """The servers that may have the tool."""
    from ....actors.tools.catalogue import admits
    from ....actors.tools.known import servers_known_with
    from ....actors.tools.names import prefix_of

    servers = [server.name for server in config.enabled_servers]
    if args.server is not None:
        _check_known("server", args.server, servers)
        return [args.server]
    named = [name for name in servers if args.tool.startswith(prefix_of(name))]
    admitting = [server.name for server in config.enabled_servers if admits(server.tools, args.tool)]
    candidates = named or admitting or servers
    known = () if len(candidates) < 2 else servers_known_with(args.tool, candidates, config.data_dir)
    return list(known) or candidates


def _hints(args: argparse.Namespace, config: AgentConfig, server: str) -> Hints | None:
    """The hints of the options, else those on record; None: there are none."""
    from ....actors.tools.known import recorded_hints
    from ....actors.tools.names import prefix_of
    from ....actors.tools.tool import Hints

    given = Hints(args.read_only, args.destructive, args.idempotent)
    if given != Hints():
        return given
    return recorded_hints(args.tool.removeprefix(prefix_of(server)), server, config.data_dir)


def _tool(name: str, server: str, hints: Hints | None, config: AgentConfig) -> Tool:
    from ....actors.tools.catalogue import catalogue
    from ....actors.tools.names import prefix_of
    from ....actors.tools.tool import Hints, Tool

    tool = Tool(name.removeprefix(prefix_of(server)), "", {}, server, hints=hints or Hints())
    named = catalogue(config, {server: [tool]}).tools
    return named[0] if named else tool


def _arguments(text: str) -> dict[str, Any]:
    from ....runtime.json_text import load_edge

    try:
        arguments = load_edge(text)
    except ValueError as error:
        raise _UnusableCall(f"--args is not JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise _UnusableCall('--args must be a JSON object, for instance \'{"name": "x"}\'')
    return arguments


def _scopes(config: AgentConfig, name: str | None) -> list[PolicyScope]:
    """The policy scopes that the call may come from. Raises `_UnusableCall` if there is none."""
    from ....actors.gate.gate import policy_scopes, root_scope
    from ....config.sections.nodes import LlmNode

    callers = {
        node.name: policy_scope
        for node, policy_scope in policy_scopes(config.agent, root_scope(config))
        if isinstance(node, LlmNode)
    }
    if name is not None:
        _check_known("llm node", name, list(callers))
        return [callers[name]]
    if not callers:
        raise _UnusableCall("the tree has no llm node, so no node calls tools")
    return list(callers.values())


def _check_known(kind: str, name: str, known: list[str]) -> None:
    from ....config.described.wording import nearest

    if name not in known:
        hint = nearest(name, known) or f"known: {', '.join(known) or 'none'}"
        raise _UnusableCall(f'no {kind} is called "{name}" ({hint})')


def _verdict(tool: Tool, arguments: dict[str, Any], policy_scope: PolicyScope) -> tuple[Action | None, str]:
    """The verdict in one policy scope, and the explanation; None if the node may not use the tool."""
    from ....actors.gate.explain import explain
    from ....actors.gate.gate import offered

    if not offered(tool, policy_scope):
        return None, f"{policy_scope.node}: not seen\n      mcp_servers or tools of the node leave it out\n"
    verdict, steps = explain(tool, arguments, policy_scope)
    lines = [f"  {'*' if step.decides else '-'} {step.text}\n      {step.why}\n" for step in steps]
    return verdict.action, f"{policy_scope.node}: {verdict.action}\n{''.join(lines)}"
