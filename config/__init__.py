"""The agent file: YAML to frozen values, with every mistake named by file, line and key.

Belongs here: the keys of a file, and how a file is read. Not here: anything that connects, starts or asks.
Read first: `agent_config.py`, then `load.py`, the only module here that reads files.
"""
