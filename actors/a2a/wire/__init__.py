"""The wire formats of A2A: version 1.0, version 0.3 and an older dialect, for servers and for clients. Pure.

Belongs here: the objects of the protocol, a codec for each version, calls, cards, errors and paths. Not here:
I/O, and what a task means to this agent. Read first: `task.py`, then `object_codec.py` and `v1_codec.py`;
`client_codec.py` for the side that calls.
"""
