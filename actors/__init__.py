"""What an agent is made of: two files above the rooms, and the rooms.

`agent.py` is the embedded API, the only thing that the HTTP server calls; `supervisor.py` starts all below it
and stops it in reverse. Belongs here: what an agent does. Does not: HTTP and the command line (`gateway`),
storage (`runtime/journal`). Read first: `agent.py`.
"""
