"""HTTP itself: connections, requests, replies, streams and websockets, and the rules for all of them.

Everything that overrides Hypercorn and Quart is here: `http_connection`, `http_protocol`, `request_task` and
`http_server` the server, `quart_app` the framework. The routes outside import neither library: they take a
`Request` and return a `Reply`, or take a `Socket`. Agents are unknown here but for their error type. Read
`request` and `responses` first.
"""
