"""A2A: other agents call this one, in version 1.0, in version 0.3 and in an older dialect.

Belongs here: the routes, and what tasks, answers and notifications are in terms of this agent. Not here: the
wire formats, and how this agent calls others (`actors/a2a`). Read first: `task_log.py`, then `task_server.py`
and `a2a_routes.py`.
"""
