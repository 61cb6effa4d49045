"""The journal: the durable store of streams (events, commands, intents, questions) and of notes.

Belongs here: the protocol of a store, its values, and the rules that all stores share. The stores are
`memory`, `sqlite` and `postgres`. Bodies are opaque. An intent is stored only so that an attempt cannot begin
twice; the events record which attempts began. Not here: the meaning of an event (`actors/log`). Read first:
`protocol.py`.
"""
