"""The messages of MCP, their bounds, and their meaning for the agent.

Belongs here: from MCP's types to ours and back (`wire.py`), requests and replies, errors, and the limits of
what arrives. `sdk.py` is the only importer of the SDK. Not here: connections (`transports`).
"""
