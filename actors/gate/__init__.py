"""The gate: decides whether a tool call runs, asks a human first, or is denied.

Belongs here: the evaluation of rules, the validation of decisions, and the review of rules against the tools
that exist. Nearly all of it is pure. Not here: the kinds of approvals (`actors/approvals`), sending the call
(`actors/calls`). Read first: `gate.py`, then `check_decision.py`.
"""
