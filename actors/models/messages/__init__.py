"""The messages of a model call, independent of a provider.

Belongs here: requests, replies, usage, and the schemas of tools in the dialects that models accept. Not here:
wire formats (`codecs`). Read first: `messages.py`.
"""
