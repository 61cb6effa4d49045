"""Deltas: pieces of a model's reply, and progress reports of a tool call, published as they arrive.

Deltas are never stored. The event that ends the model call or tool call has the whole reply or result.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from ...models.messages.messages import Delta
from ...tools.tool import Progress

MODEL_DELTA = "model.delta"
TOOL_PROGRESS = "tool.progress"
"""The types of deltas in the streams that clients read, next to the types of events."""


@attrs.frozen
class ModelDelta:
    """The next piece of a reply. The run acts only on the whole reply."""

    conversation: str
    """The id of the conversation."""
    after: int
    """The seq of the last event before the delta."""
    key: str
    """The key of the model call, also in its ``step.finished``."""
    node: str
    """The name of the node that called the model."""
    model: str
    """The name of the model."""
    attempt: int
    """The number of the attempt, from 1, counted across fallback models. A higher number starts the reply
    again."""
    delta: Delta
    """The piece."""


@attrs.frozen
class ToolProgress:
    """A progress report of a tool call."""

    conversation: str
    """The id of the conversation."""
    after: int
    """The seq of the last event before the delta."""
    key: str
    """The key of the call, also in its ``tool.started``."""
    attempt: int
    """The number of the attempt of the call, from 1."""
    node: str
    """The name of the node whose model made the call."""
    tool: str
    """The name of the tool."""
    server: str
    """The name of the tool's server."""
    progress: Progress
    """The report, as the server sent it."""


AnyDelta: TypeAlias = ModelDelta | ToolProgress
"""Any delta. Deltas are published in order with the events."""
