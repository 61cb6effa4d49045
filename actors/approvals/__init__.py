"""Approvals: what people are asked, what they may decide, and what everybody is told of it. Nearly all of it
pure; the checks of what people type run JSON Schema.

Belongs here: one file per kind of approval, with its question, its decisions, how words become one of these,
and its texts. Not here: whether a call asks (`actors/gate`), where questions are stored and waited for
(`actors/log`). Read first: `kinds.py`, where a new kind is added, then `asked.py`, which says what every kind
has, and `tool_approval.py`.
"""
