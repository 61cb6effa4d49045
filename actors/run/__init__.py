"""The values that are handed down whole: those of the agent, of one run, and of the calls of one node.

Belongs here: the data that several layers below a conversation share, so that none copies the fields of
another. Not here: how a run is executed (`actors/nodes`), and how its calls are carried out
(`actors/calls`). Read first: `scopes.py`.
"""
