"""The parts of an agent.

`agent/agent.py` is the embedded API, which the HTTP server calls; `agent/supervisor.py` starts everything and
stops it in reverse. Belongs here: everything an agent does. Not here: HTTP and the command line (`gateway`),
storage (`runtime/journal`). Read first: `agent/agent.py`.
"""
