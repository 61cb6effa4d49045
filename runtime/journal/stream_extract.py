"""What a reader has made of the first events of a stream, to read only the later ones the next time.

An extract is derived from the events: it may be missing or lost at any time, copies leave it out, and earlier
programs ignore it. It ends with its stream. The journal does not interpret it.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class Extract:
    seq: int
    """That of the last event in it."""
    form: str
    """The form of the text. A reader asks for its own, because members of several versions may write them."""
    text: str = attrs.field(repr=False)


def extract_of(columns: tuple[object, ...] | None) -> Extract | None:
    """Convert a row; None if there is none, or if it is damaged."""
    match columns:
        case (int(seq), str(form), str(text)) if seq > 0:
            return Extract(seq, form, text)
    return None
