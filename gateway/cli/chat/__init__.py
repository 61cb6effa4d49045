"""A conversation at a terminal: the turns of `run`, `chat` and `a2a send`, and the decisions between them.

Read first: `one_turn.py`, for an agent in this process; then `chat_conversation.py`, for a running agent.
"""
