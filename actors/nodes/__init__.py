"""The kinds of nodes in a tree.

Belongs here: one file for each kind of node, the model calls of nodes, and `services.py`, which the actors of
one agent share. Not here: the tool calls of a node (`actors/calls`). Read first: `node.py`, then `llm.py`.
"""
