"""`{key}` in prompts: what an earlier node left under `output_key: key`."""

from __future__ import annotations

import re
from typing import assert_never

from stopgo.config.interpolate import MalformedReference, parse
from stopgo.config.model import LlmNode, Node, ParallelNode, SequentialNode
from stopgo.config.values import KeyPath, Scalar, Sequence, Table, Value, dotted, quoted

PLACEHOLDER = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""One placeholder; its group is the key. `${x}` is none: it is an escaped reference."""

USER_MESSAGE = "user_message"
"""Filled in every prompt with what the user said in this turn."""


def unfilled(node: Node, written: Value, path: KeyPath = ("agent",)) -> tuple[str, ...]:
    """A sentence for every placeholder that no node running before its prompt can fill.

    `written` is the same tree as it stands in the file: what a variable holds is not looked into.
    """
    warnings: list[str] = []
    _visit(node, written, path, frozenset({USER_MESSAGE}), warnings)
    return tuple(warnings)


def _visit(
    node: Node, written: Value, path: KeyPath, filled: frozenset[str], warnings: list[str]
) -> frozenset[str]:
    """Warn of what is in and below `node`; return the keys that are filled when it has run."""
    match node:
        case LlmNode():
            for key in _placeholders(_entry(written, "prompt")):
                if key not in filled:
                    warnings.append(
                        f"{dotted((*path, 'prompt'))}: {{{key}}} stays as it is, for no node that runs "
                        f"before {quoted(_name(written))} has output_key: {key}"
                    )
            after = filled
        case SequentialNode():
            after = filled
            for index, (child, child_written) in enumerate(_children(node, written)):
                after = _visit(child, child_written, (*path, "agents", index), after, warnings)
        case ParallelNode():
            after = filled
            for index, (child, child_written) in enumerate(_children(node, written)):
                after |= _visit(child, child_written, (*path, "agents", index), filled, warnings)
        case _:
            assert_never(node)
    return after | {node.output_key} if node.output_key else after


def _placeholders(prompt: Value | None) -> list[str]:
    if not isinstance(prompt, Scalar) or not isinstance(prompt.value, str):
        return []
    try:
        parts = parse(prompt.value)
    except MalformedReference:
        return []
    literal = "\0".join(part for part in parts if isinstance(part, str))
    return list(dict.fromkeys(PLACEHOLDER.findall(literal)))


def _children(node: SequentialNode | ParallelNode, written: Value) -> list[tuple[Node, Value]]:
    agents = _entry(written, "agents")
    return list(zip(node.agents, agents.items if isinstance(agents, Sequence) else (), strict=True))


def _entry(written: Value, key: str) -> Value | None:
    return written.entries.get(key) if isinstance(written, Table) else None


def _name(written: Value) -> str:
    name = _entry(written, "name")
    return str(name.value) if isinstance(name, Scalar) else ""
