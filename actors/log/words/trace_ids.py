"""The id of the trace that a run belongs to. Pure."""

from __future__ import annotations

import hashlib


def trace_id_of(run: str, traceparent: str | None) -> str:
    """Return 32 hexadecimal digits: the trace of the `traceparent` that the run's command stored (W3C Trace
    Context). A run without one begins a trace, whose id is the UUID of the run."""
    if traceparent is not None:
        return traceparent[3:35]
    id = run.replace("-", "").lower()
    if len(id) == 32 and set(id) <= set("0123456789abcdef"):
        return id
    return hashlib.blake2b(run.encode(), digest_size=16).hexdigest()  # an id from elsewhere
