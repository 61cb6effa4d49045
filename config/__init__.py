"""The agent file: YAML to frozen values, with every mistake named by file, line and key.

Belongs here: what a file may say and how it is read. Does not: anything that connects, starts or asks;
nothing here does I/O but `load.py`. Read first: `agent_config.py`, then `load.py`.
"""
