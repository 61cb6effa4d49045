"""The frames of live streams: one JSON object for each event, the same for websockets and for SSE. Pure."""

from __future__ import annotations

from typing import Any, TypeAlias, assert_never

from ..actors.conversation.watch import Announced, Gap
from ..actors.log.deltas import ModelDelta, ToolProgress
from ..runtime.journal.protocol import Event
from .http import chunked_json, sse
from .views import delta_view, event_view, progress_view

Frame: TypeAlias = Event | Announced | ModelDelta | ToolProgress | Gap

GAP = "gap"


def as_message(frame: Frame) -> bytes:
    """The text message of a websocket."""
    return chunked_json.encode(_object(frame))


def as_sse(frame: Frame) -> bytes:
    """The server-sent event. Only events of the journal have an id: their place in their conversation."""
    value = _object(frame)
    return sse.encode(frame.seq if isinstance(frame, Event) else None, value["type"], value)


def _object(frame: Frame) -> dict[str, Any]:
    match frame:
        case Event():
            return event_view(frame)
        case Announced():
            return {**event_view(frame.event), "status": frame.status}
        case ModelDelta():
            return delta_view(frame)
        case ToolProgress():
            return progress_view(frame)
        case Gap():
            return {"type": GAP}
        case _:
            assert_never(frame)
