"""Characters that a reader cannot see, or that reorder others, as escapes. Pure.

A person decides about a call by the text that is shown, so it must be the text that is sent. Every surface
escapes by this rule; the page has it in `text.js`. Hidden are

* the categories Cc, Cf, Cs, Zl and Zp of Unicode: controls, marks of direction, zero-width joiners, tags,
  halves of surrogates, separators of lines;
* the property Default_Ignorable_Code_Point (Unicode 16, DerivedCoreProperties.txt): fillers that are drawn
  as nothing, variation selectors, and places without a character;
* U+2800, a Braille cell without dots.

A variation selector 15 or 16 after a symbol, or in a keycap, chooses the form of an emoji, and stays.
"""

from __future__ import annotations

import re
import unicodedata

_CATEGORIES = ("Cc", "Cf", "Cs", "Zl", "Zp")
_OTHERS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff]"
)
_SYMBOLS = "\u203c\u2049\u2139\u3030"
"""Characters of other categories that are emoji."""


def visible(text: str, kept: str = "\n\t") -> str:
    """The text with hidden characters as escapes of Python. `kept`: controls that the surface shows as they
    are."""
    if text.isprintable() and not _OTHERS.search(text):
        return text
    return "".join(
        each if each in kept or not is_hidden(text, at) else each.encode("unicode_escape").decode()
        for at, each in enumerate(text)
    )


def is_hidden(text: str, at: int) -> bool:
    """Whether the character at a position is hidden."""
    if text[at] in "\ufe0e\ufe0f" and at:
        before = text[at - 1]
        if before in "#*0123456789":
            return text[at + 1 : at + 2] != "\u20e3"
        return before not in _SYMBOLS and unicodedata.category(before) not in ("So", "Sm", "Sk")
    return unicodedata.category(text[at]) in _CATEGORIES or _OTHERS.match(text[at]) is not None
