"""MCP servers that come with the product: the SQLite resource server.

Belongs here: the tools of the product itself. Not here: the client side of MCP (`actors/mcp`). Read first:
`resources.py`.
"""
