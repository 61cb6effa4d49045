"""The life of a tool call: from a model's reply, past the gate and to its end.

Belongs here: what a call does between its node and its server. Not here: whether the rules of the agent file
let a call run (`actors/gate`), the protocol it is sent with (`actors/mcp`). Read first: `lifecycle.py`, which
decides by a table; `recorded.py` reads what it goes by, `settler.py` carries its steps out.
"""
