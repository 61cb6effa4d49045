"""Conversion of a client's message to the text that the agent gets. Pure."""

from __future__ import annotations

import base64
import binascii
import json
from typing import assert_never

from ...actors.a2a.wire.a2a_errors import A2AError
from ...actors.a2a.wire.task import Data, File, Link, Message, Part, Text

MAX_FILE = 256 * 1024
"""Maximum bytes of a text file in the message."""


def text_of(message: Message) -> str:
    """All parts, a paragraph each. A URL is quoted and never fetched.

    Raises `A2AError` CONTENT_TYPE_NOT_SUPPORTED for a part that is not text, and INVALID_PARAMS without text.
    """
    text = "\n\n".join(filter(None, map(_part, message.parts)))
    if not text.strip():
        raise A2AError("INVALID_PARAMS", "the message has no text")
    return text


def _part(part: Part) -> str:
    match part:
        case Text(text=text):
            return text
        case Data(data=data):
            return json.dumps(data, ensure_ascii=False)
        case Link(url=url, filename=name):
            return f"File {name or ''} at {url}".replace("  ", " ")
        case File():
            return _file(part)
        case _:
            assert_never(part)


def _file(file: File) -> str:
    name = file.filename or "file"
    if not (file.media_type or "").startswith("text/") and file.media_type != "application/json":
        raise A2AError("CONTENT_TYPE_NOT_SUPPORTED", f"{name[:200]}: only files of text are read")
    try:
        data = base64.b64decode(file.content, validate=True)
        if len(data) > MAX_FILE:
            raise A2AError("CONTENT_TYPE_NOT_SUPPORTED", f"{name[:200]}: larger than {MAX_FILE} bytes")
        return f"{name}:\n{data.decode()}"
    except (binascii.Error, UnicodeDecodeError) as error:
        raise A2AError("CONTENT_TYPE_NOT_SUPPORTED", f"{name[:200]}: no text in base64") from error
