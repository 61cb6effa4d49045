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
    """Id of the conversation."""
    after: int
    """The seq of the last event before it."""
    key: str
    """Of the model call; the ``step.finished`` that ends it has the same."""
    node: str
    """The node that asked."""
    model: str
    """Who says it."""
    attempt: int
    """Which try of this call, from 1, over all models that are asked: a higher one begins the reply anew."""
    delta: Delta
    """The piece."""


@attrs.frozen
class ToolProgress:
    """How far a call is, as its server tells it."""

    conversation: str
    """Id of the conversation."""
    after: int
    """The seq of the last event before it."""
    key: str
    """Of the call; its ``tool.started`` has the same."""
    attempt: int
    """Which attempt of the call, from 1."""
    node: str
    """The node whose model made the call."""
    tool: str
    """Name of the tool."""
    server: str
    """Its server."""
    progress: Progress
    """What the server tells."""


Passing: TypeAlias = ModelDelta | ToolProgress
"""What is told while something is under way, beside the events."""
