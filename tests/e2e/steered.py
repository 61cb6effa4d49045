"""`stopgo serve` whose time passes when the test says so, and whose scripted model says what it is asked."""

from __future__ import annotations

import os
import signal

from tests.e2e.conftest import Server

PASSED = 1000
"""Seconds that pass at once."""
ASKED = "asked"

PROGRAM = f"""
import signal
import sys

import trio

from stopgo.actors.models.offline.script import Script
from stopgo.gateway.cli.main import main
from stopgo.runtime.clock import ProcessClock

clocks = []
start, find = ProcessClock.start_clock, Script.find


def start_and_keep(clock):
    clocks.append(clock)
    start(clock)


def tell(user):
    with open({ASKED!r}, "a") as asked:
        asked.write(user + "\\n")


def find_and_tell(script, request):
    # Told one step later: the delay of the reply has begun by then, so that passing time ends it.
    trio.lowlevel.current_trio_token().run_sync_soon(tell, request.user)
    return find(script, request)


def pass_time(*_):
    for clock in clocks:
        clock._offset += {PASSED}


ProcessClock.start_clock, Script.find = start_and_keep, find_and_tell
signal.signal(signal.SIGUSR1, pass_time)
sys.exit(main(sys.argv[1:]))
"""
"""To be given to `Servers` as `program`."""


def pass_time(server: Server) -> None:
    """Let `PASSED` seconds pass for the timeouts and delays of the server, but not for its wall clock."""
    os.kill(server.run.process.pid, signal.SIGUSR1)


def asked(server: Server, message: str) -> int:
    """How often the model was asked about this message."""
    file = server.data_dir / ASKED
    return file.read_text().splitlines().count(message) if file.exists() else 0
