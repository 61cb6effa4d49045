"""Programs of ours that are MCP servers themselves: the SQLite resource server.

Belongs here: tools that come with the product. Does not: the client side of MCP (`actors/mcp`). Read first:
`resources.py`.
"""
