"""A sentence as the words it is made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import attrs

from stopgo.actors.models.vocabulary import DOUBTS, QUESTIONS, name_words

_GREETING = re.compile(r"^\s*(hi|hello|hey)\b[\s,.!]*", re.IGNORECASE)
_TOKEN = re.compile(
    r"""(?:(?P<quote>["'`])(?P<inner>.*?)(?P=quote)|[‘“„«](?P<marked>[^’”“»]*)[’”“»])(?!\w)[.:!?]*"""
    r"|=|[^\s=,;]+"
)
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
        quoted = token["inner"] if token["quote"] else token["marked"]
        if quoted is not None:
            words.append(Word(quoted, quoted=True))
        elif bare:
            words += map(Word, names.get(bare.casefold(), (bare,)))
    return words


def doubt(words: Sequence[Word], verb: str) -> str | None:
    """The word that leaves it open whether the sentence asks for the change its verb is about."""
    keys = [word.key for word in words]
    unsure = [at for at, key in enumerate(keys) if key in DOUBTS]
    # `Could you remove it?` is a way to ask for it, `could I?` is not.
    before = keys.index(verb) if verb in keys else 0
    unsure += [at for at in range(before) if keys[at] in QUESTIONS and not _is_polite(keys[at : at + 2])]
    return words[unsure[0]].text if unsure else None


def _is_polite(keys: Sequence[str]) -> bool:
    return keys[0] in ("can", "could", "would") and keys[1:] in (["you"], ["we"])
