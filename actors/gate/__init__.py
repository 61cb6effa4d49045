"""The gate: whether a tool call runs, asks a person first or is denied, and what the person may answer.

Belongs here: rules, approvals and decisions, nearly all of it pure. Does not: making the call
(`actors/nodes`). Read first: `gate.py`, then `approvals.py`.
"""
