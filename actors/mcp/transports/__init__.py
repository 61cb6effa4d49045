"""The ways in which messages reach an MCP server.

| transport | file |
|---|---|
| a child process | `stdio.py`; `watcher.py` ends it if the agent is killed |
| Streamable HTTP | `streamable.py`, over `http.py` |
| HTTP with SSE, up to 2024-11-05 | `legacy_sse.py`, over `http.py` |
| an object of this process | `in_process.py` |

Every transport carries the messages of the SDK's session (`wire/sdk_shims.py`) and our own tool calls
(`wire/requests.py`).
"""
