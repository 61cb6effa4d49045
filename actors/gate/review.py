"""Mistakes and likely mistakes in the agent file that need the servers' tool lists to detect. Pure.

A rule with `ask` or `deny` and a misspelled tool would let the calls run that it was written to stop. Startup
fails for such a rule if

* its `tool` has no wildcards, and it does not say `optional: true`,
* every server that its `server` matches has listed its tools, and
* none of these servers has a tool of this name.

A misspelled argument has the same effect. Startup fails for such a rule if

* it does not say `optional: true`, and every server that its `server` matches has listed its tools,
* every tool that it matches says `additionalProperties: false`, and none of them has the argument, and
* the condition is not `exists: false`, which holds without the argument.

Every other unknown name is a warning. A disabled server has not listed its tools; a rule that is only about
such servers is not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from ...config.checks.tree import rules_of, with_paths
from ...config.described.wording import nearest, run_rule
from ...config.sections.agent_config import AgentConfig
from ...config.sections.approval import Condition, Rule
from ...config.sections.mcp import McpServerConfig
from ...config.text.errors import ConfigError, Problem
from ...config.text.values import quoted
from ...config.text.wildcards import has_wildcards, is_named
from ..arguments.arguments import types_at
from ..tools.catalogue import one_name
from ..tools.delegation import is_remote
from ..tools.names import plain_name, prefixed_name
from ..tools.tool import Tool

_OTHER_KEYWORDS = frozenset({"patternProperties", "$ref", "allOf", "anyOf", "oneOf", "if"})
"""Keywords of a JSON Schema that may define arguments besides `properties`."""
_NUMBERS = frozenset({"integer", "number", "null"})
_MAX_LISTED = 20
"""The maximum number of tools in a sentence."""
_MAX_SUGGESTED_NAME = 128
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
    """Find contradictory hints, misleading and unknown names, rules that run tools of several servers, and
    numeric conditions on arguments that may not be numbers.

    Args:
        tools: all tools that can be called.
        listed: the tool lists, by server, of the servers that have listed their tools.
    """
    tools = tuple(tools)
    yield from map(Finding, _contradictory(config, tools))
    yield from map(Finding, _misleading(tools))
    yield from map(Finding, _unknown_in_filters(config, tools, listed))
    for where, rule in rules_of(config):
        yield from _unknown_tool(config, where, rule, tools, listed)
        matched = [tool for tool in tools if _is_matched(rule, tool)]
        yield from map(Finding, _several_servers(where, rule, matched))
        yield from _unknown_arguments(config, where, rule, matched, listed)
        yield from map(Finding, _non_numeric_arguments(where, rule, matched))


def refuse(findings: Iterable[Finding]) -> None:
    """Raise `ConfigError` for the mistakes among the findings, in the order of the file."""
    problems = [finding.problem for finding in findings if finding.problem is not None]
    if problems:
        raise ConfigError(tuple(sorted(problems, key=lambda problem: problem.line or 0)))


# ------------------------------------------------------------------- names


def _unknown_in_filters(
    config: AgentConfig, tools: Iterable[Tool], listed: Mapping[str, Sequence[Tool]]
) -> Iterator[str]:
    for server in config.enabled_servers:
        if (own := listed.get(server.name)) is not None:
            where, names = f'MCP server "{server.name}": tools', [tool.name for tool in own]
            yield from _unknown_patterns(where, server.tools.include or (), names)
            yield from _unknown_patterns(where, server.tools.exclude, [*names, *map(plain_name, names)])
    if all(server.name in listed for server in config.enabled_servers):
        for node, path in with_paths(config.agent):
            for pattern in node.tools or ():
                yield from _unknown_patterns(f"{path}.tools", (pattern,), _names(tools, pattern))


def _misleading(tools: Iterable[Tool]) -> Iterator[str]:
    """Yield a sentence for each server with tools whose names look like those of another server's tools."""
    by_server: dict[str, list[str]] = {}
    for tool in tools:
        if tool.misleading:
            by_server.setdefault(tool.server, []).append(tool.own_name)
    for server, names in by_server.items():
        yield (
            f'MCP server "{server}": {_listing(names)} can be mistaken for tools of another server, so rules '
            "and node filters match only their prefixed names, such as "
            f"{quoted(prefixed_name(server, names[0]))}"
        )


def _several_servers(where: str, rule: Rule, matched: Iterable[Tool]) -> Iterator[str]:
    servers = tuple(dict.fromkeys(tool.server for tool in matched))
    if rule.then == "run" and rule.tool is not None and rule.server is None and len(servers) > 1:
        yield (
            f"{where}: this rule runs tools of several servers, {_listing(servers)}, and each server chooses "
            "the names of its tools (set server to choose one)"
        )


def _unknown_tool(
    config: AgentConfig, where: str, rule: Rule, tools: Iterable[Tool], listed: Mapping[str, Sequence[Tool]]
) -> Iterator[Finding]:
    servers = [server for server in config.mcp_servers if is_named(server.name, rule.server or "*")]
    agents = [tool for tool in tools if is_remote(tool.server) and is_named(tool.server, rule.server or "*")]
    can_have_tools = agents or any(each.enabled or each.name in listed for each in servers)
    if rule.tool is None or rule.optional or not can_have_tools:
        return
    known = [*_names_of_servers(servers, tools, rule.tool), *_names(agents, rule.tool)]
    if any(is_named(name, rule.tool) for name in known):
        return
    unlisted = [server.name for server in servers if server.name not in listed]
    message = f"no tool is called {quoted(rule.tool)}"
    callable_names = {(tool.server, tool.own_name) for tool in tools}
    left_out = any(
        is_named(tool.name, rule.tool)
        for each in servers
        for tool in listed.get(each.name, ())
        if (each.name, tool.name) not in callable_names
    )
    if left_out:
        message = f"{quoted(rule.tool)} is left out by tools.include, tools.exclude or on_duplicate"
    elif unlisted:
        message += f" so far; the tools of {_listing(unlisted)} are not known"
    hint = None if left_out else nearest(rule.tool, known)
    problem = None
    if rule.restricts and not (has_wildcards(rule.tool) or unlisted or left_out):
        advice = hint or "write optional: true if that is intended"
        problem = Problem("unknown_tool", message, str(config.source), key=f"{where}.tool", hint=advice)
        if rule.mark is not None:
            problem = attrs.evolve(problem, line=rule.mark.line, column=rule.mark.column)
    text = f"{where}.tool: {message}{f' ({hint})' if hint else ''}"
    yield Finding(text, problem, unlisted=bool(unlisted))


def _names_of_servers(servers: Iterable[McpServerConfig], tools: Iterable[Tool], pattern: str) -> list[str]:
    """Return all names of the tools of these servers, including those of server facades."""
    own = {server.name for server in servers}
    facades = [one_name(server) for server in servers if server.expose == "server"]
    return [*_names((tool for tool in tools if tool.server in own), pattern), *facades]


def _unknown_patterns(where: str, patterns: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    for pattern in patterns:
        if not any(is_named(name, pattern) for name in known):
            yield f"{where}: no tool is called {_with_hint(pattern, known)}"


def _with_hint(name: str, known: Iterable[str]) -> str:
    """Quote an unknown name, with the nearest known name as a hint."""
    hint = nearest(name, known)
    return quoted(name) + (f" ({hint})" if hint else "")


def _names(tools: Iterable[Tool], pattern: str) -> list[str]:
    """Return all names with which the pattern is compared, each once."""
    return list(dict.fromkeys(name for tool in tools for name in tool.names_for(pattern)))


def _listing(names: Sequence[str]) -> str:
    """Quote the names; after `_MAX_LISTED` of them, say how many more there are."""
    more = len(names) - _MAX_LISTED
    return ", ".join(map(quoted, names[:_MAX_LISTED])) + (f" and {more} more" if more > 0 else "")


# --------------------------------------------------------------- arguments


def _unknown_arguments(
    config: AgentConfig,
    where: str,
    rule: Rule,
    matched: Sequence[Tool],
    listed: Mapping[str, Sequence[Tool]],
) -> Iterator[Finding]:
    if not matched or any(_allows_other_arguments(tool.input_schema) for tool in matched):
        return
    known = [str(name) for tool in matched for name in tool.input_schema["properties"]]
    servers = [server for server in config.mcp_servers if is_named(server.name, rule.server or "*")]
    is_sure = (
        rule.restricts
        and all(server.name in listed for server in servers)
        and all(tool.input_schema.get("additionalProperties") is False for tool in matched)
    )
    for path, condition in rule.arguments.items():
        if _is_property(path, known):
            continue
        name = path.partition(".")[0]
        message = f"no tool that this rule matches takes {quoted(name)}"
        hint = nearest(name, known)
        problem = None
        if is_sure and condition != Condition(exists=False):
            advice = hint or "write optional: true if that is intended"
            key = f"{where}.arguments.{path}"
            problem = Problem("unknown_argument", message, str(config.source), key=key, hint=advice)
            if rule.mark is not None:
                problem = attrs.evolve(problem, line=rule.mark.line, column=rule.mark.column)
        yield Finding(f"{where}.arguments: {message}{f' ({hint})' if hint else ''}", problem)


def _non_numeric_arguments(where: str, rule: Rule, matched: Sequence[Tool]) -> Iterator[str]:
    for path, condition in rule.arguments.items():
        if condition.above is None and condition.below is None:
            continue
        lax = [tool.name for tool in matched if _may_be_non_numeric(tool.input_schema, path)]
        if lax:
            yield (
                f"{where}.arguments.{path}: above and below compare numbers, but the schema of "
                f"{_listing(lax)} allows other values"
            )


def _may_be_non_numeric(schema: Mapping[str, Any], path: str) -> bool:
    types = types_at(schema, path)
    if types is not None:
        return not types <= _NUMBERS
    return _allows_other_arguments(schema) or _is_property(path, schema["properties"])


def _is_property(path: str, known: Iterable[str]) -> bool:
    return path in known or path.partition(".")[0] in known


def _allows_other_arguments(schema: Mapping[str, Any]) -> bool:
    """Whether a tool may accept arguments that are not among its `properties`."""
    if not isinstance(schema.get("properties"), Mapping):
        return True
    return schema.get("additionalProperties", False) is not False or not _OTHER_KEYWORDS.isdisjoint(schema)


# ------------------------------------------------------------------- hints


def _contradictory(config: AgentConfig, tools: Iterable[Tool]) -> Iterator[str]:
    """Yield a sentence for each server with contradictory tools that ask, and that no rule runs."""
    run_rules = [
        rule
        for _, rule in rules_of(config)
        if rule.then == "run" and not (rule.reads_arguments or rule.shadow) and rule.effect in (None, "once")
    ]
    by_server: dict[str, list[str]] = {}
    for tool in tools:
        counts = tool.hints.contradictory and tool.hints.contradiction_asks
        if counts and not any(_is_matched(rule, tool) for rule in run_rules):
            by_server.setdefault(tool.server, []).append(tool.own_name)
    for server, names in by_server.items():
        example = next(filter(_can_be_named, names), None)
        advice = f"; a rule lets it run: {run_rule(server, example)}" if example else ""
        setting = "contradictory_hints: ask" if config.approval.contradictory_hints else "defaults: strict"
        yield (
            f'MCP server "{server}": readOnlyHint and destructiveHint are both true for {_listing(names)}, '
            f"and approval.{setting} makes such a tool ask{advice}"
        )


def _can_be_named(name: str) -> bool:
    """Whether a suggested rule can name this tool and no other. A server may call its tool `*`."""
    return len(name) <= _MAX_SUGGESTED_NAME and name.isprintable() and not has_wildcards(name)


def _is_matched(rule: Rule, tool: Tool) -> bool:
    return is_named(tool.server, rule.server or "*") and tool.is_called(rule.tool or "*")
