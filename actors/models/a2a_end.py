"""How a reply ends its task for A2A clients. Only scripts say so: test kits expect every end that there is.

The run itself finishes as usual.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import attrs

A2AState: TypeAlias = Literal[
    "completed", "failed", "rejected", "canceled", "input-required", "auth-required", "message"
]
"""Of the task; `message`: the client gets a message in place of a task."""

# No two kinds of artifact share a required field: by these, stored JSON tells them apart.


@attrs.frozen
class TextArtifact:
    chunks: tuple[str, ...]
    """Each is sent by itself to a client that streams."""


@attrs.frozen
class FileArtifact:
    content: str
    """Text."""
    name: str | None = None
    media_type: str | None = None


@attrs.frozen
class LinkArtifact:
    url: str
    """Of a file."""
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
