"""The journal: the durable store of streams (events, commands, intents, questions) and of notes.

Belongs here: storing and finding them; bodies are opaque. An intent is stored only so that an attempt cannot
begin twice; the events record which attempts began. Not here: the meaning of an event (`actors/log`). Read
first: `protocol.py`. `memory.py` is the simplest implementation, `sqlite.py` the one that agents use.
"""
