"""The kinds of nodes in a tree, and the life of one tool call within a node.

Belongs here: one file for each kind of node, and how a node calls models and tools. Not here: whether a
call may run (`actors/gate`), how it is sent (`actors/mcp`). Read first: `node.py`, then `llm.py`; a tool
call goes through `call.py` (the gate, approvals) and `effect.py` (sending, at most once).
"""
