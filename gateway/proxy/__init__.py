"""`stopgo web`: a proxy that serves the page of an agent running elsewhere.

Belongs here: which requests and headers are forwarded to the agent, and the routes of the former web
application. Not here: the page itself (`gateway/web`), and the admission of hosts and origins
(`gateway/http`). Read first: `proxy_app.py`.
"""
