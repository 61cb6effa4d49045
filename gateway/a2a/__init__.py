"""A2A: other agents call this one, in version 1.0, in version 0.3 and in an older dialect.

Belongs here: the objects of the protocol, a codec for each version, and the routes. Not here: how this agent
calls others (`actors`). Read first: `task.py`, then `task_view.py` and `a2a_routes.py`.
"""
