"""The wire formats of the providers: one codec for each, and what the codecs share.

Belongs here: what a provider's API demands, answers and gets wrong. Does not: retries and deadlines, which
are the model actor's. Read first: `codec.py`, then any `*_codec.py`.
"""
