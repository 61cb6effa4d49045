"""The wire formats of A2A: version 1.0, version 0.3 and an older dialect, for servers and for clients. Pure.

    =======  ===================  ===================  ===================================
    version  binding              codec                source
    =======  ===================  ===================  ===================================
    1.0      JSON-RPC, HTTP+JSON  `v1_codec.py`        version 1.0.1: sections 4, 9.4, 11
    0.3      JSON-RPC             `v03_codec.py`       version 0.3.0: sections 6, 7
    0.3      HTTP+JSON            `v03_rest_codec.py`  version 0.3.0: section 7, a2a.proto
    older    JSON-RPC             `older_codec.py`     no specification
    =======  ===================  ===================  ===================================

`ObjectCodec` reads and writes the objects of all versions; each codec adds its methods and its differences. A
server dispatches calls to the codecs itself (`gateway/a2a`); `client_codec.py` does so for the calling side.

Belongs here: the objects of the protocol, calls, cards, errors and paths. Not here: I/O, and the meaning of a
task for this agent. Read first: `task.py`, then `object_codec.py` and `v1_codec.py`.
"""
