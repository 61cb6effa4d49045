"""Tools as the runtime knows them, whatever protocol offers them.

Belongs here: the registry, names, arguments and their schemas, which hints count when a server changes its
mind (`known.py`), and the last published state of servers, from which `health.py` tells how the agent is.
Not here: a protocol (`actors/mcp`), a policy (`actors/gate`). Read first: `tool.py`, then `registry.py`.
"""
