"""The parts of an agent: two files above the packages, and the packages.

`agent.py` is the embedded API, which the HTTP server calls; `supervisor.py` starts everything below it and
stops it in reverse. Belongs here: everything an agent does. Not here: HTTP and the command line
(`gateway`), storage (`runtime/journal`). Read first: `agent.py`.
"""
