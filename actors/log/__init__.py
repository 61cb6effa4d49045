"""What a conversation remembers, on disk before it is published.

Belongs here: its events, the state folded from them, and the one writer of both. Does not: how bytes reach
the disk (`runtime/journal`), what a run does next (`actors/nodes`). Read first: `events.py`, then
`state.py` and `log.py`.
"""
