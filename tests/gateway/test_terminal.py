"""A terminal as `stopgo run` has it: lines that are typed, and what is said beside them."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from stopgo.gateway.cli.terminal.terminal import Terminal


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    keyboard, screen = os.openpty()
    with open(screen) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield keyboard


async def test_line_ends_with_a_newline_in_any_chunking(keyboard: int) -> None:
    here = Terminal(can_ask=True, colour=False)
    os.write(keyboard, b" yes \nno\n")
    assert await here.ask("One >") == "yes"
    assert await here.ask("Two >") == "no"
    os.close(keyboard)


@pytest.mark.parametrize("error", [None, OSError(errno.EIO, "Input/output error")])
async def test_a_terminal_that_is_closed_answers_nothing(
    keyboard: int, monkeypatch: pytest.MonkeyPatch, error: OSError | None
) -> None:
    answers: list[str | None] = []

    def fails(*_: object) -> bytes:
        raise error or AssertionError

    async def ask() -> None:
        answers.append(await Terminal(can_ask=True, colour=False).ask("One >"))

    async with trio.open_nursery() as asking:
        asking.start_soon(ask)
        await wait_all_tasks_blocked()
        if error is not None:  # as in a process whose session has ended
            monkeypatch.setattr(os, "read", fails)
        os.close(keyboard)
    assert answers == [None]


async def test_what_is_said_meanwhile_leaves_the_line_somebody_types_on(
    keyboard: int, capsys: pytest.CaptureFixture[str]
) -> None:
    here = Terminal(can_ask=True, colour=False)
    async with trio.open_nursery() as asking:
        asking.start_soon(here.ask, "Sure? >")
        await wait_all_tasks_blocked()
        here.tell("a call ended")
        here.tell("another \x1b[2J")
        asking.cancel_scope.cancel()
    assert capsys.readouterr().err.splitlines() == ["Sure? > ", "a call ended", "another \\x1b[2J"]
    os.close(keyboard)
