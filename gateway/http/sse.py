"""Server-sent events on the wire (WHATWG HTML, 9.2). Pure."""

from __future__ import annotations

from ...runtime.json_text import dump_wire

CONTENT_TYPE = "text/event-stream"


def encode(id: int | None, event: str, data: object) -> bytes:
    """One event. The data is one line, for JSON escapes line ends within strings.

    Without an id it does not count for where a client that comes back was.
    """
    place = "" if id is None else f"id: {id}\n"
    return f"{place}event: {event}\ndata: ".encode() + dump_wire(data) + b"\n\n"


def comment(text: str) -> bytes:
    """What clients ignore and connections are kept alive by."""
    return f": {text}\n\n".encode()


def retry(seconds: float) -> bytes:
    """How long a client waits before it comes back."""
    return f"retry: {round(seconds * 1000)}\n\n".encode()
