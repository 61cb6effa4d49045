"""The wire formats of models: requests and replies as JSON, streams, and errors. Pure.

One codec for each format; OpenAI has two, and Claude's runs on several clouds. `profiles.py` has what differs
between providers of one format. Belongs here: everything that can be tested without a connection. Read first:
`codec.py`, then any `*_codec.py`.
"""
