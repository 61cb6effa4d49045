"""AG-UI 1.0: user interfaces of other makers talk to this agent over server-sent events.

Belongs here: `POST /agui`, the events and the input of the protocol, and what these are in terms of this
agent. Not here: how a stream is sent (`gateway`), what an approval is (`actors/approvals`). Read first:
`agui_run.py`, then `thread_run.py`, which turns a request into commands.
"""
