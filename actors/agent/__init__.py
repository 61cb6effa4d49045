"""The embedded API of an agent, and what opens, guards and serves it.

Belongs here: the agent as programs and the gateway call it (`agent.py`), its start (`open_agent.py`,
`supervisor.py`), the rights of a principal (`guard.py`), the way of a command to its conversation
(`sender.py`), lists, and streams of events. Not here: what a conversation does with a command
(`actors/conversation`). Read first: `agent.py`.
"""
