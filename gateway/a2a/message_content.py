"""Conversion of a client's message to the text and the pictures that the agent gets. Pure."""

from __future__ import annotations

import json
from typing import assert_never

from ...actors.a2a.wire.a2a_errors import A2AError
from ...actors.a2a.wire.task import Data, File, Link, Message, Part, Text
from ..contract import attachments
from ..contract.attachments import Content, UnusableFile


def content_of(message: Message) -> Content:
    """All parts, a paragraph each.

    Raises `A2AError` CONTENT_TYPE_NOT_SUPPORTED for a file that is neither text nor a picture, and
    INVALID_PARAMS without text.
    """
    try:
        content = attachments.content_of(map(_part, message.parts))
    except UnusableFile as error:
        raise A2AError("CONTENT_TYPE_NOT_SUPPORTED", str(error)) from None
    if not content.text.strip():
        raise A2AError("INVALID_PARAMS", "the message has no text")
    return content


def _part(part: Part) -> attachments.MessagePart:
    match part:
        case Text(text=text):
            return text
        case Data(data=data):
            return json.dumps(data, ensure_ascii=False)
        case Link(url=url, media_type=media_type, filename=name):
            return attachments.FileAddress(url, media_type, name)
        case File(content=content, media_type=media_type, filename=name):
            return attachments.File(content, media_type, name)
        case _:
            assert_never(part)
