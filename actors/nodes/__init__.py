"""The kinds of nodes in a tree.

Belongs here: one file for each kind of node, and the model calls of nodes. Not here: the tool calls of a
node (`actors/calls`), the values that nodes and calls share (`actors/run`), and the facts about a kind of
node on which others depend (`NodeKind` in `config/sections/nodes.py`). Read first: `node.py`, then `llm.py`.
"""
