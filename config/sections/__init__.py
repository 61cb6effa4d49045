"""The keys of the agent file: one file for each section, as frozen values.

Read first: `agent_config.py`, the whole file.
"""
