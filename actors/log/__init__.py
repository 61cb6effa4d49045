"""The memory of a conversation, on disk before it is published.

Belongs here: the events, the commands that cause them, the state folded from them, and the only writer of
all, which also puts questions and waits for their answers. Not here: how bytes reach the disk
(`runtime/journal`), the next step of a run (`actors/nodes`). Read first: `events.py`, then `state.py` and
`log.py`.
"""
