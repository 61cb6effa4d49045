"""The clients of other processes: a running agent over HTTP and websocket, and MCP servers."""
