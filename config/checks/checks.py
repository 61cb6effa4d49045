"""Checks that compare several places of a file: the tree of nodes, names and prices of models, names of
agents, and the credentials of tool servers and agents.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import TypeVar

from ..described.shape import Flag
from ..described.wording import nearest
from ..reading.reader import Reader
from ..sections.a2a import API_KEY_HEADER, REMOTE_NAME, RemoteAgentConfig
from ..sections.agent_config import AgentConfig
from ..sections.mcp import McpServerConfig, plain_server_name
from ..sections.models import PROVIDERS, UnknownModel, parse_model, prices_of, reachable_models
from ..sections.nodes import LoopNode
from ..sections.placeholders import name_in_file
from ..text.values import (
    KeyPath,
    Scalar,
    Table,
    Value,
    as_list,
    dotted,
    entries,
    entry,
    items,
    mark_of,
    placed,
    quoted,
)
from .delegates import ConfiguredDelegate, delegates
from .tree import nodes_of
from .unknown_names import rule_lists, unknown_names

S = TypeVar("S", bound=McpServerConfig | RemoteAgentConfig)


def check_tree(reader: Reader, written: Value) -> None:
    """Report mistakes that concern more than one node."""
    reader.check_unique(nodes_of(written), "node name")
    _check_exits(reader, written, ("agent",), in_loop=False)
    for node, path in nodes_of(written):
        if isinstance(node, Table):
            _check_routes(reader, node, path)


def _check_exits(reader: Reader, node: Value, path: KeyPath, *, in_loop: bool) -> None:
    if not isinstance(node, Table):
        return
    can_exit = node.entries.get("can_exit_loop")
    at = (*path, "can_exit_loop")
    if can_exit is not None and not in_loop and reader.read(can_exit, Flag(), at) is True:
        hint = "put the node below a loop node"
        reader.report("not_in_loop", "there is no loop to exit", can_exit.mark, at, hint=hint)
    kind = node.entries.get("type")
    in_loop = in_loop or (isinstance(kind, Scalar) and kind.value == LoopNode.TYPE)
    for index, child in enumerate(items(entry(node, "agents"))):
        _check_exits(reader, child, (*path, "agents", index), in_loop=in_loop)


def _check_routes(reader: Reader, node: Table, path: KeyPath) -> None:
    named: list[tuple[Value, KeyPath]] = []
    for index, route in enumerate(items(entry(node, "routes"))):
        if (agent := entry(route, "agent")) is not None:
            named.append((agent, (*path, "routes", index, "agent")))
    if "default" in node.entries:
        named.append((node.entries["default"], (*path, "default")))
    children = [entry(child, "name") for child in items(entry(node, "agents"))]
    written = [str(name.value) for name in children if isinstance(name, Scalar)]
    known = {reader.text_of(name) for name in children if name is not None}
    for name, at in named:
        text = reader.text_of(name)
        if not isinstance(name, Scalar) or not text or text in known:
            continue
        message = f"none of the router's agents is called {quoted(str(name.value))}"
        hint = nearest(str(name.value), written) or f"its agents: {', '.join(map(quoted, written))}"
        reader.report("unknown_agent", message, name.mark, at, hint=hint)


# ----------------------------------------------------------------- models


def check_model_names(reader: Reader, root: Table, own_providers: Collection[str]) -> None:
    """Report every name of a model that cannot be resolved; `own_providers` are valid besides `PROVIDERS`."""
    models = root.entries.get("models")
    named = models.entries if isinstance(models, Table) else {}
    for name in named:
        if ":" in name:
            assert isinstance(models, Table)
            message = f"{quoted(name)} has a colon, so it means a provider and its model"
            mark = models.key_marks.get(name)
            reader.report("bad_name", message, mark, ("models", name), hint="choose a name without a colon")
    for value, path in model_names(root):
        _check_model(reader, value, path, named, own_providers)


def _check_model(
    reader: Reader, value: Value, path: KeyPath, named: Collection[str], own_providers: Collection[str]
) -> None:
    name = reader.text_of(value)
    if not isinstance(value, Scalar) or not name or name in named:
        return
    if name.partition(":")[0] in own_providers:
        return
    try:
        parse_model(name)
    except UnknownModel:
        # The message quotes the file, because the value of a variable may be secret.
        written = str(value.value)
        provider, _, rest = written.partition(":")
        if provider in PROVIDERS:
            hint = f"write {provider}:NAME"
        else:
            known = () if "${" in written else (*named, *(f"{each}:{rest}" for each in PROVIDERS))
            hint = nearest(written, known) or f"providers: {', '.join(PROVIDERS)}"
        reader.report("unknown_model", f"there is no model {quoted(written)}", value.mark, path, hint=hint)


def check_prices(reader: Reader, root: Table, config: AgentConfig) -> None:
    """Report a limit in dollars if a model has no prices."""
    unpriced = [
        name
        for name in dict.fromkeys(reachable_models(config.agent, config.llm, config.models))
        if prices_of(name, config.models) is None
    ]
    if not unpriced:
        return
    limits = root.entries.get("limits")
    for section, key, path in (
        (limits, "max_cost_usd", ("limits",)),
        (entry(limits, "conversation"), "max_cost_usd", ("limits", "conversation")),
        (entry(root.entries.get("auth"), "limits"), "cost_usd_per_day", ("auth", "limits")),
    ):
        if (limit := entry(section, key)) is not None:
            message = f"there are no prices for {', '.join(map(quoted, unpriced))}"
            hint = "name the model under `models` and give its prices"
            reader.report("prices_missing", message, limit.mark, (*path, key), hint=hint)


def model_names(root: Table) -> Iterator[tuple[Value, KeyPath]]:
    """Every value that names a model, with its path.

    A default, or a model from the command line, is one value at many nodes; it is yielded once.
    """
    named = entries(root.entries.get("models"))
    found = [
        *_models_of(root.entries.get("llm"), ("llm",)),
        *(each for name, model in named.items() for each in _fallbacks(model, ("models", name))),
        *(each for node, path in nodes_of(root.entries["agent"]) for each in _models_of(node, path)),
    ]
    seen: set[int] = set()
    for value, path in found:
        if id(value) not in seen:
            seen.add(id(value))
            yield value, path


def _models_of(value: Value | None, path: KeyPath) -> Iterator[tuple[Value, KeyPath]]:
    if (model := entry(value, "model")) is not None:
        yield model, (*path, "model")
    yield from _fallbacks(value, path)


def _fallbacks(value: Value | None, path: KeyPath) -> Iterator[tuple[Value, KeyPath]]:
    for index, name in enumerate(items(entry(value, "fallbacks"))):
        yield name, (*path, "fallbacks", index)


def misspelled(root: Table) -> Iterator[str]:
    """A warning for every name that counts as a model of Google, but does not look like one."""
    named = entries(root.entries.get("models"))
    for value, path in model_names(root):
        name = value.value if isinstance(value, Scalar) else None
        if not isinstance(name, str) or "${" in name or ":" in name or name in named:
            continue
        if parse_model(name)[0] == "google" and not name.startswith("gem"):
            is_provider = name in PROVIDERS
            other = f"write {name}:NAME" if is_provider else f"write {quoted(f'google:{name}')} if it is one"
            hint = nearest(name, named) or other
            yield f"{dotted(path)}: {quoted(name)} counts as a model of Google ({hint})"


# ----------------------------------------------------------------- tool servers and agents


def check_names(reader: Reader, root: Table, config: AgentConfig) -> None:
    """Report every name of a server, agent or node that does not exist, where that is a mistake."""
    for name in unknown_names(config, root):
        if name.is_mistake:
            reader.report(f"unknown_{name.kind}", name.message, name.mark, name.path, hint=name.hint)


def check_closed_rules(reader: Reader, root: Table, config: AgentConfig) -> None:
    """Report ranges with one end in rules with `only_these_arguments`. A range without a lower end has all
    negative numbers in it, and a closed rule says all that a call may be."""
    placed_rules = (each for rules, _ in rule_lists(config, root) for each in rules)
    for rule, written, path in placed_rules:
        for name, condition in rule.arguments.items() if rule.only_these_arguments else ():
            if (condition.above is None) == (condition.below is None):
                continue
            given, other = ("above", "below") if condition.below is None else ("below", "above")
            at = entry(entry(entry(written, "arguments"), name), given)
            reader.report(
                "missing_key",
                f"in a rule with only_these_arguments, a range has both ends; {other} is missing",
                mark_of(at),
                (*path, "arguments", name, given),
                hint=f"add {other}",
            )


def check_server_names(reader: Reader, root: Table, config: AgentConfig) -> None:
    """Report servers whose tools would have the same prefixed names."""
    first: dict[str, str] = {}
    for server, given, path in _entries(root, "mcp_servers", config.mcp_servers):
        other = first.setdefault(plain_server_name(server.name), server.name)
        if other != server.name:
            message = f"in names of tools, {quoted(server.name)} cannot be told from {quoted(other)}"
            reader.report("duplicate_name", message, given.entries["name"].mark, path)


def check_bearers(reader: Reader, root: Table, config: AgentConfig) -> None:
    """Report servers and agents whose own credentials would be replaced by the tokens of requests, and agents
    with two API keys."""
    _check_bearers(reader, root, "mcp_servers", config.mcp_servers)
    _check_bearers(reader, root, "a2a", config.a2a)
    for agent, given, path in _entries(root, "a2a", config.a2a):
        if agent.api_key is not None and any(name.lower() == "x-api-key" for name in agent.headers):
            message, hint = f"headers has {API_KEY_HEADER}, too", "leave out one of the two"
            mark, at = given.entries["api_key"].mark, (*path, "api_key")
            reader.report("conflicting_keys", message, mark, at, hint=hint)


def _check_bearers(
    reader: Reader, root: Table, section: str, servers: tuple[McpServerConfig | RemoteAgentConfig, ...]
) -> None:
    for server, given, path in _entries(root, section, servers):
        if server.forward_bearer and (own := server.own_credentials):
            reader.report(
                "conflicting_keys",
                f"forward_bearer: true would send the tokens of requests in place of {own}",
                given.entries["forward_bearer"].mark,
                (*path, "forward_bearer"),
                hint="leave out one of the two",
            )


def _entries(root: Table, section: str, servers: tuple[S, ...]) -> Iterator[tuple[S, Table, KeyPath]]:
    """The servers or agents of a section, with their entries in the file: a list or a mapping."""
    written = root.entries.get(section)
    listed = root.with_entries({section: as_list(written)}) if isinstance(written, Table) else root
    keys = tuple(entries(written))
    for index, (server, given, path) in enumerate(placed(servers, listed, (), section)):
        if isinstance(given, Table):
            yield server, given, (section, keys[index]) if keys else path


def check_delegates(reader: Reader, root: Table, config: AgentConfig) -> None:
    """Report names that mean two agents, and names of nodes that cannot be names of agents."""
    first: dict[str, ConfiguredDelegate] = {}
    for each in delegates(config, root):
        mark, at = mark_of(entry(each.written, "name")), (*each.path, "name")
        if not re.fullmatch(REMOTE_NAME["pattern"], each.agent.name):
            message = f"a node with a url gives its name to the agent; expected {REMOTE_NAME['meaning']}"
            reader.report("bad_name", message, mark, at, hint="or name the agent in the top-level a2a")
            continue
        earlier = first.setdefault(each.agent.name, each)
        # Duplicate names in the top-level `a2a` have been reported already.
        if each.path[0] == "a2a" or not (differing := list(_differing(earlier.agent, each.agent))):
            continue
        there = mark_of(entry(earlier.written, "name"))
        line = f" than on line {there.line}" if there else ""
        message = (
            f"the agent {quoted(name_in_file(each.written))} has another {' and '.join(differing)}{line}"
        )
        hint = f"use another name, or the same {' and '.join(differing)}"
        reader.report("duplicate_name", message, mark, at, hint=hint)


def _differing(one: RemoteAgentConfig, other: RemoteAgentConfig) -> Iterator[str]:
    if one.url != other.url:
        yield "url"
    if one.description != other.description:
        yield "description"
    if one.destructive_hint != other.destructive_hint:
        yield "destructiveHint"
