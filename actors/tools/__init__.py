"""Tools, independent of the protocol that offers them.

Belongs here: the registry, names, the hints that count when a server changes them (`known.py`), and the
limits of concurrent calls. Not here: a protocol (`actors/mcp`), a policy (`actors/gate`), the check of
arguments (`actors/arguments`), the state of servers (`actors/servers`). Read first: `tool.py`, then
`registry.py`.
"""
