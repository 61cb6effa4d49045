"""Protects the memory of the process from other processes of the same user."""

from __future__ import annotations

import sys

_PR_SET_DUMPABLE = 4


def make_undumpable() -> None:
    """Keep other processes of this user, such as stdio servers, from reading memory and environment of this
    process in /proc. Root with CAP_SYS_PTRACE still can. Also disables core dumps.

    Linux only. Child processes are not affected, because `exec` resets the flag.
    """
    if sys.platform != "linux":
        return
    import ctypes

    none = ctypes.c_ulong(0)
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, none, none, none, none)
