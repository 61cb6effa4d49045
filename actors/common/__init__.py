"""Code that the other packages of `actors` share: errors of the embedded API, stored JSON, SSE and TLS.

Belongs here: code that at least three packages need and none of them owns. Not here: anything that imports
another package. Read first: `errors.py`.
"""
