"""Tool servers that speak MCP: one actor for each, with its connection, transports and wire formats.

Belongs here: all code that knows MCP. Not here: tools as the rest of the runtime knows them
(`actors/tools`). Read first: `server.py`, then `connection.py` (the owner's side), `caller.py` (the
callers' side) and `wire.py` (from MCP's types to ours).
"""
