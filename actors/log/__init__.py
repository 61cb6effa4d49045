"""The log of a conversation: its events, and its state.

Belongs here: the events, the commands that cause them, the fold, and the only writer of a conversation's
stream, which also puts questions to humans and waits for the decisions. Not here: how bytes reach the disk
(`runtime/journal`), the next step of a run (`actors/nodes`). Read first: `events.py`, then `state.py` and
`log.py`.
"""
