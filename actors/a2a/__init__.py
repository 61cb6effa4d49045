"""A2A from both sides: other agents are called here, and `gateway` serves with the same wire formats.

Belongs here: the actor of a remote agent and its HTTP client; `wire/` is all JSON of the protocol. Not here:
how this agent is served to others (`gateway/a2a`). Read first: `wire/task.py`.
"""
