"""The kernel: actors, mailboxes, supervision, virtual actors, the event bus and the clocks.

Belongs here: what any actor system needs. Does not: agents, HTTP, YAML; the kernel depends on trio and
attrs alone. Read first: `message.py`, then `context.py`, which is what an actor sees of the kernel.
"""
