"""A disk under SQLite that can lose power, fail to sync, or be full.

It models a page cache: a write is durable once its file was synced. At a power cut each write since
then survives, is torn, or is gone, at random.
"""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw

Write = tuple[int, bytes | None]
"""Offset and data; without data, the file is cut there."""


class Disk:
    def __init__(self) -> None:
        self.syncs = 0
        self.fail_at_sync: int | None = None
        self.room: int | None = None
        """Bytes that may still be written; None: enough."""
        self._lock = threading.Lock()
        self._synced: dict[str, bytes] = {}
        self._unsynced: dict[str, list[Write]] = {}

    def made(self, name: str) -> None:
        with self._lock:
            self._synced.setdefault(name, b"")
            self._unsynced.setdefault(name, [])

    def write(self, name: str, offset: int, data: bytes | None) -> None:
        with self._lock:
            if self.room is not None and data is not None:
                self.room -= len(data)
                if self.room < 0:
                    raise apsw.FullError("disk full")
            self._unsynced[name].append((offset, data))

    def sync(self, name: str) -> None:
        with self._lock:
            self.syncs += 1
            if self.syncs == self.fail_at_sync:
                raise apsw.IOError("sync failed")
            self._synced[name] = after(self._synced[name], self._unsynced[name])
            self._unsynced[name] = []

    def delete(self, name: str) -> None:
        with self._lock:
            self._synced.pop(name, None)
            self._unsynced.pop(name, None)

    def cut_power(self, into: Path, choose: random.Random) -> None:
        """Write what a restart would find into a new directory."""
        into.mkdir()
        with self._lock:
            for name, content in self._synced.items():
                if not name.endswith("-shm"):
                    (into / name).write_bytes(after(content, survivors(self._unsynced[name], choose)))


def survivors(writes: Sequence[Write], choose: random.Random) -> Iterator[Write]:
    for offset, data in writes:
        luck = choose.random()
        if luck < 0.4:
            yield offset, data
        elif luck < 0.6 and data:
            yield offset, data[: choose.randrange(len(data))]


def after(content: bytes, writes: Any) -> bytes:
    changed = bytearray(content)
    for offset, data in writes:
        changed.extend(b"\0" * (offset - len(changed)))
        if data is None:
            del changed[offset:]
        else:
            changed[offset : offset + len(data)] = data
    return bytes(changed)


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: Any) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or "unnamed"
        self.disk, self.name = disk, os.path.basename(path)
        disk.made(self.name)
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self.disk.write(self.name, offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:
        self.disk.write(self.name, size, None)
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        self.disk.sync(self.name)


class FaultyVFS(apsw.VFS):
    """Registers itself as SQLite's file layer under `name`."""

    def __init__(self, name: str, disk: Disk) -> None:
        self.disk = disk
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: Any) -> _File:
        return _File(self.disk, name, flags)

    def xDelete(self, name: str, sync: bool) -> None:
        super().xDelete(name, sync)
        self.disk.delete(os.path.basename(name))


class _Cursor:
    def __init__(self, db: apsw.Connection, cursor: apsw.Cursor) -> None:
        self._cursor = cursor
        self.rowcount = db.changes()
        self.lastrowid = db.last_insert_rowid()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._cursor)

    def fetchone(self) -> Any:
        return self._cursor.fetchone()

    def fetchall(self) -> Any:
        return self._cursor.fetchall()

    def close(self) -> None:
        self._cursor.close()


class Connection:
    """As much of `sqlite3.Connection` as the journal uses, on the faulty disk."""

    def __init__(self, uri: str, vfs: str) -> None:
        flags = apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        self._db = apsw.Connection(uri, flags=flags, vfs=vfs)
        self.execute("PRAGMA wal_autocheckpoint = 50")

    @property
    def in_transaction(self) -> bool:
        return bool(self._db.in_transaction)

    def execute(self, statement: str, values: Any = ()) -> _Cursor:
        try:
            return _Cursor(self._db, self._db.execute(statement, values))
        except apsw.Error as error:
            raise sqlite3.OperationalError(str(error)) from error

    def executemany(self, statement: str, values: Any) -> _Cursor:
        try:
            return _Cursor(self._db, self._db.executemany(statement, values))
        except apsw.Error as error:
            raise sqlite3.OperationalError(str(error)) from error

    def close(self) -> None:
        # Unlike sqlite3, apsw tells when the tidying up at the end fails.
        with contextlib.suppress(apsw.Error):
            self._db.close()
