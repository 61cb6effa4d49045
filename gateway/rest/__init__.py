"""The routes of the HTTP contract, and the views that they return.

Belongs here: from a request to a call of the agent, and from its result to a body or frames. Not here: the
contract itself (`gateway/contract`), HTTP without agents (`gateway/http`). Read first:
`conversation_routes.py`, then `views.py`.
"""
