"""The kernel: actors, mailboxes, supervision, virtual actors, the event bus and the clocks.

Belongs here: parts that any actor system needs; trio and attrs are the only dependencies (and orjson, in
`json_text.py`, the JSON dialects of the whole program). Not here: agents, HTTP and YAML. Read first:
`message.py`, then `context.py`, the kernel as an actor sees it. `errors.py` has the table of what an asker
gets, for instance when an actor dies.
"""
