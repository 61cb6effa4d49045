"""A2A: the server side, for agents that call this one in version 1.0, version 0.3 or an older dialect.

Belongs here: the routes, and the mapping of tasks, answers and notifications to conversations. Not here: the
wire formats, and the client side (`actors/a2a`). Read first: `task_log.py`, then `task_server.py`
and `a2a_routes.py`.
"""
