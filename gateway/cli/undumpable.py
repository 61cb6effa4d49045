"""The process, closed to others of the same user."""

from __future__ import annotations

import sys

_PR_SET_DUMPABLE = 4


def make_undumpable() -> None:
    """Keep other processes of this user from reading the memory and the environment of this one in /proc, as
    its stdio servers could. Root can all the same if it has CAP_SYS_PTRACE. No core dump will be written.

    Only Linux has this. Programs that this process starts are not affected: `exec` resets it.
    """
    if sys.platform != "linux":
        return
    import ctypes

    none = ctypes.c_ulong(0)
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, none, none, none, none)
