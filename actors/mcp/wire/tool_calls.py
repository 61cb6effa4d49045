"""`tools/call` on the wire, in each era of the protocol.

It follows MCP 2025-11-25 and 2026-07-28, "Tools". The newer era ("modern") adds metadata and headers to each
request ("Request metadata", "Standard headers"), and servers may answer with `InputRequiredResult`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from importlib.metadata import version as version_of
from typing import Any

import trio
from pydantic import ValidationError

from ....config.sections.mcp import StructuredText
from ...tools.tool import CallTool, Tool, ToolResult
from .failures import InvalidResult, Unsendable
from .message_bound import ABRIDGED
from .output_schema import OutputSchemas
from .requests import Outgoing, Requester
from .sdk import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    MODERN_PROTOCOL_VERSIONS,
    PROTOCOL_VERSION_META_KEY,
    InputRequiredResult,
    encode_header_value,
    mcp_param_headers,
    x_mcp_header_map,
)
from .wire import answer_to_wire, result_from_wire, validation_text

METHOD = "tools/call"
VERSION_HEADER = "mcp-protocol-version"
CLIENT_NAME = "stopgo"
CAPABILITIES: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}}
"""The capabilities that this client declares to servers."""


@cache
def client_version() -> str:
    """Return our version, which is sent to servers."""
    return version_of("agent-stop-and-go")


class ToolCalls:
    """Calls the tools of one server over one connection; sends and accepts what the SDK would."""

    def __init__(self, requests: Requester, version: str, structured: StructuredText = "append") -> None:
        """
        Args:
            version: the protocol version.
            structured: how structured content is shown beside text; see `McpServerConfig.structured`.
        """
        self._structured: StructuredText = structured
        self._requests = requests
        self._version = version
        self._modern = version in MODERN_PROTOCOL_VERSIONS
        self._meta = _request_metadata(version)
        self._outputs = OutputSchemas()
        self._schemas: dict[str, Mapping[str, Any]] = {}
        self._header_maps: dict[str, dict[tuple[str, ...], str]] = {}
        """For each tool that was called: the arguments that are also sent as headers."""

    def set_tools(self, tools: Collection[Tool]) -> None:
        """Set the tools; their schemas say which arguments are also sent as headers."""
        self._outputs.set_tools(tools)
        self._schemas = {tool.name: tool.input_schema for tool in tools}
        self._header_maps = {}

    async def call(self, request: CallTool) -> ToolResult | InputRequiredResult:
        """Send the call once.

        Raises:
            MCPError, Unsendable: see `Requester`.
            InvalidResult: the result is not valid.
        """
        tool, arguments = request.tool, request.arguments
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        if request.answers:
            params["inputResponses"] = {
                name: answer_to_wire(answer).model_dump(by_alias=True, mode="json", exclude_none=True)
                for name, answer in request.answers.items()
            }
        if request.state is not None:
            params["requestState"] = request.state
        if meta := self._metadata(request.traceparent):
            params["_meta"] = meta
        outgoing = Outgoing(METHOD, params, self._headers(tool, arguments), request.on_progress)
        await trio.lowlevel.checkpoint_if_cancelled()  # do not send a call that is cancelled
        if request.on_sent is not None:
            request.on_sent()
        result = await self._requests.request(outgoing)
        if result.get("resultType") == "input_required":
            if not self._modern:
                raise InvalidResult("it wants input in a way that this version of the protocol does not have")
            return _input_required(result)
        found = result_from_wire(result, self._structured)
        if ABRIDGED in (result.get("_meta") or ()):
            return found  # its structured content was dropped
        return self._outputs.checked(tool, found)

    def _metadata(self, traceparent: str | None) -> Mapping[str, Any]:
        """Return `_meta` of a call. The name `traceparent` is that of MCP 2026-07-28, "Trace context"."""
        meta = self._meta if self._modern else {}
        return meta if traceparent is None else {**meta, "traceparent": traceparent}

    def _headers(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, str]:
        headers = {VERSION_HEADER: self._version}
        if self._modern:
            headers["mcp-method"] = METHOD
            headers["mcp-name"] = encode_header_value(tool)
            if tool not in self._header_maps and tool in self._schemas:
                self._header_maps[tool] = x_mcp_header_map(dict(self._schemas[tool]))
            if header_map := self._header_maps.get(tool):
                try:
                    headers.update(mcp_param_headers(header_map, arguments))
                except UnicodeEncodeError as error:
                    raise Unsendable(str(error)) from error
        return headers


def _input_required(result: dict[str, Any]) -> InputRequiredResult:
    try:
        return InputRequiredResult.model_validate(result, by_name=False)
    except ValidationError as error:
        raise InvalidResult(validation_text(error)) from error


def _request_metadata(version: str) -> dict[str, Any]:
    """Return the metadata that every request of the newer era carries about its client."""
    return {
        PROTOCOL_VERSION_META_KEY: version,
        CLIENT_INFO_META_KEY: {"name": CLIENT_NAME, "version": client_version()},
        CLIENT_CAPABILITIES_META_KEY: CAPABILITIES,
    }
