"""The durable log: streams of events with their commands, intents and questions, behind one protocol.

Belongs here: storing and finding them; bodies are opaque. Not here: the meaning of an event (`actors/log`).
Read first: `protocol.py`. `memory.py` is the protocol in its simplest form, `sqlite.py` the store in use.
"""
