"""The processes that share a journal: their list, and the deltas that they pass to each other.

Read first: `delta_source.py`, then `delta_peers.py` and `fleet_key.py`.
"""
