"""Mistakes and likely mistakes in the agent file that need the servers' tool lists to detect. Pure.

A rule with `ask` or `deny` and a misspelled tool would let the calls run that it was written to stop. Startup
fails for such a rule if

* its `tool` has no wildcards, and it does not say `optional: true`,
* every server that it may be about, by its `server`, has listed its tools, and
* none of these servers has a tool of this name.

Every other unknown name is a warning. A disabled server has not listed its tools; a rule that is only about
such servers is not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import yaml

from ...config.agent_config import AgentConfig
from ...config.approval import Rule
from ...config.errors import ConfigError, Problem
from ...config.interpolate import escape
from ...config.mcp import McpServerConfig
from ...config.tree import rules_of, with_paths
from ...config.values import quoted
from ...config.wildcards import has_wildcards, is_named
from ...config.wording import nearest
from ..tools.arguments import types_at
from ..tools.catalogue import one_name
from ..tools.delegation import is_remote
from ..tools.names import plain_name, prefixed_name
from ..tools.tool import Tool

_ELSEWHERE = frozenset({"patternProperties", "$ref", "allOf", "anyOf", "oneOf", "if"})
"""Keywords of a JSON Schema that may name arguments besides its `properties`."""
_NUMBERS = frozenset({"integer", "number", "null"})
_MOST_NAMED = 20
"""The maximum number of tools in a sentence."""
_LONGEST_NAME = 128
"""The maximum length of a tool's name in a suggested rule."""


@attrs.frozen
class Finding:
    text: str
    """A sentence, with the position in the file."""
    problem: Problem | None = None
    """The error that makes startup fail; None for a warning."""
    unlisted: bool = False
    """Whether the unknown tool may belong to a server that has not listed its tools."""


def review(
    config: AgentConfig, tools: Iterable[Tool], listed: Mapping[str, Sequence[Tool]]
) -> Iterator[Finding]:
    """Contradictory tools, misleading and unknown names, rules that run tools of several servers, and numeric
    conditions on arguments that may not be numbers.

    Args:
        tools: all tools that can be called.
        listed: the tool lists, by server, of the servers that have listed their tools.
    """
    tools = tuple(tools)
    yield from map(Finding, _contradictory(config, tools))
    yield from map(Finding, _misleading(tools))
    yield from map(Finding, _filters(config, tools, listed))
    for where, rule in rules_of(config):
        yield from _names_no_tool(config, where, rule, tools, listed)
        meant = [tool for tool in tools if _is_about(rule, tool)]
        yield from map(Finding, _of_any_server(where, rule, meant))
        yield from map(Finding, _not_taken(where, rule, meant))
        yield from map(Finding, _no_numbers(where, rule, meant))


def refuse(findings: Iterable[Finding]) -> None:
    """Raise `ConfigError` for the mistakes among the findings, in the order of the file."""
    problems = [finding.problem for finding in findings if finding.problem is not None]
    if problems:
        raise ConfigError(tuple(sorted(problems, key=lambda problem: problem.line or 0)))


# ------------------------------------------------------------------- names


def _filters(
    config: AgentConfig, tools: Iterable[Tool], listed: Mapping[str, Sequence[Tool]]
) -> Iterator[str]:
    for server in config.enabled_servers:
        if (own := listed.get(server.name)) is not None:
            where, names = f'MCP server "{server.name}": tools', [tool.name for tool in own]
            yield from _unknown(where, server.tools.include or (), names)
            yield from _unknown(where, server.tools.exclude, [*names, *map(plain_name, names)])
    if all(server.name in listed for server in config.enabled_servers):
        for node, path in with_paths(config.agent):
            for pattern in node.tools or ():
                yield from _unknown(f"{path}.tools", (pattern,), _names(tools, pattern))


def _misleading(tools: Iterable[Tool]) -> Iterator[str]:
    """A sentence for each server with tools whose names look like those of another server's tools."""
    by_server: dict[str, list[str]] = {}
    for tool in tools:
        if tool.misleading:
            by_server.setdefault(tool.server, []).append(tool.own_name)
    for server, names in by_server.items():
        yield (
            f'MCP server "{server}": {_some(names)} could be taken for tools of another server, so rules and '
            f"filters of nodes go by their prefixed names alone, such as "
            f"{quoted(prefixed_name(server, names[0]))}"
        )


def _of_any_server(where: str, rule: Rule, meant: Iterable[Tool]) -> Iterator[str]:
    servers = tuple(dict.fromkeys(tool.server for tool in meant))
    if rule.then == "run" and rule.tool is not None and rule.server is None and len(servers) > 1:
        yield (
            f"{where}: it runs tools of several servers, {_some(servers)}, which choose the names of their "
            "tools (say which server is meant with server)"
        )


def _names_no_tool(
    config: AgentConfig, where: str, rule: Rule, tools: Iterable[Tool], listed: Mapping[str, Sequence[Tool]]
) -> Iterator[Finding]:
    servers = [server for server in config.mcp_servers if is_named(server.name, rule.server or "*")]
    agents = [tool for tool in tools if is_remote(tool.server) and is_named(tool.server, rule.server or "*")]
    there = agents or any(each.enabled or each.name in listed for each in servers)
    if rule.tool is None or rule.optional or not there:
        return
    known = [*_names_of(servers, tools, rule.tool), *_names(agents, rule.tool)]
    if any(is_named(name, rule.tool) for name in known):
        return
    unlisted = [server.name for server in servers if server.name not in listed]
    message = f"no tool is called {quoted(rule.tool)}"
    called = {(tool.server, tool.own_name) for tool in tools}
    left_out = any(
        is_named(tool.name, rule.tool)
        for each in servers
        for tool in listed.get(each.name, ())
        if (each.name, tool.name) not in called
    )
    if left_out:
        message = f"{quoted(rule.tool)} is left out by tools.include, tools.exclude or on_duplicate"
    elif unlisted:
        message += f" so far; the tools of {_some(unlisted)} are not known"
    hint = None if left_out else nearest(rule.tool, known)
    problem = None
    if rule.restricts and not (has_wildcards(rule.tool) or unlisted or left_out):
        advice = hint or "write optional: true if that is meant"
        problem = Problem("unknown_tool", message, str(config.source), key=f"{where}.tool", hint=advice)
        if rule.mark is not None:
            problem = attrs.evolve(problem, line=rule.mark.line, column=rule.mark.column)
    text = f"{where}.tool: {message}{f' ({hint})' if hint else ''}"
    yield Finding(text, problem, unlisted=bool(unlisted))


def _names_of(servers: Iterable[McpServerConfig], tools: Iterable[Tool], pattern: str) -> list[str]:
    """All names of the tools of these servers, including those of server facades."""
    own = {server.name for server in servers}
    facades = [one_name(server) for server in servers if server.expose == "server"]
    return [*_names((tool for tool in tools if tool.server in own), pattern), *facades]


def _unknown(where: str, patterns: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    for pattern in patterns:
        if not any(is_named(name, pattern) for name in known):
            yield f"{where}: no tool is called {_named(pattern, known)}"


def _named(name: str, known: Iterable[str]) -> str:
    """An unknown name, with the nearest known name as a hint."""
    hint = nearest(name, known)
    return quoted(name) + (f" ({hint})" if hint else "")


def _names(tools: Iterable[Tool], pattern: str) -> list[str]:
    """All names that the pattern is compared with, each once."""
    return list(dict.fromkeys(name for tool in tools for name in tool.names_for(pattern)))


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(map(quoted, names[:_MOST_NAMED])) + (f" and {more} more" if more > 0 else "")


# --------------------------------------------------------------- arguments


def _not_taken(where: str, rule: Rule, meant: Sequence[Tool]) -> Iterator[str]:
    if not meant or any(_takes_anything(tool.input_schema) for tool in meant):
        return
    known = [str(name) for tool in meant for name in tool.input_schema["properties"]]
    for path in rule.arguments:
        if not _is_property(path, known):
            name = path.partition(".")[0]
            yield f"{where}.arguments: no tool that it is about takes {_named(name, known)}"


def _no_numbers(where: str, rule: Rule, meant: Sequence[Tool]) -> Iterator[str]:
    for path, condition in rule.arguments.items():
        if condition.above is None and condition.below is None:
            continue
        lax = [tool.name for tool in meant if _may_be_no_number(tool.input_schema, path)]
        if lax:
            yield (
                f"{where}.arguments.{path}: above and below compare numbers, but the schema of {_some(lax)} "
                "allows other values"
            )


def _may_be_no_number(schema: Mapping[str, Any], path: str) -> bool:
    types = types_at(schema, path)
    if types is not None:
        return not types <= _NUMBERS
    return _takes_anything(schema) or _is_property(path, schema["properties"])


def _is_property(path: str, known: Iterable[str]) -> bool:
    return path in known or path.partition(".")[0] in known


def _takes_anything(schema: Mapping[str, Any]) -> bool:
    """Whether a tool may accept arguments that are not among its `properties`."""
    if not isinstance(schema.get("properties"), Mapping):
        return True
    return schema.get("additionalProperties", False) is not False or not _ELSEWHERE.isdisjoint(schema)


# ------------------------------------------------------------------- hints


def _contradictory(config: AgentConfig, tools: Iterable[Tool]) -> Iterator[str]:
    """A sentence for each server with tools whose hints contradict each other and that no rule lets run."""
    let_run = [
        rule
        for _, rule in rules_of(config)
        if rule.then == "run" and not rule.arguments and rule.effect in (None, "once")
    ]
    by_server: dict[str, list[str]] = {}
    for tool in tools:
        if tool.hints.contradictory and not any(_is_about(rule, tool) for rule in let_run):
            by_server.setdefault(tool.server, []).append(tool.own_name)
    for server, names in by_server.items():
        example = next(filter(_may_be_copied, names), None)
        advice = f"; a rule lets it run: {_let_run(server, example)}" if example else ""
        yield (
            f'MCP server "{server}": readOnlyHint and destructiveHint are both true for {_some(names)}, and '
            f"such a tool counts as destructive{advice}"
        )


def _may_be_copied(name: str) -> bool:
    """Whether a rule can name this tool alone: a server may call its tool `*`."""
    return len(name) <= _LONGEST_NAME and name.isprintable() and not has_wildcards(name)


def _let_run(server: str, tool: str) -> str:
    rule = {"server": escape(server), "tool": escape(tool), "then": "run"}
    return yaml.safe_dump(
        rule, default_flow_style=True, sort_keys=False, allow_unicode=True, width=1000
    ).strip()


def _is_about(rule: Rule, tool: Tool) -> bool:
    return is_named(tool.server, rule.server or "*") and tool.is_called(rule.tool or "*")
