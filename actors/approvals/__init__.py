"""Approvals: the questions to people, their decisions, and the texts about both. Pure, except that typed
values are checked against JSON Schema in another process.

Belongs here: one file per kind of approval, with its question, its decisions, the parser of decisions, and
its texts. Not here: whether a call asks (`actors/gate`), storing questions and waiting for decisions
(`actors/log`). Read first: `kinds.py`, where a new kind is added, then `asked.py`, the base class of all
kinds, and `tool_approval.py`.
"""
