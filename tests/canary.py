"""Secrets of the tests: used wherever a key or token is needed, found nowhere afterwards (NFR-005)."""

from __future__ import annotations

KEY = "sk-canary-4d1f0c8e92b76a35"
"""Of every model provider."""
TOKEN = "tok-canary-8b27e6019fd3c45a"
"""A user's bearer token."""
