"""Tool servers that speak MCP: one actor for each, with its connection.

Belongs here: all code that knows MCP; its `transports` and its `wire` formats have rooms of their own. Not
here: tools as the rest of the runtime knows them (`actors/tools`). Read first: `server.py`, then
`connection.py` (the owner's side) and `caller.py` (the callers' side).
"""
