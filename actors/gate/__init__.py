"""The gate: whether a tool call runs, asks a person first or is denied, and which decisions are valid.

Belongs here: rules, and what a decision has to pass, nearly all of it pure. Not here: the kinds of approvals
(`actors/approvals`), making the call (`actors/nodes`). Read first: `gate.py`, then `check_decision.py`.
"""
