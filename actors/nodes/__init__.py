"""The kinds of work that a tree is made of, and the life of one tool call within them.

Belongs here: one file for each kind of node, and how a node calls models and tools. Does not: whether a
call may run (`actors/gate`), how it is sent (`actors/mcp`). Read first: `node.py`, then `llm.py` and
`call.py`.
"""
