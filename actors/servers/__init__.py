"""The tool servers as the rest of the agent sees them, whatever their protocol.

Belongs here: the published state of each server and the health that follows from it, the wait for the
authorization of a server, the credential of a caller, and the masking of secrets in what servers send. Not
here: a protocol (`actors/mcp`, `actors/a2a`), the tools themselves (`actors/tools`). Read first:
`server_directory.py`.
"""
