"""`stopgo serve`, which kills itself at a write to the journal.

    dying_member.py WRITE before|after OPTIONS-OF-SERVE...

Writes are counted from the first one after the server listens: commands, decisions and saves.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from stopgo.gateway import serve_process
from stopgo.gateway.cli.main import main
from stopgo.runtime.journal.postgres.journal import PostgresJournal

_WRITES = ("deliver", "decide", "save")
_left = 0


def _dying(name: str, edge: str) -> None:
    method = getattr(PostgresJournal, name)

    async def write(*args: Any, **options: Any) -> Any:
        global _left
        if not _left:
            return await method(*args, **options)
        _left -= 1
        is_last = _left == 0
        if is_last and edge == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        outcome = await method(*args, **options)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return outcome

    setattr(PostgresJournal, name, write)


def _run(at: int, edge: str, options: list[str]) -> int:
    for name in _WRITES:
        _dying(name, edge)
    serving: Any = serve_process
    announce = serving._announce

    def count_from_now(*args: Any) -> None:
        global _left
        _left = at
        announce(*args)

    serving._announce = count_from_now
    return main(["serve", *options])


if __name__ == "__main__":
    sys.exit(_run(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
