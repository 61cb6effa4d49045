"""What is published of a model's reply while it comes, and of a tool's call while it is under way.

It is in no journal: who misses it misses nothing.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from ..models.messages import Delta
from ..tools.tool import Progress

MODEL_DELTA = "model.delta"
TOOL_PROGRESS = "tool.progress"
"""The types of deltas in the streams of clients, beside the types of events."""


@attrs.frozen
class ModelDelta:
    """A further piece of a reply. Nothing is done about it before the whole reply is there."""

    conversation: str
    after: int
    """The seq of the last event before it."""
    key: str
    """Of the model call; the ``step.finished`` that ends it has the same."""
    node: str
    model: str
    """Who says it."""
    attempt: int
    """Which try of this call, from 1, over all models that are asked: a higher one begins the reply anew."""
    delta: Delta


@attrs.frozen
class ToolProgress:
    """How far a call is, as its server tells it."""

    conversation: str
    after: int
    """The seq of the last event before it."""
    key: str
    """Of the call; its ``tool.started`` has the same."""
    attempt: int
    node: str
    tool: str
    server: str
    progress: Progress


Passing: TypeAlias = ModelDelta | ToolProgress
"""What is told while something is under way, beside the events."""
