"""The node executions in the key of a step, a call or a question. Pure.

For example, ``1/.0!2.1:3.0`` is the first call of the third reply of node ``1/.0!2.1``, whose parent ``1/.0``
is in its second attempt. `actors/log/words/keys.py` defines the keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from ...actors.log.words import keys
from ...config.sections.nodes import KINDS


@attrs.frozen
class Execution:
    """One execution of a node, including all its attempts."""

    key: str
    name: str
    is_branch: bool
    """Whether its parent runs it concurrently with others, as `type: parallel` does."""


def executions(key: str, tree: Mapping[str, Any]) -> Sequence[Execution]:
    """The executions that contain a key, from the root down. `tree` is the stored form of the run's tree; a
    node that is missing there is named by its key."""
    return tuple(_executions(key, tree))


def _executions(key: str, node: Mapping[str, Any]) -> Iterator[Execution]:
    for here, index in keys.descent(key):
        kind = KINDS.get(str(node.get("type")))
        is_branch = index is not None and kind is not None and "together" in kind.runs
        if index is not None:
            children = node.get("agents")
            node = children[index] if isinstance(children, list) and index < len(children) else {}
        yield Execution(here, _name(node, here), is_branch)


def _name(node: Mapping[str, Any], key: str) -> str:
    name = node.get("name")
    return name if isinstance(name, str) else key
