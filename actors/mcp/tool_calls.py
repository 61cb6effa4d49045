"""`tools/call` as it goes over the wire, in each era of the protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, Any

from stopgo.actors.mcp.asking import answer_to_wire
from stopgo.actors.mcp.content import repair_result
from stopgo.actors.mcp.requests import Outgoing, Requester
from stopgo.actors.tools import ElicitationAnswer, Progress, Tool

if TYPE_CHECKING:
    import mcp_types as types

METHOD = "tools/call"
CLIENT_NAME = "stopgo"
CAPABILITIES: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}}
"""What this client offers to servers."""


@cache
def client_version() -> str:
    """Ours, which servers are told."""
    return version_of("agent-stop-and-go")


class ToolCalls:
    """Calls of the tools of one server, over one life of its connection.

    What the SDK would send and accept is what goes here, too (MCP 2025-11-25 and 2026-07-28, "Tools"; the
    latter also "Standard headers" and "Request metadata").
    """

    def __init__(self, way: Requester, version: str) -> None:
        """
        Args:
            version: of the protocol.
        """
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        self._way = way
        self._version = version
        self._modern = version in MODERN_PROTOCOL_VERSIONS
        self._meta = _request_metadata(version) if self._modern else {}
        self._schemas: dict[str, Mapping[str, Any]] = {}
        self._header_maps: dict[str, dict[tuple[str, ...], str]] = {}
        """For each tool that was called: which arguments go into which headers."""

    def listed(self, tools: Iterable[Tool]) -> None:
        """Take note of what the server lists: schemas say which arguments go into headers as well."""
        self._schemas = {tool.name: tool.input_schema for tool in tools}
        self._header_maps = {}

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        answers: Mapping[str, ElicitationAnswer] | None = None,
        state: str | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Make one call.

        Args:
            answers, state: of a call that was answered with questions.

        Raises:
            MCPError, Unsendable: see `Requester`.
            pydantic.ValidationError: the result is not one.
        """
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        if answers:
            params["inputResponses"] = {
                name: answer_to_wire(answer).model_dump(by_alias=True, mode="json", exclude_none=True)
                for name, answer in answers.items()
            }
        if state is not None:
            params["requestState"] = state
        if self._meta:
            params["_meta"] = self._meta
        headers = self._headers(tool, arguments)
        return self._read(await self._way.request(Outgoing(METHOD, params, headers, on_progress)))

    def _headers(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, str]:
        from mcp.shared.inbound import (
            MCP_METHOD_HEADER,
            MCP_NAME_HEADER,
            MCP_PROTOCOL_VERSION_HEADER,
            encode_header_value,
            mcp_param_headers,
            x_mcp_header_map,
        )

        headers = {MCP_PROTOCOL_VERSION_HEADER: self._version}
        if self._modern:
            headers[MCP_METHOD_HEADER] = METHOD
            headers[MCP_NAME_HEADER] = encode_header_value(tool)
            if tool not in self._header_maps and tool in self._schemas:
                self._header_maps[tool] = x_mcp_header_map(dict(self._schemas[tool]))
            if header_map := self._header_maps.get(tool):
                headers.update(mcp_param_headers(header_map, arguments))
        return headers

    def _read(self, result: dict[str, Any]) -> types.CallToolResult | types.InputRequiredResult:
        """The result, made readable; one that does not say its type, which newer servers must, is taken for a
        complete one."""
        import mcp_types as types
        from mcp_types.methods import validate_server_result

        if self._modern:
            result.setdefault("resultType", "complete")
        repair_result(result)
        validate_server_result(METHOD, self._version, result)
        if self._modern and result["resultType"] == "input_required":
            return types.InputRequiredResult.model_validate(result, by_name=False)
        return types.CallToolResult.model_validate(result, by_name=False)


def _request_metadata(version: str) -> dict[str, Any]:
    """What every request of the newer era says about who makes it."""
    from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY

    return {
        PROTOCOL_VERSION_META_KEY: version,
        CLIENT_INFO_META_KEY: {"name": CLIENT_NAME, "version": client_version()},
        CLIENT_CAPABILITIES_META_KEY: CAPABILITIES,
    }
