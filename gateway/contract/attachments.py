"""Conversion of the files in a user's message to text and pictures for the agent. Pure.

The rules for A2A, AG-UI and the HTTP contract:

| a file | becomes |
|---|---|
| that begins like a PNG, JPEG, GIF or WebP | a picture, with a line in the text that names it |
| of a text type, in UTF-8 | text, after the name of the file |
| at an address | a line with the address, which is never fetched; a `data:` address is read |
| of any other type, or beyond the bounds | `UnusableFile` |

Models that take no pictures get the line only.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from typing import TypeAlias, assert_never
from urllib.parse import unquote_to_bytes

import attrs

from ...actors.tools.pictures import (
    MAX_BYTES,
    MOST,
    MOST_CHARACTERS,
    Picture,
    byte_count,
    picture_in,
    plain_base64,
)
from ..http.errors import RequestError

MAX_TEXT_FILE = 256 * 1024
"""Maximum bytes of a file of text."""
_LONGEST_NAME = 200
_LONGEST_TYPE = 100

_TEXT_TYPE = re.compile(r"text/.*|application/((.*\+)?(json|xml|yaml)|x-yaml|toml|x-ndjson|javascript)")
_DATA_URL = re.compile(r"data:([^,;]{0,100})(?:;[^,]{0,100}?)??(;\s*base64)?,", re.IGNORECASE)
"""RFC 2397."""


@attrs.frozen
class File:
    """The content of a file."""

    data: str = attrs.field(repr=False)
    """The bytes in base64."""
    media_type: str | None = None
    name: str | None = None


@attrs.frozen
class FileAddress:
    """The address of a file."""

    url: str
    media_type: str | None = None
    name: str | None = None


MessagePart: TypeAlias = str | File | FileAddress


@attrs.frozen
class Content:
    """A message of a user, as `Agent.send` takes it."""

    text: str
    pictures: tuple[Picture, ...] = ()


class UnusableFile(Exception):
    """A file that the agent cannot use. The text is for its sender."""

    def __init__(self, index: int, text: str) -> None:
        super().__init__(text)
        self.index = index
        """The number of the part, from 0."""

    def refused(self, place: str) -> RequestError:
        """The answer to its sender. `place` is the field of the file."""
        text = f"{place} cannot be used: {self}"
        return RequestError(422, "unusable_file", text, details={"field": place})


def content_of(parts: Iterable[MessagePart], *, between: str = "\n\n") -> Content:
    """The text and the pictures of a message. `between` joins the texts of the parts.

    Raises `UnusableFile`.
    """
    texts: list[str] = []
    pictures: list[Picture] = []
    for index, part in enumerate(parts):
        try:
            read = _read(part)
        except ValueError as error:
            raise UnusableFile(index, str(error)) from None
        texts.append(read.text)
        pictures += read.pictures
        if len(pictures) > MOST or sum(len(each.data) for each in pictures) > MOST_CHARACTERS:
            bounds = f"{MOST} pictures with {MOST_CHARACTERS // 1_000_000} MB of base64"
            raise UnusableFile(index, f"a message may have at most {bounds}")
    return Content(between.join(filter(None, texts)), tuple(pictures))


def _read(part: MessagePart) -> Content:
    """Raises ValueError with the reason of `UnusableFile`."""
    match part:
        case str():
            return Content(part)
        case FileAddress(source, media_type, name) | File(source, media_type, name):
            if source[:5].lower() == "data:":  # some clients send one in place of base64, too
                return _file(_from_data_url(source, media_type, name))
            if isinstance(part, File):
                return _file(part)
            return Content(" ".join(filter(None, ("File", _line(name)[:_LONGEST_NAME], "at", _line(source)))))
        case _:
            assert_never(part)


def _from_data_url(url: str, media_type: str | None, name: str | None) -> File:
    found = _DATA_URL.match(url)
    if found is None:
        raise ValueError("the `data:` address has no content")
    content = url[found.end() :]
    data = content if found[2] else base64.b64encode(unquote_to_bytes(content)).decode()
    return File(data, media_type or found[1] or "text/plain", name)


def _file(file: File) -> Content:
    name, given = _line(file.name)[:_LONGEST_NAME], _line(file.media_type)[:_LONGEST_TYPE]
    if (picture := picture_in(file.data)) is not None:
        about = f"{picture.media_type}, {picture.size} bytes"
        return Content(f"[image{name and f' {name}'}: {about}]", (picture,))
    whose, media_type = name or "file", given.partition(";")[0].strip().lower()
    data = plain_base64(file.data)
    size = byte_count(data)
    if media_type.startswith("image/"):
        why = (
            f"larger than {MAX_BYTES} bytes" if size > MAX_BYTES else "not a PNG, JPEG, GIF or WebP in base64"
        )
        raise ValueError(f"{whose} ({given}): {why}")
    if not _TEXT_TYPE.fullmatch(media_type):
        about = f"{given or 'no media type'}, {size} bytes"
        raise ValueError(f"{whose} ({about}): only texts and pictures are read")
    if size > MAX_TEXT_FILE:
        raise ValueError(f"{whose}: larger than {MAX_TEXT_FILE} bytes")
    try:
        text = base64.b64decode(data, validate=True).decode("utf-8-sig")
    except ValueError:  # of base64, or of UTF-8
        text = "\0"
    if "\0" in text:
        raise ValueError(f"{whose}: no text in UTF-8 and base64")
    return Content(f"{whose}:\n{text}")


def _line(value: str | None) -> str:
    """A value of the sender on one line, without control characters."""
    return " ".join("".join(each if each.isprintable() else " " for each in value or "").split())
