"""AG-UI 1.0: the protocol by which third-party user interfaces run this agent over server-sent events.

Belongs here: `POST /agui`, the events and the input of the protocol, and their mapping to conversations, runs
and approvals. Not here: how a stream is sent (`gateway/http`), the approvals themselves (`actors/approvals`).
Read first: `agui_run.py`, then `thread_run.py`, which turns a request into commands.
"""
