"""The tree of nodes as written in the file: filled in before it is read, and stored to be read again."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import attrs

from ..described.shape import keys_of, names_of
from ..reading.reader import Reader
from ..sections.agent_config import DEFAULT_NAME, AgentConfig
from ..sections.approval import Rule
from ..sections.models import LlmConfig
from ..sections.nodes import ROUTER_PROMPT, LlmNode, Node, RemoteAgentNode, RouterNode, children_of
from ..sections.secrets import secrets_of_variables
from ..text.errors import ConfigError
from ..text.interpolate import escape
from ..text.values import KeyPath, Scalar, Sequence, Table, Value, entry, from_plain, items
from ..text.variables import Variables

Defaults: TypeAlias = Mapping[str, Mapping[str, Value]]
"""Values of omitted keys, by type of node."""

_OF_ADDRESS = {"url", *names_of(RemoteAgentNode, "destructiveHint")}

NODE = keys_of(AgentConfig)["agent"].shape


def fill_in(root: Table, model: str | None) -> Table:
    """Add a tree if the file has none, and add prompt and model to every node that asks a model.

    `model`, taken literally, replaces every model that the file names, and has only its own fallbacks.
    """
    llm = root.entries.get("llm", Table({}))
    instead = None if model is None else Scalar(escape(model))
    if instead is not None and isinstance(llm, Table):
        llm = llm.with_entries({"model": instead, "fallbacks": Sequence(())})
    llm_model = llm.entries.get("model") if isinstance(llm, Table) else None
    default_model = llm_model or Scalar(LlmConfig().model)
    defaults: Defaults = {
        LlmNode.TYPE: {"prompt": root.entries.get("prompt", Scalar("")), "model": default_model},
        RouterNode.TYPE: {"prompt": Scalar(ROUTER_PROMPT), "model": default_model},
    }
    name = root.entries.get("name", Scalar(DEFAULT_NAME))
    tree = root.entries.get("agent", Table({"type": Scalar(LlmNode.TYPE), "name": name}))
    return root.with_entries({"llm": llm, "agent": _filled(tree, defaults, instead)})


def tree_from_stored(
    stored: Mapping[str, object],
    *,
    environ: Mapping[str, str] = os.environ,
    data_dir: Path | None = None,
) -> Node:
    """The nodes of an `AgentConfig.stored_tree`, with the current values of variables.

    Raises `ConfigError`, for instance if a variable is no longer set.
    """
    reader = Reader("stored tree", Variables(environ, Path()), data_dir, may_be_empty=True)
    node = reader.read(from_plain(stored), NODE, ("agent",))
    if reader.problems:
        raise ConfigError(tuple(reader.problems))
    assert isinstance(node, Node)
    return node


def secrets_of_stored(stored: Mapping[str, object], lookup: Callable[[str], str | None]) -> tuple[str, ...]:
    """The secrets in the variables to which an `AgentConfig.stored_tree` refers."""
    return tuple(secrets_of_variables(from_plain(stored), lookup))


def tree_id(tree: Mapping[str, object]) -> str:
    """The id of a tree: a hash of its text, the same on every machine."""
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def without_addresses(tree: Value) -> Value:
    """The tree in the form that is stored. It has the names of remote agents only, because addresses and
    credentials come from the current file."""
    if not isinstance(tree, Table):
        return tree
    entries = dict(tree.entries)
    match entries:
        case {"type": Scalar(value=RemoteAgentNode.TYPE), "url": _, "name": name}:
            entries = {key: value for key, value in entries.items() if key not in _OF_ADDRESS}
            entries["agent"] = name
        case _:
            pass
    for key, stored in (("a2a", _name_alone), ("agents", without_addresses)):
        if isinstance(listed := entries.get(key), Sequence):
            entries[key] = attrs.evolve(listed, items=tuple(map(stored, listed.items)))
    return attrs.evolve(tree, entries=entries)


def _name_alone(entry: Value) -> Value:
    return entry.entries["name"] if isinstance(entry, Table) else entry


def nodes_of(value: Value, path: KeyPath = ("agent",)) -> Iterator[tuple[Value, KeyPath]]:
    """Every node of a tree in the file, with its path, parents first."""
    yield value, path
    for index, child in enumerate(items(entry(value, "agents"))):
        yield from nodes_of(child, (*path, "agents", index))


def with_paths(node: Node, path: str = "agent") -> Iterator[tuple[Node, str]]:
    """Every node of a tree with its dotted path, parents first."""
    yield node, path
    for index, child in enumerate(children_of(node)):
        yield from with_paths(child, f"{path}.agents[{index}]")


def rules_of(config: AgentConfig) -> Iterator[tuple[str, Rule]]:
    """Every rule, with its dotted path."""
    for index, rule in enumerate(config.approval.rules):
        yield f"approval.rules[{index}]", rule
    for node, path in with_paths(config.agent):
        own = node.approval.rules if node.approval is not None else None
        for index, rule in enumerate(own or ()):
            yield f"{path}.approval.rules[{index}]", rule


def _filled(value: Value, defaults: Defaults, model: Scalar | None) -> Value:
    if not isinstance(value, Table):
        return value
    entries = dict(value.entries)
    if (kind := _asks_a_model(value)) is not None:
        entries = {**defaults.get(kind, {}), **entries}
        if model is not None:
            entries["model"] = model
            entries.pop("fallbacks", None)
    match entries.get("agents"):
        case Sequence(items=items) as agents:
            filled = tuple(_filled(item, defaults, model) for item in items)
            entries["agents"] = Sequence(filled, agents.mark)
        case _:
            pass
    return attrs.evolve(value, entries=entries)


def _asks_a_model(node: Table) -> str | None:
    """The type of a node that asks a model; None for others."""
    match node.entries.get("type"):
        case Scalar(value=LlmNode.TYPE):
            return LlmNode.TYPE
        case Scalar(value=RouterNode.TYPE) if {"model", "fallbacks", "prompt"} & node.entries.keys():
            return RouterNode.TYPE if "routes" not in node.entries else None
        case _:
            return None
