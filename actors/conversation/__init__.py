"""A conversation at work: from a command in its inbox to the result its sender gets.

Belongs here: the conversation actor, its run, what it answers, and its readers. Does not: how a node works
(`actors/nodes`), what is remembered (`actors/log`). Read first: `conversation.py`, then `run.py`.
"""
