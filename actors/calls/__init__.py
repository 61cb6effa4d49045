"""Tool calls: from a model's reply, through the gate, to the end of the call.

Belongs here: the handling of a call between its node and its server. Not here: the rules by which a call
runs, asks or is denied (`actors/gate`), and the protocol by which it is sent (`actors/mcp`). Read first:
`lifecycle.py`, which decides the next step by a table; `recorded.py` reads its input from the log, and
`runner.py` carries the steps out.
"""
