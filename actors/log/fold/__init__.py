"""The state of a conversation as a pure function of its events.

Belongs here: the fold (`state.py`), its parts (`head.py`, `record.py`, `past.py`), and the reading of stored
streams (`stored.py`). Not here: writing. Read first: `state.py`.
"""
