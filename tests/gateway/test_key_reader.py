"""Single keys: a key typed alone is an answer; pasted text, arrow keys and several keys at once are not."""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Iterator

import pytest
import trio
from rich.console import Console
from trio.testing import wait_all_tasks_blocked

from stopgo.gateway.cli.terminal.chat_terminal import ChatTerminal
from stopgo.gateway.cli.terminal.key_reader import END_OF_INPUT, KeyReader, quiet_keys
from stopgo.gateway.cli.terminal.line_input import LineInput
from stopgo.gateway.cli.terminal.markdown_stream import MarkdownStream


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    keyboard, screen = os.openpty()
    with open(screen) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield keyboard
    os.close(keyboard)


def test_forgetting_keys_ignores_a_closed_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    keyboard, screen = os.openpty()
    os.close(keyboard)
    with open(screen) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        terminal = ChatTerminal(False, MarkdownStream(Console()), LineInput(), KeyReader(screen, []))
        terminal.forget_typed()


@pytest.mark.parametrize(
    ("chunks", "key"),
    [
        pytest.param(["y"], "y", id="a key"),
        pytest.param(["n\r"], "n", id="a key with Enter"),
        pytest.param(["\x04"], END_OF_INPUT, id="Ctrl-D"),
        pytest.param(["é"], "é", id="a key of two bytes"),
        pytest.param(["\x1b[A", "\x1b", "n"], "n", id="after an arrow key and Escape"),
        pytest.param(["yes", "\r", "\x01", "n"], "n", id="after three keys at once, Enter and Ctrl-A"),
        pytest.param(["\x1b[200~y\x1b[201~", "n"], "n", id="after a pasted key"),
        pytest.param(
            ["\x1b[200~all of", "y", "y\x1b[201~", "n"], "n", id="after pasted text in three chunks"
        ),
    ],
)
async def test_key_is_the_first_one_typed_alone(keyboard: int, chunks: list[str], key: str) -> None:
    found: list[str] = []

    async def read() -> None:
        found.append(await keys.key())

    with quiet_keys() as keys:
        async with trio.open_nursery() as reading:
            reading.start_soon(read)
            for chunk in chunks:
                os.write(keyboard, chunk.encode())
                await wait_all_tasks_blocked(0.01)
    assert found == [key]


async def test_quiet_keys_restores_the_terminal(keyboard: int) -> None:
    before = termios.tcgetattr(sys.stdin)
    with quiet_keys():
        flags = termios.tcgetattr(sys.stdin)[3]
        assert not flags & (termios.ECHO | termios.ICANON)
        assert flags & termios.ISIG
    assert termios.tcgetattr(sys.stdin) == before
