"""The memory of a conversation, on disk before it is published.

Belongs here: the events, the state folded from them, and the only writer of both, which also puts questions
and waits for their answers. Not here: how bytes reach the disk (`runtime/journal`), the next step of a run
(`actors/nodes`). Read first: `events.py`, then `state.py` and `log.py`.
"""
