"""The kinds of nodes in a tree.

Belongs here: one file for each kind of node, and the model calls of nodes. Not here: the tool calls of a
node (`actors/calls`), and the values that nodes and calls share (`actors/run`). Read first: `node.py`, then
`llm.py`.
"""
