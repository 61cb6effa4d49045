"""The words that `offline:rules` knows, and how sentences and tool names are split into words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import attrs


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VERBS = {
    "list": _words("list show display get view see enumerate find print count what what's which"),
    "read": _words("read open cat show display print view"),
    "search": _words("search find grep"),
    "add": _words("add create make new insert register"),
    "remove": _words("remove delete drop destroy erase"),
    "write": _words("write save overwrite"),
    "edit": _words("edit update change modify set"),
    "move": _words("move rename"),
}
READING = _words("list read search")
"""Kinds of verbs that change nothing."""
ASKING = _words("what what's which")
"""Verbs that also begin other questions."""

NOUNS = {
    "resource": _words("resource server item entry record"),
    "directory": _words("directory folder dir files"),
    "file": _words("file document"),
}
"""Things that tools manage, with their synonyms. A directory lists `files`, so the word means a directory."""

FILLERS = _words(
    "a an the this that these those it its them me us my our your i i'd i'm you we please kindly "
    "could can would will want need like to of in on at into by from for with and is are be as do does did "
    "have has here there whose now just all every each any some everything anything whole new one ones "
    "let let's thanks thank ok also then ="
)
"""Words without a meaning of their own."""
LINKS = _words("is are to of as =")
"""Words between the name of an argument and its value."""
DOUBTS = _words(
    "not no never don't dont doesn't didn't cannot can't won't shouldn't how why should if unless except but "
    "without instead when until before after or undo stop nor neither none nothing maybe perhaps something "
    "whatever first last latest newest oldest previous other others rest remaining same both"
)
"""Words that negate a sentence, make it a question or refer to earlier sentences. A sentence with one of them
changes nothing."""
QUESTIONS = _words("do does did is are was were has have had am may shall can could would")
"""Words that make a sentence a question when they precede its verb."""
PHRASES = {
    ("get", "rid", "of"): "remove",
    ("do", "away", "with"): "remove",
    ("how", "many"): "count",
    ("look", "for"): "find",
    ("look", "at"): "show",
}
"""Several words that are one verb."""
PARTICLES = _words("up out away down off over back aside rid")
"""Words that change the meaning of the verb before them. A sentence with one of them, but without a verb of
`SEPARABLE` to which it belongs, is not understood."""
SEPARABLE = {
    "set up": "create",
    "spin up": "create",
    "look up": "find",
    **dict.fromkeys(("throw away", "throw out", "take away", "take out", "take down", "tear down"), "remove"),
    **dict.fromkeys(("clear out", "wipe out"), "remove"),
}
"""Verbs with a particle, which may come later: `set up x` and `set x up`."""
MATCHING = _words("contains containing starts starting begins beginning ends ending")
"""Words that ask for a kind of match which this model does not support."""
NAMING = ("name", "named", "called")
"""Words that announce a name. The name is matched literally."""
TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
VALUED = ("value", "worth", "=")
"""Words that announce a value."""
_MARKERS = {
    "name": NAMING,
    "value": VALUED,
    "pattern": ("pattern", "regex", "matching"),
    "source": ("source", "from"),
    "destination": ("destination", "to", "into"),
}


def kinds(word: str) -> frozenset[str]:
    """The kinds of verb that a word can be; empty if it is no verb."""
    return frozenset(kind for kind, words in _VERBS.items() if word in words)


def is_inflected(word: str) -> bool:
    """Whether a word is a form of a verb that changes something, such as `removed` or `dropping`."""
    for end in ("ed", "ing"):
        stem = word.removesuffix(end)
        if stem != word:
            forms = (stem, f"{stem}e", stem[:-1])
            return any(kinds(form) - READING for form in forms)
    return False


def markers(parameters: Iterable[str]) -> dict[str, str]:
    """The words that announce a value, each with the parameter of that value."""
    names = list(parameters)
    found = {word: name for name in names for word in _MARKERS.get(name, (name.casefold(),))}
    if "pattern" in names and "name" not in names:
        found |= dict.fromkeys(NAMING, "pattern")
    return found


def singular(word: str) -> str:
    return word[:-3] + "y" if word.endswith("ies") else re.sub(r"(?<=[^s])s$", "", word)


def noun(word: str) -> str:
    """The one word that stands for all its synonyms."""
    for head, words in NOUNS.items():
        if word in words or singular(word) in words:
            return head
    return singular(word)


def name_words(name: str) -> tuple[str, ...]:
    """`resources_list`, `resources-list` and `resourcesList` are `resources` and `list`."""
    return tuple(
        part.casefold() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+|[^\W\d_a-zA-Z]+", name)
    )


# ----------------------------------------------------------------- sentences

_GREETING = re.compile(r"^\s*(hi|hello|hey)\b[\s,.!]*", re.IGNORECASE)
_TOKEN = re.compile(
    r"""(?:(?P<quote>["'`])(?P<inner>.*?)(?P=quote)|[‘“„«](?P<marked>[^’”“»]*)[’”“»])(?!\w)[.:!?]*"""
    r"|=|[^\s=,;]+"
)
_VALUE_SHAPE = re.compile(r"[\d\-_./~@:*\\^$+]")
_LONGEST = 2_000
"""Characters. A longer text is not a simple sentence."""


@attrs.frozen
class Word:
    text: str
    quoted: bool = False

    @property
    def key(self) -> str:
        """The text for look-ups. It is empty for a quoted word, which can only be a value."""
        return "" if self.quoted else self.text.casefold().replace("’", "'")

    @property
    def is_value(self) -> bool:
        """Whether the word looks like a name or a number rather than a word of English."""
        return self.quoted or bool(_VALUE_SHAPE.search(self.text))


def split(text: str, tools: Iterable[str]) -> list[Word]:
    """The words of a sentence; empty if the text is too long to be one.

    The name of one of the `tools` is split into its words.
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
    return _with_phrases(words)


def _with_phrases(words: list[Word]) -> list[Word]:
    """The words, with one verb in the place of several words that are one."""
    found: list[Word] = []
    rest = list(words)
    while rest:
        keys = tuple(word.key for word in rest)
        phrase = next((each for each in PHRASES if keys[: len(each)] == each), None)
        if phrase is not None:
            found.append(Word(PHRASES[phrase]))
            del rest[: len(phrase)]
            continue
        first = rest.pop(0)
        for at, key in enumerate(keys[1:]):
            if (separable := SEPARABLE.get(f"{keys[0]} {key}")) is not None:
                first = Word(separable)
                del rest[at]
                break
            if kinds(key):  # the particle would belong to this verb
                break
        found.append(first)
    return found


def doubt(words: Sequence[Word], verb: str) -> str | None:
    """The first word that makes it doubtful whether the sentence asks for the change."""
    keys = [word.key for word in words]
    unsure = [at for at, key in enumerate(keys) if key in DOUBTS]
    # "Could you remove it?" asks for the change, "could I?" does not.
    before = keys.index(verb) if verb in keys else 0
    unsure += [at for at in range(before) if keys[at] in QUESTIONS and not _is_polite(keys[at : at + 2])]
    return words[unsure[0]].text if unsure else None


def _is_polite(keys: Sequence[str]) -> bool:
    return keys[0] in ("can", "could", "would") and keys[1:] in (["you"], ["we"])
