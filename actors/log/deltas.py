"""Deltas: pieces of a model's reply, and the progress of a tool call, published as they arrive.

They are never stored: the event at the end of the step holds all of it.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from ..models.messages import Delta
from ..tools.tool import Progress

MODEL_DELTA = "model.delta"
TOOL_PROGRESS = "tool.progress"
"""The types of deltas in the streams that clients read, next to the types of events."""


@attrs.frozen
class ModelDelta:
    """The next piece of a reply. The run acts only on the whole reply."""

    conversation: str
    """Id of the conversation."""
    after: int
    """The seq of the last event before it."""
    key: str
    """The key of the model call; its ``step.finished`` has the same."""
    node: str
    """The node that asked."""
    model: str
    """The model that replies."""
    attempt: int
    """Number of the attempt, from 1, counted over all models that are asked. A higher number starts the reply
    again."""
    delta: Delta
    """The piece."""


@attrs.frozen
class ToolProgress:
    """The progress of a tool call, as its server reports it."""

    conversation: str
    """Id of the conversation."""
    after: int
    """The seq of the last event before it."""
    key: str
    """The key of the call; its ``tool.started`` has the same."""
    attempt: int
    """Number of the attempt of the call, from 1."""
    node: str
    """The node whose model made the call."""
    tool: str
    """Name of the tool."""
    server: str
    """Its server."""
    progress: Progress
    """The server's report."""


AnyDelta: TypeAlias = ModelDelta | ToolProgress
"""Published next to the events."""
