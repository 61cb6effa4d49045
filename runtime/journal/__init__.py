"""The durable log: streams of events with their commands, intents and questions, and notes
beside them, behind one protocol.

Belongs here: storing and finding them; bodies are opaque. An intent is stored so that none can be begun
twice; which were begun is in the events. Not here: the meaning of an event (`actors/log`). Read first:
`protocol.py`. `memory.py` is the protocol in its simplest form, `sqlite.py` the store in use.
"""
