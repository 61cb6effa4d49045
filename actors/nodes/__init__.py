"""The kinds of nodes in a tree, and the life of one tool call within a node.

Belongs here: one file for each kind of node, how a node calls models and tools, and `services.py`, which
the actors of one agent share. Not here: whether a call may run (`actors/gate`), the protocol it is sent
with (`actors/mcp`). Read first: `node.py`, then `llm.py`; a tool call goes through `call.py` (the gate,
approvals) and `effect.py` (at most once).
"""
