"""The request of AG-UI, as far as the agent reads it. Its field names are those of that protocol.

The events are in `gateway/agui/agui_events.py`: clients know them from the protocol itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from .declaration import Shape, about, maybe


class AGUIMessage(Shape):
    """A message in the history that the client keeps."""

    id: str = about("Id of the message: its idempotency key.")
    role: str = about("`user`, or another role of AG-UI.")
    content: str = about("Text; AG-UI also allows a list of parts, which must have the type `text`.")


class ResumeEntry(Shape):
    """The answer to one interrupt."""

    interruptId: str = about("Id of the interrupt: the UUID of the approval.")
    status: Literal["resolved", "cancelled"] = about("`cancelled`: without an answer.")
    payload: Mapping[str, Any] | None = maybe("The answer, as the `responseSchema` of the interrupt says.")


class RunAgentInput(Shape):
    """A request of AG-UI. Other fields are ignored."""

    threadId: str = about("Id of a conversation, or any other text, which creates one.")
    runId: str = about("Returned in the events.")
    messages: Sequence[AGUIMessage] = about("The last message of the role `user` counts.")
    resume: Sequence[ResumeEntry] | None = maybe("Answers to interrupts; with these, `messages` is ignored.")


class AGUIEvent(Shape):
    """An [event](agui.md#the-stream) of AG-UI."""

    type: str = about("Type of the event, which says what other fields there are.")
