"""HTTP clients of tests. They have no time-out of their own: `tests/waiting.py` gives the reason."""

from __future__ import annotations

from typing import Any

import httpx2


def http_client(**options: Any) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(**{"timeout": None, **options})


def blocking_client(**options: Any) -> httpx2.Client:
    return httpx2.Client(**{"timeout": None, **options})


def get(url: str, **options: Any) -> httpx2.Response:
    return httpx2.get(url, **{"timeout": None, **options})


def post(url: str, **options: Any) -> httpx2.Response:
    return httpx2.post(url, **{"timeout": None, **options})
