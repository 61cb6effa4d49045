"""The vocabulary of a log: events, commands and outcomes, their keys, and their stored forms.

Belongs here: closed unions of frozen values, and their codecs. Not here: what follows from them (`fold`), and
their storage (`writer`). Read first: `events.py`, then `keys.py`.
"""
