"""Shared by the other packages of `actors`: the errors of the embedded API, values from stored JSON, and TLS.

Belongs here: code that at least three packages need and none of them owns. Not here: anything that imports
another package. Read first: `errors.py`.
"""
