"""The end of a task for A2A clients. Only scripts choose it, because test kits expect every possible end.

The run itself finishes as usual.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import attrs

A2AState: TypeAlias = Literal[
    "completed", "failed", "rejected", "canceled", "input-required", "auth-required", "message"
]
"""State of the task. `message`: the client gets a message instead of a task."""

# No two kinds of artifact have a required field in common, because stored JSON has no other mark of the kind.


@attrs.frozen
class TextArtifact:
    chunks: tuple[str, ...]
    """Each chunk is one event for a client that streams."""


@attrs.frozen
class FileArtifact:
    content: str
    """Text of the file."""
    name: str | None = None
    media_type: str | None = None


@attrs.frozen
class LinkArtifact:
    url: str
    """URL of the file."""
    name: str | None = None
    media_type: str | None = None


@attrs.frozen
class DataArtifact:
    data: Mapping[str, Any]
    """JSON."""


ScriptedArtifact: TypeAlias = TextArtifact | FileArtifact | LinkArtifact | DataArtifact


@attrs.frozen
class A2AEnd:
    state: A2AState
    artifact: ScriptedArtifact | None = None
