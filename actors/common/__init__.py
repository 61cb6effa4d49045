"""Shared by all rooms of `actors`: the errors of the embedded API, and TLS.

Belongs here: what at least three rooms need and none of them owns. Does not: anything that imports another
room. Read first: `errors.py`.
"""
