"""Trees that nest kinds of nodes around one leaf, and what has to be executed of them after every no."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

KINDS = ("sequential", "sequential on_reject", "loop", "loop on_reject", "parallel", "router")
"""Those with `on_reject` continue after a rejection."""
ROUNDS = 2

Spec = dict[str, Any]


def nested(kinds: Sequence[str], leaf: Mapping[str, Any], *, forgiving: bool = False, **other: Any) -> Spec:
    """The leaf in nodes of these kinds, the outermost first. Each of them has a second child, an llm node
    with the settings `other`. The names of both end with the number of nodes from there to the leaf. If
    `forgiving`, each tries again after a failure, and the node above it goes on after a second one."""
    if not kinds:
        return dict(leaf)
    type, _, on_reject = kinds[0].partition(" ")
    inner = nested(kinds[1:], leaf, forgiving=forgiving, **other)
    agents = [inner, {"type": "llm", "name": f"other{len(kinds)}", "prompt": "Go on.", **other}]
    node: Spec = {"type": type, "name": f"{type}{len(kinds)}", "agents": agents}
    if forgiving:
        node |= {"retries": 1, "on_error": "collect" if type == "parallel" else "continue"}
    if on_reject:
        node[on_reject] = "continue"
    if type == "loop":
        node["max_iterations"] = ROUNDS
    if type == "router":
        node["routes"] = [{"when": {"user_message": {"exists": True}}, "agent": inner["name"]}]
    return node


def executed(kinds: Sequence[str]) -> tuple[Counter[str], bool]:
    """How often each node that has no children is executed, and whether a rejection leaves the tree. A
    failure after the rejection changes nothing, unless `is_told`."""
    if not kinds:
        return Counter(["leaf"]), True
    type, _, on_reject = kinds[0].partition(" ")
    times, rejected = executed(kinds[1:])
    other = Counter([f"other{len(kinds)}"])
    match type:
        case "parallel":
            return times + other, rejected
        case "router":
            return times, rejected
    if rejected:
        return times, not on_reject
    rounds = ROUNDS if type == "loop" else 1
    return sum((times + other for _ in range(rounds)), Counter()), False


def is_told(kinds: Sequence[str]) -> bool:
    """Whether the leaf's model is told of the no, for nothing above it ends."""
    return not any(kind.startswith(("sequential", "loop")) for kind in kinds)
