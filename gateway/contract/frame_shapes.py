"""The frames of the live streams: journal events, and frames that are never stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from ...actors.log.fold.head import Status
from ...actors.log.words.deltas import MODEL_DELTA, TOOL_PROGRESS
from .declaration import Shape, about, maybe
from .shapes import Time
from .system_shapes import Halt


class Event(Shape):
    """An event of a conversation's journal. `type` and `body` are in the table of [types](#types)."""

    conversation_id: str = about("The conversation.")
    seq: int = about("Number of the event, from 1 without gaps; the cursor of the conversation's stream.")
    type: str = about("Type of the event.")
    at: Time = about("Time of the event.")
    body: Mapping[str, Any] = about("Fields of the event, by type.")
    status: Status | None = maybe(
        "The conversation's status after the event; only in a stream over all conversations."
    )


class ArgumentsPiece(Shape):
    """A piece of the arguments of a tool call."""

    index: int = about("Index of the call in the reply.")
    name: str = about("The tool.")
    json: str = about("The next piece of the JSON text.")


class Delta(Shape):
    """A piece of a model's reply, while the model generates it: text, or arguments of a tool call."""

    type = MODEL_DELTA

    conversation_id: str = about("The conversation.")
    key: str = about("Key of the model call, as in its `step.finished`.")
    node: str = about("The node that made the call.")
    model: str = about("The model, as named in the agent file.")
    attempt: int = about("Number of the attempt, from 1 over all models. A higher one replaces the reply.")
    text: str | None = maybe("The next piece of text.")
    call: ArgumentsPiece | None = maybe("The next piece of a call's arguments.")


class Progress(Shape):
    """The progress of a tool call, as its server reports it."""

    type = TOOL_PROGRESS

    conversation_id: str = about("The conversation.")
    key: str = about("Key of the call, as in its `tool.started`.")
    node: str = about("The node whose model made the call.")
    tool: str = about("The tool.")
    server: str = about("The tool server.")
    attempt: int = about("Number of the attempt, from 1.")
    progress: float = about("Amount of work done. Servers should increase it; the agent does not check this.")
    total: float | None = maybe("Total amount of work.")
    message: str | None = maybe("Description of the current work, up to 500 characters.")


class Heartbeat(Shape):
    """The connection is alive: sent by websockets after 15 seconds without another frame."""

    type = "heartbeat"


class HaltFrame(Halt):
    """The agent was [halted](../guides/halt.md), or a halt has ended.

    Only in streams over all conversations; their filters do not exclude it.
    """

    type = "halt"


class Gap(Shape):
    """Frames may be missing here: the client was slow, or the news of a node was lost. Read the lists again.

    Only in streams over all conversations.
    """

    type = "gap"


Frame: TypeAlias = Event | Delta | Progress | Heartbeat | HaltFrame | Gap
