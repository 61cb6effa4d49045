"""Single keys: what is typed alone counts, what is pasted does not."""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Iterator

import pytest
import trio
from rich.console import Console
from trio.testing import wait_all_tasks_blocked

from stopgo.gateway.cli.chat_terminal import ChatTerminal
from stopgo.gateway.cli.key_reader import END_OF_INPUT, KeyReader, quiet_keys
from stopgo.gateway.cli.line_input import LineInput
from stopgo.gateway.cli.markdown_stream import MarkdownStream
from tests.waiting import PATIENCE


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    keyboard, screen = os.openpty()
    with open(screen) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield keyboard
    os.close(keyboard)


def test_keys_of_a_closed_terminal_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    keyboard, screen = os.openpty()
    os.close(keyboard)
    with open(screen) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        terminal = ChatTerminal(False, MarkdownStream(Console()), LineInput(), KeyReader(screen, []))
        terminal.forget_typed()


@pytest.mark.parametrize(
    ("chunks", "key"),
    [
        (["y"], "y"),
        (["n\r"], "n"),
        (["\x04"], END_OF_INPUT),
        (["é"], "é"),
        # Arrow keys, several keys at once, Enter alone, and pasted text are passed over.
        (["\x1b[A", "\x1b", "yes", "\r", "\x01", "n"], "n"),
        (["\x1b[200~y\x1b[201~", "n"], "n"),
        (["\x1b[200~all of", "y", "y\x1b[201~", "n"], "n"),
    ],
)
async def test_a_key_that_is_pressed_alone(keyboard: int, chunks: list[str], key: str) -> None:
    found: list[str] = []

    async def read() -> None:
        found.append(await keys.key())

    with trio.fail_after(PATIENCE), quiet_keys() as keys:
        async with trio.open_nursery() as reading:
            reading.start_soon(read)
            for chunk in chunks:
                os.write(keyboard, chunk.encode())
                await wait_all_tasks_blocked(0.01)
    assert found == [key]


async def test_the_terminal_is_as_it_was_afterwards(keyboard: int) -> None:
    before = termios.tcgetattr(sys.stdin)
    with quiet_keys():
        flags = termios.tcgetattr(sys.stdin)[3]
        assert not flags & (termios.ECHO | termios.ICANON)
        assert flags & termios.ISIG
    assert termios.tcgetattr(sys.stdin) == before
