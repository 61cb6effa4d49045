"""The HTTP contract: every operation, and every shape of a body or a frame, which is a class.

The fields of a class carry types and meanings. The JSON that clients get, the JSON Schema in `/openapi.json`
and the tables of the reference are generated from them. No agent and no I/O belong here. Read
`declaration.py` first, then `shapes.py` and `operations.py`.
"""
