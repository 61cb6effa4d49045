"""HTTP itself: connections, requests, replies, streams and websockets, and the rules for all of them.

Everything that overrides Hypercorn and Quart is here: `http_connection`, `http_protocol`, `request_task` and
`http_server` override the server, `quart_app` the framework. The routes import neither library: they take a
`HttpRequest` and return a `Reply`, or take a `Socket`. Of agents, only their error type is known here. Read
`request` and `responses` first.
"""
