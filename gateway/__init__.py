"""The edge: turns HTTP requests into commands, and events into responses.

Belongs here: routes, wire shapes, the HTTP server, and the process around it. Not here: decisions about a
conversation; the routes call `actors/agent/agent.py`. Read first: `app.py`, then `contract/operations.py`,
the table of routes.
"""
