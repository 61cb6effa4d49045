"""A Unix socket to listen on. Only the user of this process may connect, by the permissions of its file."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .http_server import BindError


@contextmanager
def unix_socket(path: str) -> Iterator[socket.socket]:
    """Bind a socket with mode 0600, not listening yet; the exit removes it.

    A socket that a process has left behind is replaced. Raises `BindError`.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_left_behind(path)
        # Set before the file exists, so that no client connects in between.
        mask = os.umask(0o177)
        try:
            sock.bind(path)
        finally:
            os.umask(mask)
    except OSError as error:
        sock.close()
        raise BindError(f"cannot listen on {path}: {error.strerror or error}") from error
    with sock:
        try:
            yield sock
        finally:
            with suppress(FileNotFoundError):
                os.unlink(path)


def _remove_left_behind(path: str) -> None:
    """Remove a socket that no process listens on. Binding then fails for every other file at the path."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.connect(path)
    except ConnectionRefusedError:
        os.unlink(path)
    except FileNotFoundError:
        return
