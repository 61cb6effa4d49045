"""The file of the API keys: `keys.json` in the data directory.

It contains the SHA-256 digest of each key, never the key. `stopgo keys` writes it, and replaces it as a
whole; a lock keeps two writers apart. The server only reads it. A file that cannot be understood, or that
other users can write, is an error: the server then refuses all keys. On a read-only mount the file may belong
to another user, as the secrets of a container do: it cannot be changed there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from ...actors.common.stored_json import from_json, to_json
from ...runtime.json_text import dump, load
from .principal_names import is_key_name, is_subject

FILE = "keys.json"
LOCK = "keys.lock"
FORMAT = 1
MAX_BYTES = 2**20
_DIGITS = frozenset("0123456789abcdef")


class KeyFileError(Exception):
    """The file of the keys cannot be used; the text says why."""


@attrs.frozen(kw_only=True)
class StoredKey:
    """One API key in the file. Times are UTC seconds."""

    id: str
    name: str
    digest: str = attrs.field(repr=False)
    """SHA-256 of the key, in hexadecimal."""
    roles: tuple[str, ...]
    subject: str | None = None
    """The person or program that uses the key."""
    created: float
    expires: float | None = None
    revoked: float | None = None

    def is_live(self, now: float) -> bool:
        """Whether the key is valid."""
        return self.revoked is None and (self.expires is None or now < self.expires)

    @property
    def is_sound(self) -> bool:
        return (
            bool(self.id)
            and is_key_name(self.name)
            and len(self.digest) == 64
            and set(self.digest) <= _DIGITS
            and (self.subject is None or is_subject(self.subject))
        )


@attrs.frozen
class _Content:
    format: int
    keys: tuple[StoredKey, ...]


def digest_of(key: str) -> str:
    return hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()


@attrs.frozen
class KeyFile:
    path: Path

    @classmethod
    def in_directory(cls, data_dir: Path) -> KeyFile:
        return cls(data_dir / FILE)

    def state(self) -> object:
        """A value that differs after each change of the file; None if there is no file.

        Raises `OSError`.
        """
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_mode

    def read(self) -> tuple[StoredKey, ...]:
        """All keys; none if there is no file. Raises `KeyFileError`."""
        try:
            with open(self.path, "rb", opener=_without_waiting) as file:
                is_read_only = bool(os.fstatvfs(file.fileno()).f_flag & os.ST_RDONLY)
                check_mode(self.path, os.fstat(file.fileno()), is_read_only=is_read_only)
                data = file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise KeyFileError(f"{self.path} cannot be read: {error.strerror}") from error
        if len(data) > MAX_BYTES:
            raise KeyFileError(f"{self.path} is larger than {MAX_BYTES} bytes")
        try:
            content = from_json(load(data.decode()), _Content)
        except (LookupError, TypeError, ValueError) as error:
            raise KeyFileError(f"{self.path} is not a file of API keys") from error
        ids = {key.id for key in content.keys}
        if (
            content.format != FORMAT
            or len(ids) < len(content.keys)
            or not all(key.is_sound for key in content.keys)
        ):
            raise KeyFileError(f"{self.path} is not a file of API keys of this version")
        return content.keys

    @contextmanager
    def changing(self) -> Iterator[list[StoredKey]]:
        """Lock the file and yield its keys; at the end, write the list. Creates the data directory.

        Raises `KeyFileError` and `OSError`; the file is then unchanged.
        """
        self.path.parent.parent.mkdir(parents=True, exist_ok=True)
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        lock = os.open(self.path.with_name(LOCK), flags, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            keys = list(self.read())
            yield keys
            self._write(keys)
        finally:
            os.close(lock)

    def _write(self, keys: list[StoredKey]) -> None:
        content = to_json(_Content(FORMAT, tuple(keys)))
        new = self.path.with_name(f"{FILE}.new")
        new.unlink(missing_ok=True)  # of a writer that was killed
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w") as file:
            file.write(dump(content) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self.path)
        directory = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _without_waiting(path: str, flags: int) -> int:
    """Opens a file. A pipe in its place would otherwise stop the whole server until somebody writes to it."""
    return os.open(path, flags | os.O_NONBLOCK)


def check_mode(path: Path, found: os.stat_result, *, is_read_only: bool) -> None:
    """Raise `KeyFileError` if users other than root and the one of this process can write the file.

    `is_read_only`: whether it is on a read-only mount.
    """
    if not stat.S_ISREG(found.st_mode):
        raise KeyFileError(f"{path} is not a regular file")
    is_own = found.st_uid in (0, os.geteuid()) or is_read_only
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or not is_own:
        raise KeyFileError(f"other users can write {path}; run `chmod go-w {path}`, as its owner")
