"""The one place that imports the MCP SDK (`mcp` and `mcp_types`), for the whole product.

Loading the SDK takes about a second of CPU, which an agent without tool servers must not pay. So this module
imports everything at its top, and the other modules here import this one at theirs; the package as a whole
is loaded lazily, in one place: `server.py`, when the first server starts. `server.py`, `environment.py` and
`lines.py` can be imported without the SDK. `tests/test_direction.py` checks all of this.

Names below the line "Private" are not part of the SDK's public interface: any of its releases may rename
them. `tests/actors/mcp/test_sdk_names.py` names those that are gone. Therefore `pyproject.toml` bounds the
version of the SDK to one minor release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import mcp_types as types
from mcp import Client, MCPError
from mcp.client.auth import OAuthFlowError
from mcp.client.session import ClientRequestContext, ElicitationFnT
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp.server import MCPServer, Server
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    PROTOCOL_VERSION_META_KEY,
    REQUEST_TIMEOUT,
    DiscoverResult,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    ErrorData,
    Implementation,
    InputRequiredResult,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from mcp_types.methods import parse_server_result
from mcp_types.version import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_MODERN_VERSION,
    MODERN_PROTOCOL_VERSIONS,
)

# ------------------------------------------------------------- Private
# isort: split
from mcp.client._memory import InMemoryTransport
from mcp.client._transport import ReadStream, TransportStreams, WriteStream
from mcp.shared._context_streams import ContextReceiveStream
from mcp.shared._httpx_utils import redirect_location, stream_within_origin
from mcp.shared.inbound import encode_header_value, mcp_param_headers, x_mcp_header_map

if TYPE_CHECKING:
    from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider

ServerObject: TypeAlias = MCPServer | Server[Any]
"""A server that the program brings."""


def client_credentials_provider() -> type[ClientCredentialsOAuthProvider]:
    """Load the OAuth provider on first use: it loads `cryptography`, which few agents need."""
    from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider

    return ClientCredentialsOAuthProvider


__all__ = [
    "CLIENT_CAPABILITIES_META_KEY",
    "CLIENT_INFO_META_KEY",
    "CONNECTION_CLOSED",
    "HANDSHAKE_PROTOCOL_VERSIONS",
    "HEADER_MISMATCH",
    "LATEST_MODERN_VERSION",
    "MODERN_PROTOCOL_VERSIONS",
    "PROTOCOL_VERSION_META_KEY",
    "REQUEST_TIMEOUT",
    "Client",
    "ClientRequestContext",
    "ContextReceiveStream",
    "DiscoverResult",
    "ElicitRequestParams",
    "ElicitRequestURLParams",
    "ElicitResult",
    "ElicitationFnT",
    "ErrorData",
    "Implementation",
    "InMemoryTransport",
    "InputRequiredResult",
    "JSONRPCError",
    "JSONRPCMessage",
    "JSONRPCNotification",
    "JSONRPCRequest",
    "JSONRPCResponse",
    "MCPError",
    "MCPServer",
    "OAuthClientInformationFull",
    "OAuthFlowError",
    "OAuthToken",
    "ReadStream",
    "Server",
    "ServerMessageMetadata",
    "ServerObject",
    "SessionMessage",
    "SubscriptionLost",
    "TransportStreams",
    "WriteStream",
    "client_credentials_provider",
    "encode_header_value",
    "get_default_environment",
    "jsonrpc_message_adapter",
    "mcp_param_headers",
    "parse_server_result",
    "redirect_location",
    "stream_within_origin",
    "streamable_http_client",
    "types",
    "x_mcp_header_map",
]
