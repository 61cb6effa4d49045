"""The fields of an AG-UI request that the agent reads, with the names of that protocol.

The events are in `gateway/agui/agui_events.py`; the protocol itself documents them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from .declaration import Shape, about, maybe


class AGUIMessage(Shape):
    """A message in the history that the client keeps."""

    id: str = about("Id of the message; it serves as the idempotency key.")
    role: str = about("`user`, or another role of AG-UI.")
    content: str = about("Text, or a list of [parts](agui.md#files).")


class ResumeEntry(Shape):
    """The answer to one interrupt."""

    interruptId: str = about("Id of the interrupt: the UUID of the approval.")
    status: Literal["resolved", "cancelled"] = about("`cancelled`: there is no answer.")
    payload: Mapping[str, Any] | None = maybe("The answer, as in the `responseSchema` of the interrupt.")


class RunAgentInput(Shape):
    """A request of AG-UI. Other fields are ignored."""

    threadId: str = about("Id of a conversation, or any other text, which creates one.")
    runId: str = about("Returned in the events.")
    messages: Sequence[AGUIMessage] = about("The last message with the role `user` is sent to the agent.")
    resume: Sequence[ResumeEntry] | None = maybe("Answers to interrupts; with these, `messages` is ignored.")


class AGUIEvent(Shape):
    """An [event](agui.md#the-stream) of AG-UI."""

    type: str = about("Type of the event, which determines the other fields.")
