"""Agent2Agent: calls to remote agents, and the wire formats that `gateway/a2a` serves with as well.

Belongs here: the actor of a remote agent, its HTTP client, and in `wire/` all JSON of the protocol. Not here:
serving this agent to others (`gateway/a2a`). Read first: `wire/task.py`.
"""
