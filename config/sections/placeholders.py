"""`{key}` in prompts and messages, which stands for the answer of a node with `output_key: key`.

A key that a node of the tree writes, but has not written yet, stands for nothing; `{key?}` does so without a
warning. A key that no node writes stays as it is, because prompts have JSON and code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

import attrs

from ..text.interpolate import MalformedReference, parse
from ..text.values import KeyPath, Scalar, Table, Value, dotted, entry, items, quoted
from .agent_config import AgentConfig
from .nodes import ITERATION, LlmNode, Node, children_of

Placed: TypeAlias = tuple[Node, Value, KeyPath]
"""A node, its value in the file, and its path."""

PLACEHOLDER = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)(\??)\}")
"""One placeholder; its groups are the key and the mark that it may be missing. `${x}` does not match, because
it is an escaped reference."""

USER_MESSAGE = "user_message"
"""Filled everywhere with the user message of the turn."""


def unfilled(node: Node, written: Value, path: KeyPath = ("agent",)) -> tuple[str, ...]:
    """A warning for every placeholder that no earlier node can fill.

    `written` is the tree in the file. Placeholders in the values of variables are not checked.
    """
    warnings: list[str] = []
    _visit(node, written, path, frozenset({USER_MESSAGE}), _Warnings(frozenset(keys_left(node)), warnings))
    return tuple(warnings)


@attrs.frozen
class _Warnings:
    keys: frozenset[str]
    """The keys that nodes of the tree write."""
    texts: list[str]


def _visit(
    node: Node, written: Value, path: KeyPath, filled: frozenset[str], warnings: _Warnings
) -> frozenset[str]:
    """Warn of placeholders in and below `node`; return the keys that are filled after it has run."""
    children = list(children_with_place(node, written, path))
    kind = node.KIND
    if kind.fills is not None:
        _check(written, kind.fills, path, filled, warnings)
    after, inside = filled, filled.union(kind.gives)
    if "again" in kind.runs:
        # From the second iteration on, earlier nodes see the answers of later ones.
        inside = inside.union(*(keys_left(child) for child, _, _ in children))
    for child in children:
        after |= _visit(*child, inside, warnings).difference(kind.gives)
        if "in order" in kind.runs:
            inside |= after
    return after | {node.output_key} if node.output_key else after


def keys_left(node: Node) -> Iterator[str]:
    """The output keys of this node and of the nodes below it."""
    if node.output_key:
        yield node.output_key
    for child in children_of(node):
        yield from keys_left(child)


def works_on_its_key(node: Node, tree: Node) -> bool:
    """Whether a node replaces a value that has been made before: its prompt has the value under its own
    `output_key`, or another node of the tree writes that key, too."""
    prompt = node.prompt if isinstance(node, LlmNode) else ""
    used = {key for key, _ in PLACEHOLDER.findall(prompt)}
    return node.output_key in used or [*keys_left(tree)].count(node.output_key or "") > 1


def placed_nodes(config: AgentConfig, written: Table) -> Iterator[Placed]:
    """All nodes, parents first; `written` is the file of `config`."""
    return with_those_below((config.agent, written.entries["agent"], ("agent",)))


def with_those_below(top: Placed) -> Iterator[Placed]:
    """A node and all nodes below it, parents first."""
    yield top
    for child in children_with_place(*top):
        yield from with_those_below(child)


def children_with_place(node: Node, written: Value, path: KeyPath) -> Iterator[Placed]:
    """The nodes directly below a node, each with its value in the file and its path."""
    # Not strict, because `agents` at a kind of node without children is reported as an unknown key.
    for index, (child, item) in enumerate(
        zip(children_of(node), items(entry(written, "agents")), strict=False)
    ):
        yield child, item, (*path, "agents", index)


def name_in_file(written: Value) -> str:
    """The name of a node as written in the file, for people, with variables unexpanded."""
    name = entry(written, "name")
    return str(name.value) if isinstance(name, Scalar) else ""


def _check(written: Value, text: str, path: KeyPath, filled: frozenset[str], warnings: _Warnings) -> None:
    """`text` is the key of a prompt or a message."""
    for key, mark in _placeholders(entry(written, text)):
        if key in filled or (mark and key in warnings.keys):
            continue
        where, node = dotted((*path, text)), quoted(name_in_file(written))
        why = (
            f"{node} is in no loop"
            if key == ITERATION
            else f"no node that runs before {node} has output_key: {key}"
        )
        is_empty = key in warnings.keys and key != ITERATION
        what = f"is empty at first (as {{{key}?}} is without this warning)" if is_empty else "stays as it is"
        warnings.texts.append(f"{where}: {{{key}{mark}}} {what}, because {why}")


def _placeholders(prompt: Value | None) -> list[tuple[str, str]]:
    if not isinstance(prompt, Scalar) or not isinstance(prompt.value, str):
        return []
    try:
        parts = parse(prompt.value)
    except MalformedReference:
        return []
    literal = "\0".join(part for part in parts if isinstance(part, str))
    return list(dict.fromkeys(PLACEHOLDER.findall(literal)))
