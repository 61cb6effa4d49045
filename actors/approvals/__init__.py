"""Approvals: the questions to people, their decisions, and the texts about both. Nearly all of it is pure;
the checks of typed values run JSON Schema.

Belongs here: one file per kind of approval, with its question, its decisions, how words become one of these,
and its texts. Not here: whether a call asks (`actors/gate`), where questions are stored and waited for
(`actors/log`). Read first: `kinds.py`, where a new kind is added, then `asked.py`, which says what every kind
has, and `tool_approval.py`.
"""
