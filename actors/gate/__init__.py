"""The gate: whether a tool call runs, asks a person first or is denied, and which decisions are valid.

Belongs here: rules, approvals and decisions, nearly all of it pure. Not here: making the call
(`actors/nodes`). Read first: `gate.py`, then `approvals.py`, where the kinds of approvals are made.
"""
