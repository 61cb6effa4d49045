"""The conversation actor: from a command in its inbox to the result for its sender.

Belongs here: the actor, its run, and its results. Not here: the work of a node (`actors/nodes`), the record
of it (`actors/log`). Read first: `conversation.py`, then `commands.py` and `run.py`.
"""
