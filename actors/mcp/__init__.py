"""Tool servers that speak MCP: one actor for each, with its connection, transports and wire formats.

Belongs here: all code that knows MCP. Not here: tools as the rest of the runtime knows them
(`actors/tools`). Read first: `server.py`, then `connection.py` (the owner's side), `caller.py` (the
callers' side) and `wire.py` (from MCP's types to ours).

| transport | file |
|---|---|
| a child process | `stdio.py` |
| Streamable HTTP | `streamable.py`, over `http.py` |
| HTTP with SSE, up to 2024-11-05 | `legacy_sse.py`, over `http.py` |
| an object of this process | `in_process.py` |

Every transport carries the messages of the SDK's session (`sdk_shims.py`) and our own tool calls
(`requests.py`). `sdk.py` is the only importer of the SDK.
"""
