"""Text that streams to a terminal: nothing twice, nothing lost, nothing above it touched."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyte
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import get_character_cell_size
from rich.console import Console

from stopgo.gateway.cli.terminal.markdown_stream import MarkdownStream

ABOVE = "this stands above"


class Screen(pyte.HistoryScreen):
    """Wraps a wide character that does not fit into the line, as terminals do and pyte does not."""

    def draw(self, data: str) -> None:
        for character in data:
            if get_character_cell_size(character) == 2 and self.cursor.x == self.columns - 1:
                self.cursor.x = self.columns
            super().draw(character)


class Tty(io.StringIO):
    """A file that draws on a screen, with the newlines of a terminal."""

    def __init__(self, columns: int, rows: int) -> None:
        super().__init__()
        self.screen = Screen(columns, rows, history=1000, ratio=1)
        self._stream = pyte.Stream(self.screen)

    def write(self, text: str) -> int:
        self._stream.feed(text.replace("\n", "\r\n"))
        return len(text)

    @property
    def lines(self) -> list[str]:
        columns = range(self.screen.columns)
        above = ["".join(line[column].data for column in columns) for line in self.screen.history.top]
        return [line.rstrip() for line in [*above, *self.screen.display]]

    @property
    def text(self) -> str:
        return "\n".join(self.lines).rstrip()


def streamed(pieces: Sequence[str], columns: int = 40, rows: int = 12) -> Tty:
    tty = Tty(columns, rows)
    tty.write(f"{ABOVE}\n")
    stream = MarkdownStream(Console(file=tty, width=columns, height=rows, color_system=None))
    for piece in pieces:
        stream.write(piece)
    stream.end()
    tty.write("$")
    return tty


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        (["plain ", "text"], "plain text"),
        (["**bo", "ld** text"], "bold text"),
        (["# Title\n\n", "one `two`\n"], "                 Title\n\none two"),
        (["- one\n- two\n\nnext\n"], " • one\n • two\n\nnext"),
        (["1. one\n\n2. two\n"], " 1 one\n\n 2 two"),
        # Inside a fence an empty line ends nothing.
        (["```\na = *b*\n\n", "c = 1\n```\n\nafter"], " a = *b*\n\n c = 1\n\nafter"),
        # A link shows where it leads.
        (["[here](https://example.com/)"], "here (https://example.com/)"),
        (["no \x1b[2J draw\u202eing **x**"], "no \\x1b[2J draw\\u202eing x"),
        (["\x07*x*\x9b2J"], "\\x07x\\x9b2J"),
        # As wide as the window, and wider; two columns for a character.
        (["*" + "x" * 38 + "*"], "x" * 38),
        (["x" * 40 + "\n*y*"], "x" * 40 + "\ny"),
        (["日本" * 15 + "*語*"], "日本" * 10 + "\n" + "日本" * 5 + "語"),
        # Its width is not known for sure, so it stays as it came.
        (["*flag* \U0001f1eb\U0001f1f7"], "*flag* \U0001f1eb\U0001f1f7"),
        # Longer than the window: what has scrolled away cannot be drawn again.
        (["*x*\n" * 14 + "\n*y*"], "*x*\n" * 14 + "\ny"),
        (["\n\n", "*x*"], "\n\nx"),
        ([], ""),
    ],
)
def test_text_becomes_markdown_block_by_block(pieces: list[str], shown: str) -> None:
    assert streamed(pieces).text.rstrip() == f"{ABOVE}\n{shown}".rstrip() + "\n$"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("*a* List<String>", "a List<String>"),
        ("*a*\n<details>clause</details>", "a <details>clause</details>"),
        ("<!-- *clause* -->", "<!-- clause -->"),
        ("*a*\n\n[//]: # (and a clause)", "a\n\n[//]: # (and a clause)"),
        ("*a* ![image](http://b/)", "a !image (http://b/)"),
        ("*a* &#x202E;&#x200b;&amp;", "a &#x202E;&#x200b;&amp;"),
    ],
)
def test_markdown_loses_no_text(text: str, shown: str) -> None:
    tty = Tty(40, 12)
    MarkdownStream(Console(file=tty, width=40, height=12, color_system=None)).show(text)
    assert tty.text == shown


def test_a_block_is_drawn_plain_while_it_comes() -> None:
    tty = Tty(40, 12)
    stream = MarkdownStream(Console(file=tty, width=40, height=12, color_system=None))
    stream.write("**bold**\n\n*ital")
    assert tty.text == "bold\n\n*ital"
    stream.write("ic*")
    stream.end()
    assert tty.text == "bold\n\nitalic"


def test_after_a_resize_a_block_stays_plain() -> None:
    tty = Tty(40, 12)
    console = Console(file=tty, width=40, height=12, color_system=None)
    stream = MarkdownStream(console)
    stream.write("**bold** ")
    console.width = 30
    stream.write("**more**\n\n**then**")
    stream.end()
    assert tty.text == "**bold** **more**\n\nthen"


MARKDOWN = st.text(st.sampled_from("ab *_`#-1.>|[]()\n\n\t日~"), max_size=200)


@given(st.lists(MARKDOWN, max_size=6), st.integers(20, 40), st.integers(2, 12))
@example(["*x*", "\n" * 10, "*y*"], 20, 5)
@example(["1111111111111\t|日日日日"], 25, 3)
def test_the_lines_above_stay_wherever_the_pieces_end(pieces: list[str], columns: int, rows: int) -> None:
    whole, split = streamed(["".join(pieces)], columns, rows), streamed(pieces, columns, rows)
    assert whole.lines == split.lines
    above = streamed([], columns, rows).lines
    assert whole.lines[: len(above) - rows + 1] == above[: len(above) - rows + 1]
    assert "".join(whole.lines).startswith(ABOVE)
