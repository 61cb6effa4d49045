"""The behaviour of a node, by its kind."""

from __future__ import annotations

from typing import assert_never

from stopgo.actors.nodes.checkpoint import checkpoint
from stopgo.actors.nodes.llm import llm
from stopgo.actors.nodes.loop import loop
from stopgo.actors.nodes.node import Execute, RunScope
from stopgo.actors.nodes.parallel import parallel
from stopgo.actors.nodes.router import router
from stopgo.actors.nodes.sequential import sequential
from stopgo.config.nodes import (
    CheckpointNode,
    LlmNode,
    LoopNode,
    Node,
    ParallelNode,
    RouterNode,
    SequentialNode,
)
from stopgo.runtime.context import Behaviour


def node(spec: Node, scope: RunScope) -> Behaviour[Execute]:
    match spec:
        case LlmNode():
            return llm(spec, scope)
        case SequentialNode():
            return sequential(spec, scope)
        case ParallelNode():
            return parallel(spec, scope)
        case LoopNode():
            return loop(spec, scope)
        case RouterNode():
            return router(spec, scope)
        case CheckpointNode():
            return checkpoint(spec, scope)
        case _:
            assert_never(spec)
