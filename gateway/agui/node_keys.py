"""The node executions in the key of a step, a call or a question. Pure.

For example, ``1/.0!2.1:3.0`` is the first call of the third reply of node ``1/.0!2.1``, whose parent ``1/.0``
is in its second attempt. `actors/log/events.py` defines the keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

_NODE = re.compile(r"\d+/(?:\.\d+|@\d+|!\d+)*")
_PART = re.compile(r"\d+/|\.\d+|@\d+|!\d+")


@attrs.frozen
class Execution:
    """One execution of a node, including all its attempts."""

    key: str
    name: str
    is_branch: bool
    """Whether its parent runs it concurrently with others (`type: parallel`)."""


def executions(key: str, tree: Mapping[str, Any]) -> Sequence[Execution]:
    """The executions that contain a key, from the root down. `tree` is the stored form of the run's tree; a
    node that is missing there is named by its key."""
    return tuple(_executions(key, tree))


def _executions(key: str, node: Mapping[str, Any]) -> Iterator[Execution]:
    found = _NODE.match(key)
    if found is None:
        return
    for part in _PART.finditer(found[0]):
        here = key[: part.end()]
        if part[0].endswith("/"):
            yield Execution(here, _name(node, here), is_branch=False)
        elif part[0].startswith("."):
            is_branch = node.get("type") == "parallel"
            children, index = node.get("agents"), int(part[0][1:])
            node = children[index] if isinstance(children, list) and index < len(children) else {}
            yield Execution(here, _name(node, here), is_branch)


def _name(node: Mapping[str, Any], key: str) -> str:
    name = node.get("name")
    return name if isinstance(name, str) else key
