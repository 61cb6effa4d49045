"""The parts of A2A artifacts, made from tool results and from scripted replies. Pure.

The content blocks of a tool result are those of MCP (2025-11-25, server/tools, "Tool Result").
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, assert_never

from ...actors.a2a.wire.task import Data, File, Link, Part, Text
from ...actors.models.messages.a2a_end import (
    DataArtifact,
    FileArtifact,
    LinkArtifact,
    ScriptedArtifact,
    TextArtifact,
)
from ...actors.tools.tool import ToolResult


def of_script(artifact: ScriptedArtifact) -> Sequence[Part]:
    """Return the parts of a scripted artifact. The caller sends each part in an update of its own."""
    match artifact:
        case TextArtifact(chunks=chunks):
            return tuple(map(Text, chunks))
        case FileArtifact(content=content, name=name, media_type=media_type):
            return (File(base64.b64encode(content.encode()).decode(), media_type, name),)
        case LinkArtifact(url=url, name=name, media_type=media_type):
            return (Link(url, media_type, name),)
        case DataArtifact(data=data):
            return (Data(data),)
        case _:
            assert_never(artifact)


def of_result(result: ToolResult) -> Sequence[Part]:
    """Return the files and the data of a tool result. Text blocks are omitted, because the final answer
    reports them."""
    parts = [part for block in result.parts for part in _part(block)]
    if result.structured is not None:
        parts.append(Data(result.structured))
    return tuple(parts)


def _part(block: Mapping[str, Any]) -> Iterator[Part]:
    media_type = block.get("mimeType")
    match block:
        case {"type": "image" | "audio", "data": str(data)}:
            yield File(data, media_type)
        case {"type": "resource", "resource": Mapping() as resource}:
            yield from _resource(resource)
        case {"type": "resource_link", "uri": str(url)}:
            yield Link(url, media_type, block.get("name"))
        case _:
            return


def _resource(resource: Mapping[str, Any]) -> Iterator[Part]:
    name = str(resource.get("uri", "")).rpartition("/")[2] or None
    match resource:
        case {"blob": str(data)}:
            yield File(data, resource.get("mimeType"), name)
        case {"text": str(text)}:
            yield Text(text, resource.get("mimeType"), name)
        case _:
            return
