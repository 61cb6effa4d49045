"""Credentials of requests, and the identities behind them.

Belongs here: finding, verifying and revoking credentials; the login of the page. Not here: what a principal
may do (`actors/access`).
Read first: `chosen_credential.py`, then `authenticator.py`.
"""
