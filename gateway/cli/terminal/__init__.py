"""The terminal: lines, streamed texts, Markdown, prompts, keys.

Of an agent it knows only the events that it shows. Read first: `terminal.py`, then `follower.py`, which turns
events into what is shown.
"""
