"""The wire formats of the providers: one codec for each, and what the codecs share.

Belongs here: the demands, answers and errors of a provider's API. Not here: retries and deadlines, which
are the model actor's. Read first: `codec.py`, then any `*_codec.py`.
"""
