"""Approvals that expire when a test says so, instead of after some seconds."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

EXPIRING = """
import sys
from stopgo.actors.workers import timers
from stopgo.gateway.cli.main import main

timers.LONGEST_SLEEP = 0.05
sys.exit(main())
"""
"""`stopgo` that notices soon that `expire_all` has changed the times of its questions."""


def expire_all(data_dir: Path) -> None:
    """Every question that is asked in this data directory is due now."""
    with closing(sqlite3.connect(data_dir / "journal.db", timeout=300)) as db, db:
        changed = db.execute(
            "UPDATE question SET expires = 0 WHERE state = 'pending' AND expires IS NOT NULL"
        )
        assert changed.rowcount, "no question expires"
