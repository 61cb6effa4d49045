"""Random trees of all kinds of nodes, at most four levels deep, in the form of the agent file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, TypeVar

import attrs

DEPTH = 4
NODES = 8
"""The approximate number of nodes of a tree."""

Spec = dict[str, Any]
SpecT = TypeVar("SpecT", bound=Mapping[str, Any])


@attrs.define(eq=False)
class _Grower:
    rng: Random
    version: int
    left: int = NODES
    named: int = 0

    def maybe(self, chance: float) -> bool:
        return self.rng.random() < chance

    def node(self, depth: int, *, in_loop: bool = False) -> Spec:
        self.left -= 1
        inner = depth < DEPTH and self.left > 0
        kinds = ["llm"] * 4 + ["approval"] + ["sequential", "parallel", "loop", "router"] * 3 * inner
        if depth == 1:
            kinds = ["llm", *(["sequential", "parallel", "loop", "router"] * 2)]
        kind = self.rng.choice(kinds)
        self.named += 1
        spec: Spec = {"type": kind, "name": f"v{self.version}n{self.named}"}
        match kind:
            case "llm":
                self._llm(spec, in_loop)
            case "approval":
                spec["message"] = "May {user_message} go on in round {iteration}? So far: {a}"
            case _:
                self._group(spec, depth, in_loop)
        self._common(spec)
        return spec

    def _common(self, spec: Spec) -> None:
        if self.maybe(0.3):
            spec["output_key"] = self.rng.choice("abc")
        if self.maybe(0.25):
            spec["retries"] = self.rng.randint(1, 2)
        if self.maybe(0.1):
            spec["timeout"] = self.rng.choice([0.5, 3.0, 20.0])
        if self.maybe(0.2):
            spec["on_error"] = "collect" if spec["type"] == "parallel" else "continue"
        if self.maybe(0.15):
            spec["approval"] = self._override()
        if self.maybe(0.05):
            spec["tools"] = ["p*", "wipe"]

    def _override(self) -> Spec:
        return self.rng.choice(
            [
                {"in_parallel": "ask", "in_loop": "ask"},
                {"unannotated": "ask"},
                {"expires_after": 30.0, "on_expiry": self.rng.choice(["reject", "fail"])},
                {"rules": [{"tool": "bump", "then": "ask"}]},
                {"rules": [{"tool": "post", "arguments": {"level": {"below": 5}}, "then": "ask"}]},
            ]
        )

    def _llm(self, spec: Spec, in_loop: bool) -> None:
        spec["prompt"] = f"You are {spec['name']}, of round {{iteration}}, and know {{a}}, {{b}} and {{c}}."
        spec["model"] = "test:model"
        spec["max_turns"] = self.rng.choice([2, 4, 10])
        if self.maybe(0.1):
            spec["max_tool_calls"] = 2
        if self.maybe(0.2):
            spec["history"] = "turn"
        if in_loop and self.maybe(0.6):
            spec["can_exit_loop"] = True

    def _group(self, spec: Spec, depth: int, in_loop: bool) -> None:
        kind = spec["type"]
        in_loop = in_loop or kind == "loop"
        count = self.rng.randint(1 if kind == "loop" else 2, 3)
        agents = [self.node(depth + 1, in_loop=in_loop) for _ in range(count)]
        spec["agents"] = agents
        if kind == "loop":
            spec["max_iterations"] = self.rng.randint(1, 3)
        if kind == "parallel" and self.maybe(0.4):
            spec["max_concurrency"] = self.rng.randint(1, 2)
        if kind == "router":
            self._ways_out(spec, [each["name"] for each in agents])

    def _ways_out(self, spec: Spec, names: list[str]) -> None:
        if self.maybe(0.5):
            spec["model"] = "test:model"
            return
        when = self.rng.choice([{"a": {"exists": True}}, {"user_message": {"matches": "[02468]$"}}])
        spec["routes"] = [{"when": when, "agent": self.rng.choice(names)}]
        if self.maybe(0.8):
            spec["default"] = self.rng.choice(names)


def grow(rng: Random, version: int) -> Spec:
    """A tree whose names contain its `version`."""
    return _Grower(rng, version).node(1)


def with_rejections_contained(rng: Random, spec: Spec) -> Spec:
    """The same tree with `on_reject: continue` in some nodes."""
    for _, node in walk(spec):
        if node["type"] in ("sequential", "loop") and rng.random() < 0.3:
            node["on_reject"] = "continue"
    return spec


def with_agents(rng: Random, spec: Spec, agent: str) -> Spec:
    """The same tree with another agent in place of some models."""
    for _, node in walk(spec):
        if node["type"] == "llm" and "can_exit_loop" not in node and rng.random() < 0.4:
            kept = {key: node[key] for key in node if key not in _OF_MODELS}
            node.clear()
            prompt = f"{{user_message}}.{kept['name']}.{{iteration}}"
            node.update(kept, type="a2a", agent=agent, prompt=prompt)
    return spec


_OF_MODELS = frozenset({"model", "prompt", "max_turns", "max_tool_calls", "history", "tools"})

Path = tuple[int, ...]


def walk(spec: SpecT, path: Path = ()) -> Iterator[tuple[Path, SpecT]]:
    """Every node with the indices that lead to it, parents first."""
    yield path, spec
    for index, child in enumerate(spec.get("agents", ())):
        yield from walk(child, (*path, index))
