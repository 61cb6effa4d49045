"""The kinds of nodes in a tree.

Belongs here: one file for each kind of node, the model calls of nodes, and `services.py`, which the actors of
one agent share. Not here: the tool calls of a node (`actors/calls`), and the facts about a kind of node on
which others depend (`NodeKind` in `config/nodes.py`). Read first: `node.py`, then `llm.py`.
"""
