"""The journal in a directory: one SQLite file, one process.

Read first: `sqlite_journal.py`, then `writer.py`, the group commit.
"""
