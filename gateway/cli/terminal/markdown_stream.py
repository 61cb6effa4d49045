"""Shows streamed text on a terminal as it comes, and redraws each complete block as Markdown.

A block ends with an empty line outside of a code fence. It is redrawn as Markdown if all of it is still on
the screen and the size of the window has not changed; otherwise it stays plain. Only the current block is
redrawn, so text that has scrolled away never appears twice.
"""

from __future__ import annotations

import re

import attrs
from markdown_it import MarkdownIt
from rich.console import Console
from rich.markdown import Markdown

from .terminal import printable
from .word_wrap import WordWrap

_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_MARKUP = re.compile(r"[*_`~|]|\]\(|^ {0,3}(?:#|>|[-+] |\d+[.)] |=+ *$|-+ *$)", re.MULTILINE)
_PADDING = re.compile(r" +$", re.MULTILINE)
_UNSURE = re.compile("[\ufe0f\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff]")
"""Characters whose width depends on the terminal."""
_FENCES = ("```", "~~~")
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
# Otherwise HTML, definitions of links and addresses of images disappear from the text, and entities become
# characters that `printable` would have escaped.
_PARSER.disable(["entity", "reference", "image"])


@attrs.define(eq=False)
class MarkdownStream:
    console: Console
    _block: str = ""
    """The current block so far; all of it is on the screen."""
    _size: tuple[int, int] = (0, 0)
    """Columns and rows when the block began."""
    _wrap: WordWrap = attrs.field(factory=lambda: WordWrap(0))
    """Of the current block."""
    _line: str = ""
    """The current line so far."""
    _fence: str | None = None
    _blank: bool = False
    """Whether the previous line is empty and outside of a fence."""

    @property
    def is_open(self) -> bool:
        """Whether a text has begun and not ended."""
        return bool(self._block)

    def write(self, text: str) -> None:
        """Show the next piece of the text."""
        for line in _LINES.findall(printable(text).replace("\t", "    ")):
            if not self._line and self._blank and not line[0].isspace():
                self._end_block(more=True)
            self._draw(line)
            self._line += line
            if line.endswith("\n"):
                self._end_line()
        self.console.file.flush()

    def end(self) -> None:
        """End the text, or interrupt it. The cursor is then at the beginning of a line."""
        self._end_block(more=False)
        self._line, self._fence = "", None

    def show(self, text: str) -> None:
        """Show a whole text."""
        self.console.file.write(self._markdown(printable(text)))
        self.console.file.flush()

    def _end_line(self) -> None:
        start, self._line = self._line.strip(), ""
        if self._fence is None:
            self._fence = next((fence for fence in _FENCES if start.startswith(fence)), None)
            self._blank = not start
        elif start.startswith(self._fence):
            self._fence = None

    def _draw(self, text: str) -> None:
        if not self._block:
            self._size = self.console.size.width, self.console.size.height
            self._wrap = WordWrap(self._size[0])
        self._block += text
        self.console.file.write(self._wrap.write(text))

    def _end_block(self, *, more: bool) -> None:
        block, self._block, self._blank = self._block, "", False
        if not block:
            return
        size = self.console.size.width, self.console.size.height
        fits = self._wrap.row < size[1] - 1 and size == self._size and not _UNSURE.search(block)
        if fits and _MARKUP.search(block):
            up = f"\x1b[{self._wrap.row}A" if self._wrap.row else ""
            gap = "\n" if more else ""
            self.console.file.write(f"\r{up}\x1b[J{self._markdown(block)}{gap}")
        elif not block.endswith("\n"):
            self.console.file.write("\n")
        self.console.file.flush()

    def _markdown(self, text: str) -> str:
        with self.console.capture() as capture:
            # Without terminal links, because the text of a link can hide its address.
            markdown = Markdown("", hyperlinks=False)
            markdown.parsed = _PARSER.parse(text)
            self.console.print(markdown)
        return _PADDING.sub("", capture.get()).strip("\n") + "\n"
