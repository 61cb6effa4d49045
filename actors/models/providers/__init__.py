"""The providers: their addresses, logins and connections, and what is peculiar to each.

Belongs here: everything between a codec and the network. Not here: the wire formats (`codecs`); retries and
deadlines, which the model actor handles. Read first: `model.py`, then `http_model.py`.
"""
