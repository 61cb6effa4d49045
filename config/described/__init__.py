"""The description of a field: its shape, the words for it, and whether a value fits.

The sections of the agent file and the bodies of the HTTP contract are described in this language. Not here:
the fields themselves (`sections`, `gateway/contract`). Read first: `shape.py`.
"""
