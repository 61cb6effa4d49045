"""The arguments of a call against the schema of its tool.

Belongs here: the check, the repair of what models often write wrong, and the process that checks a schema
which may take long. Not here: whether the call may run (`actors/gate`). Read first: `arguments.py`.
"""
