"""Tool servers that speak MCP: one actor for each, with its connection, transports and wire formats.

Belongs here: whatever knows MCP. Does not: tools as the rest of the runtime knows them (`actors/tools`).
Read first: `server.py`, then `connection.py` (its owner's side) and `caller.py` (its callers').
"""
