"""The only writer of a conversation's stream.

Belongs here: commits, the ownership of the stream, the branches of a run that write and wait, and the
publication of what was written. Not here: how bytes reach the disk (`runtime/journal`). Read first: `log.py`.
"""
