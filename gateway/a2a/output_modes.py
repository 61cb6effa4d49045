"""The media types that a client accepts (`acceptedOutputModes`). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import attrs

from ...actors.a2a.wire.a2a_errors import A2AError
from ...actors.a2a.wire.task import (
    Artifact,
    ArtifactUpdate,
    Data,
    File,
    Link,
    Message,
    Part,
    StatusUpdate,
    StreamItem,
    Task,
    Text,
)

OFFERED = ("text/plain", "application/json")
"""The media types of answers; tools may add files of other types."""

_KINDS = {"text": "text/*", "data": "application/json", "file": "*/*"}
"""The words of older clients, with their media types."""


def _normal(modes: Sequence[str]) -> frozenset[str]:
    normal = (_KINDS.get(mode, mode).partition(";")[0].strip().lower() for mode in modes)
    return frozenset("*" if mode.partition("/")[0] == "*" else mode for mode in normal)


@attrs.frozen
class OutputModes:
    _modes: frozenset[str] = attrs.field(converter=_normal)
    """In lower case, without parameters, a wildcard always as `*`; empty: all. A set, because a client may
    send very many."""

    def check(self) -> None:
        """Raises `A2AError` CONTENT_TYPE_NOT_SUPPORTED if the client accepts no media type of the agent."""
        if not any(map(self._accepts, OFFERED)):
            offered = " and ".join(OFFERED)
            raise A2AError("CONTENT_TYPE_NOT_SUPPORTED", f"the agent answers in {offered}")

    def item(self, item: StreamItem) -> StreamItem | None:
        """The item without the parts of artifacts that the client does not accept; None: nothing is left. A
        text is sent nevertheless if it is all that an artifact has."""
        match item:
            case Task():
                shown = (self._artifact(artifact) for artifact in item.artifacts)
                return attrs.evolve(item, artifacts=tuple(each for each in shown if each is not None))
            case ArtifactUpdate():
                artifact = self._artifact(item.artifact)
                return None if artifact is None else attrs.evolve(item, artifact=artifact)
            case Message() | StatusUpdate():
                return item
            case _:
                assert_never(item)

    def _artifact(self, artifact: Artifact) -> Artifact | None:
        accepted = tuple(part for part in artifact.parts if self._accepts(_type_of(part)))
        # Rather a text than no answer. By default, CrewAI 1.15.30 accepts JSON only (crewai/a2a/config.py)
        # and reads texts only.
        parts = accepted or tuple(part for part in artifact.parts if _type_of(part) == "text/plain")
        return attrs.evolve(artifact, parts=parts) if parts else None

    def _accepts(self, media_type: str) -> bool:
        kind = media_type.partition("/")[0]
        return not self._modes or not self._modes.isdisjoint(("*", f"{kind}/*", media_type))


def _type_of(part: Part) -> str:
    default = {Text: "text/plain", Data: "application/json", File: "*/*", Link: "*/*"}[type(part)]
    return (part.media_type or default).partition(";")[0].lower()
