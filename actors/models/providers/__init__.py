"""The wire formats of the providers: one codec for each, and the parts that they share.

Belongs here: requests, answers and errors of a provider's API. Not here: retries and deadlines, which the
model actor handles. Read first: `codec.py`, then any `*_codec.py`.
"""
