"""An agent in a thread of its own, for programs on asyncio and for programs without an event loop.

Belongs here: threads, and calls and streams between them. Not here: the agent itself (`actors/agent`).
Read first: `agent_thread.py`. `for_asyncio.py` and `caller_loop.py` are the only files of the product that
import asyncio.
"""
