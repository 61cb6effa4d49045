"""Encoding of server-sent events (WHATWG HTML, 9.2). Pure. The decoder is `actors/common/sse_parser.py`."""

from __future__ import annotations

from ...runtime.json_text import dump_wire

CONTENT_TYPE = "text/event-stream"


def encode(data: object, event: str | None = None, id: int | None = None) -> bytes:
    """Encode one event. The data is one line, because JSON escapes line ends in strings.

    An event without an id does not change the position from which a client resumes.
    """
    head = "" if id is None else f"id: {id}\n"
    if event is not None:
        head += f"event: {event}\n"
    return f"{head}data: ".encode() + dump_wire(data) + b"\n\n"


def comment(text: str) -> bytes:
    """Encode a comment, which clients ignore; it keeps the connection alive."""
    return f": {text}\n\n".encode()


def retry(seconds: float) -> bytes:
    """Encode the time that a client waits before it reconnects."""
    return f"retry: {round(seconds * 1000)}\n\n".encode()
