"""Opaque places in a list: what `next_cursor` holds."""

from __future__ import annotations

import base64
import json
from typing import Literal, TypeAlias

from .. import json_text
from .errors import BadCursor

Listing: TypeAlias = Literal["streams", "questions"]

_LARGEST = 2**63


def write(listing: Listing, number: int) -> str:
    """The place just after item `number` of a listing."""
    return base64.urlsafe_b64encode(json.dumps([listing, number]).encode()).decode()


def read(listing: Listing, cursor: str) -> int:
    """The number `write` was given.

    Raises:
        BadCursor: it was not made by `write`, or for another listing.
    """
    try:
        text = base64.b64decode(cursor.encode(), altchars=b"-_", validate=True).decode()
        found, number = json_text.load(text)
    except (ValueError, TypeError):
        raise BadCursor("this cursor was not made by this journal") from None
    if found != listing or type(number) is not int or not 0 <= number < _LARGEST:
        raise BadCursor("this cursor was not made for this list")
    return number
