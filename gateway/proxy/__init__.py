"""The page of an agent at an address of its own: `stopgo web`, in front of an agent somewhere else.

Belongs here: what is passed on to the agent and what is not, and the routes of the former web application.
Not here: the page itself (`gateway/web`), and which hosts and origins come in (`gateway/http`). Read first:
`proxy_app.py`.
"""
