"""The frames of live streams: one JSON object for each event, the same for websockets and for SSE. Pure."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from ...actors.agent.watch import Announced, Gap
from ...actors.gate.halt import HaltState
from ...actors.log.words.deltas import ModelDelta, ToolProgress
from ...runtime.journal.protocol import Event
from ...runtime.json_text import dump_wire
from ..contract import frame_shapes as f
from ..http import sse
from .views import delta_view, event_view, halt_view, progress_view

Frame: TypeAlias = Event | Announced | ModelDelta | ToolProgress | HaltState | Gap


def as_message(frame: Frame) -> bytes:
    """The text message of a websocket."""
    return dump_wire(_shape(frame))


def as_sse(frame: Frame) -> bytes:
    """The server-sent event. Only journal events have an id: their seq, which is a cursor to resume from."""
    shape = _shape(frame)
    return sse.encode(shape, shape.type, frame.seq if isinstance(frame, Event) else None)


def _shape(frame: Frame) -> f.Frame:
    match frame:
        case Event():
            return event_view(frame)
        case Announced():
            return event_view(frame.event, frame.status)
        case ModelDelta():
            return delta_view(frame)
        case ToolProgress():
            return progress_view(frame)
        case HaltState():
            return f.HaltFrame(**vars(halt_view(frame)))
        case Gap():
            return f.Gap()
        case _:
            assert_never(frame)
