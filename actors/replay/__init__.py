"""Recorded calls: read from passages of a journal, and judged under other rules.

Here belongs all that works on what has happened and changes nothing. What judges calls that happen is in
`actors/gate` and `actors/calls`. Read `recorded_call.py` first.
"""
