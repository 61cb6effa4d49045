"""The edge: HTTP requests in, commands down; events up, responses out.

Belongs here: routes, wire shapes, the HTTP server, and the process around it. Does not: decisions about a
conversation; it calls `actors/agent.py` and nothing else that acts. Read first: `app.py`, then
`operations.py`.
"""
