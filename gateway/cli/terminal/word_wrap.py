"""Breaks lines between words at the edge of a terminal. Pure.

A terminal itself breaks a line in the middle of a word. A word that is longer than a line is left to it.
"""

from __future__ import annotations

import re

import attrs
from rich.cells import cell_len, get_character_cell_size

_WORDS = re.compile(r"\s+|\S+")


def wrapped(text: str, width: int) -> str:
    """Return the text with newlines in place of the spaces at which it has to be broken. `width`: the columns
    of the terminal."""
    return "\n".join(_wrapped_line(line, width) for line in text.expandtabs(4).split("\n"))


def _wrapped_line(line: str, width: int) -> str:
    lines, column = [""], 0
    for word in _WORDS.findall(line):
        size = cell_len(word)
        if lines[-1].strip() and column + size > width:
            lines[-1] = lines[-1].rstrip()
            lines.append("")
            column = 0
            if word.isspace():
                continue
        lines[-1] += word
        column += size
        if column > width:
            column = (column - 1) % width + 1
    return "\n".join(lines)


@attrs.define
class WordWrap:
    """Wraps a text that is printed in pieces. A word whose end does not fit into its line is moved from there
    to the next one."""

    width: int
    """Columns of the terminal."""
    row: int = 0
    """Row of the cursor, relative to the beginning of the text."""
    column: int = 0
    _word: str = ""
    """The current word so far."""
    _breaks: bool = False
    """Whether the line is full, so that the next word begins on the next one."""

    def write(self, text: str) -> str:
        """Return what to print for the next piece."""
        return "".join(map(self._character, text.expandtabs(4)))

    def _character(self, character: str) -> str:
        size = get_character_cell_size(character)
        if character == "\n":
            self._next_row(0)
            return character
        if character == " ":
            self._word = ""
            if self._breaks or self.column + size > self.width:
                self._breaks = True
                return ""
            self.column += size
            return character
        if self._breaks:
            self._next_row(0)
            return "\n" + self._put(character, size)
        if self.column + size <= self.width:
            return self._put(character, size)
        word, length = self._word, cell_len(self._word)
        if length < self.column:
            begins = self.column - length
            self._next_row(length)
            return f"\x1b[{begins + 1}G\x1b[K\n{word}" + self._put(character, size, word)
        self._next_row(0)  # by the terminal
        return self._put(character, size, word)

    def _put(self, character: str, size: int, word: str | None = None) -> str:
        self.column += size
        self._word = (self._word if word is None else word) + character
        return character

    def _next_row(self, column: int) -> None:
        self.row, self.column, self._word, self._breaks = self.row + 1, column, "", False
