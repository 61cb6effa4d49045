"""Shared by the other rooms of `actors`: the errors of the embedded API, values out of stored JSON, and TLS.

Belongs here: code that at least three rooms need and none of them owns. Not here: anything that imports
another room. Read first: `errors.py`.
"""
