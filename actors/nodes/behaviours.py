"""The behaviour of a node, by its kind."""

from __future__ import annotations

from typing import assert_never

from ...config.sections.nodes import (
    CheckpointNode,
    LlmNode,
    LoopNode,
    Node,
    ParallelNode,
    RemoteAgentNode,
    RouterNode,
    SequentialNode,
)
from ...runtime.context import Behaviour
from ..run.scopes import Execute, RunScope
from .checkpoint import checkpoint
from .llm import llm
from .loop import loop
from .parallel import parallel
from .remote_agent import remote_agent
from .router import router
from .sequential import sequential


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
        case RemoteAgentNode():
            return remote_agent(spec, scope)
        case CheckpointNode():
            return checkpoint(spec, scope)
        case _:
            assert_never(spec)
