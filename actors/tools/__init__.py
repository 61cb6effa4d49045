"""Tools, independent of the protocol that offers them.

Belongs here: the registry, names, arguments and their schemas, the hints that count when a server changes
them (`known.py`), and the last published state of servers, from which `health.py` makes the agent's health.
Not here: a protocol (`actors/mcp`), a policy (`actors/gate`). Read first: `tool.py`, then `registry.py`.
"""
