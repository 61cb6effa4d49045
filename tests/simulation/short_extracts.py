"""Conversations of a story are short: extracts of their state are made and used all the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from stopgo.actors.log.fold import extract


@contextmanager
def short_extracts() -> Iterator[None]:
    with mock.patch.object(extract, "FEWEST", 1), mock.patch.object(extract, "TAIL", 1):
        yield
