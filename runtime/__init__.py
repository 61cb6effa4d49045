"""The kernel: actors, mailboxes, supervision, virtual actors, the event bus and the clocks.

Belongs here: parts that any actor system needs; trio and attrs are the only dependencies (and orjson, in
`json_text.py`, the JSON dialects of the whole program). Not here: agents, HTTP and YAML. Read first:
`message.py`, then `context.py`, the API of the kernel for behaviours. `errors.py` has a table of the outcomes
of an ask, `incarnation.py` a table of the states of an actor.
"""
