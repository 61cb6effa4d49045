"""Pictures in results of tools and in messages of users, for models that take them. Pure.

A block of a result is a picture for models if

* it is an `image` block, or an embedded resource with the bytes of one (MCP 2025-11-25, "Tool Result"),
* its data is base64 and begins like a PNG, JPEG, GIF or WebP file, the formats that all providers take,
* it has at most `MAX_BYTES` bytes.

The first bytes decide the media type, because providers refuse a wrong one. Pictures are never encoded anew.
Of all other blocks, models get only the line in the text.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import attrs

MediaType: TypeAlias = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]

MAX_BYTES = 3_750_000
"""Claude refuses pictures above 5 MiB of base64, Bedrock above 3.75 MB."""
MOST = 20
"""Pictures in a request, and in a message of a user. With more, Claude bounds their size to 2,000 pixels."""
MOST_CHARACTERS = 15_000_000
"""Base64 of the pictures in a request, or in a message of a user. All providers take requests of 20 MB."""

_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_DATA_URL = re.compile(r"data:[^,]{0,100},")
_TO_STANDARD = str.maketrans("-_", "+/")
_HEAD = 16
"""Characters that hold the first twelve bytes."""


@attrs.frozen
class Picture:
    """A picture for models. `picture_in` makes one from a file."""

    media_type: MediaType
    """The media type that the first bytes show."""
    data: str = attrs.field(repr=False)
    """The file as base64."""

    @property
    def url(self) -> str:
        """The picture as a `data:` address."""
        return f"data:{self.media_type};base64,{self.data}"

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return byte_count(self.data)


def pictures_of(blocks: Iterable[Mapping[str, Any]]) -> tuple[Picture, ...]:
    """The pictures in the content blocks of a result, in order."""
    return tuple(picture for data in map(_data, blocks) if data and (picture := picture_in(data)) is not None)


def surplus(sizes: Sequence[int]) -> int:
    """The number of oldest pictures to leave out, so that the others are within the bounds of a request.

    Args:
        sizes: the characters of base64 of all pictures, the oldest first.
    """
    room, kept = MOST_CHARACTERS, 0
    for size in reversed(sizes[-MOST:]):
        if size > room:
            break
        room -= size
        kept += 1
    return len(sizes) - kept


def _data(block: Mapping[str, Any]) -> str:
    match block:
        case {"type": "image", "data": str(data)} | {"type": "resource", "resource": {"blob": str(data)}}:
            return data
        case _:
            return ""


def byte_count(data: str) -> int:
    """The bytes of a file in base64."""
    return len(data) * 3 // 4 - data[-2:].count("=")


def plain_base64(data: str) -> str:
    """The standard form of base64 that may be a `data:` address, have lines as in a mail or the URL-safe
    alphabet, or lack its padding. Nothing is checked."""
    start, rest = _DATA_URL.sub("", data[:120], count=1), data[120:]
    bare = "".join(start.split()) + "".join(rest.split())
    bare = bare.translate(_TO_STANDARD)
    return bare + "=" * (-len(bare) % 4)


def picture_in(data: str) -> Picture | None:
    """The picture in base64; None if it is none, or larger than `MAX_BYTES`."""
    if len(data) * 3 // 4 > MAX_BYTES + _HEAD:
        return None
    bare = plain_base64(data)
    if not _BASE64.fullmatch(bare) or byte_count(bare) > MAX_BYTES:
        return None
    media_type = next(_media_types(bare[:_HEAD]), None)
    return None if media_type is None else Picture(media_type, bare)


def _media_types(head: str) -> Iterator[MediaType]:
    try:
        first = b64decode(head)
    except binascii.Error:
        return
    if first.startswith(b"\x89PNG\r\n\x1a\n"):
        yield "image/png"
    if first.startswith(b"\xff\xd8\xff"):
        yield "image/jpeg"
    if first.startswith((b"GIF87a", b"GIF89a")):
        yield "image/gif"
    if first.startswith(b"RIFF") and first[8:12] == b"WEBP":
        yield "image/webp"
