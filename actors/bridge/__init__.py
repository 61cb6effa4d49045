"""An agent in a thread of its own, for programs on asyncio and for programs without an event loop.

Belongs here: threads, and calls and streams between them. Not here: the agent itself (`actors/agent.py`).
Read first: `agent_thread.py`. `for_asyncio.py` is the only file of the product that imports asyncio.
"""
