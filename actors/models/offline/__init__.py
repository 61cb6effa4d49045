"""`offline:rules`, the demo model: it needs no key and no network, and it is no language model.

The shipped agent and the guides run on it. Nothing else in the program knows it: it reads a request like
any other model. Read first: `rules_model.py`.
"""
