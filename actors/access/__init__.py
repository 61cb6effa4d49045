"""Principals and their rights.

Belongs here: principals, their roles, and the rules about both, as pure functions. Not here: credentials and
how they are verified (`gateway/auth`), and the approvals that roles decide (`approvals`).
Read first: `principal.py`, then `rights.py`.
"""
