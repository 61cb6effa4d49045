"""A sentence as the words it is made of."""

from __future__ import annotations

import re
from collections.abc import Iterable

import attrs

from stopgo.actors.models.vocabulary import name_words

_GREETING = re.compile(r"^\s*(hi|hello|hey)\b[\s,.!]*", re.IGNORECASE)
_TOKEN = re.compile(r"""(?P<quote>["'`])(?P<inner>.*?)(?P=quote)(?!\w)|=|[^\s=]+""")
_LOOKS_LIKE_VALUE = re.compile(r"[\d\-_./~@:*\\^$+]")
_LONGEST = 2_000
"""Characters; what is longer is no simple sentence."""


@attrs.frozen
class Word:
    text: str
    quoted: bool = False

    @property
    def key(self) -> str:
        """What it is looked up by; a quoted word is a value and nothing else."""
        return "" if self.quoted else self.text.casefold().replace("’", "'")

    @property
    def is_value(self) -> bool:
        """Whether it looks like a name or a number rather than a word of the language."""
        return self.quoted or bool(_LOOKS_LIKE_VALUE.search(self.text))


def split(text: str, tools: Iterable[str]) -> list[Word]:
    """The words of a sentence, none if it is too long to be one.

    The name of one of the `tools` stands for the words it is made of.
    """
    names = {name.casefold(): name_words(name) for name in tools}
    words: list[Word] = []
    for token in _TOKEN.finditer(_GREETING.sub("", text) if len(text) <= _LONGEST else ""):
        bare = token[0] if token[0] in {".", ".."} else token[0].rstrip(".,;:!?")
        if token["quote"]:
            words.append(Word(token["inner"], quoted=True))
        elif bare:
            words += map(Word, names.get(bare.casefold(), (bare,)))
    return words
