"""The words `offline:rules` knows, and how it takes a word or the name of a tool apart."""

from __future__ import annotations

import re
from collections.abc import Iterable


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VERBS = {
    "list": _words("list show display get view see enumerate find print what what's which"),
    "read": _words("read open cat show display print view"),
    "search": _words("search find grep"),
    "add": _words("add create make new insert register"),
    "remove": _words("remove delete drop destroy erase"),
    "write": _words("write save overwrite"),
    "edit": _words("edit update change modify set"),
    "move": _words("move rename"),
}
READING = _words("list read search")
"""The kinds of verbs that change nothing."""
ASKING = _words("what what's which")
"""Verbs that also begin questions of every other kind."""

NOUNS = {
    "resource": _words("resource server item entry record"),
    "directory": _words("directory folder dir files"),
    "file": _words("file document"),
}
"""Things that tools manage, with the other words for them; `files` are what a directory lists."""

FILLERS = _words(
    "a an the this that these those it its them me us my our your i i'd i'm you we please kindly "
    "could can would will want need like to of in on at into by from for with and is are be as do does did "
    "have has here there whose now just all every each any some everything anything whole new one ones "
    "let let's thanks thank ok also then ="
)
"""Words without weight."""
LINKS = _words("is are to of as =")
"""What may stand between the name of an argument and its value."""
DOUBTS = _words(
    "not no never don't dont doesn't didn't cannot can't won't shouldn't how why should if unless except but "
    "without instead when until before after or undo stop nor neither none nothing maybe perhaps something "
    "whatever first last latest newest oldest previous other others rest remaining same both"
)
"""Words that turn a sentence round, make it a question or mean something that only the past could tell: with
one of them nothing is changed."""
QUESTIONS = _words("do does did is are was were has have had am may shall can could would")
"""Words that make a sentence a question when they stand before its verb."""
MATCHING = _words("contains containing starts starting begins beginning ends ending")
"""Words that say how a name is to be matched, in ways that nobody here understands."""
NAMING = ("name", "named", "called")
"""What announces a name, to be taken literally."""
TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
VALUED = ("value", "worth", "=")
"""What announces a value."""
_MARKERS = {
    "name": NAMING,
    "value": VALUED,
    "pattern": ("pattern", "regex", "matching"),
    "source": ("source", "from"),
    "destination": ("destination", "to", "into"),
}


def kinds(word: str) -> frozenset[str]:
    """The kinds of verbs a word can be; empty when it is none."""
    return frozenset(kind for kind, words in _VERBS.items() if word in words)


def markers(parameters: Iterable[str]) -> dict[str, str]:
    """The words that announce a value, and the parameter it is then meant for."""
    names = list(parameters)
    found = {word: name for name in names for word in _MARKERS.get(name, (name.casefold(),))}
    if "pattern" in names and "name" not in names:
        found |= dict.fromkeys(NAMING, "pattern")
    return found


def singular(word: str) -> str:
    return word[:-3] + "y" if word.endswith("ies") else re.sub(r"(?<=[^s])s$", "", word)


def noun(word: str) -> str:
    """The one word for everything that means the same."""
    for head, words in NOUNS.items():
        if word in words or singular(word) in words:
            return head
    return singular(word)


def name_words(name: str) -> tuple[str, ...]:
    """`resources_list`, `resources-list` and `resourcesList` are `resources` and `list`."""
    return tuple(
        part.casefold() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+|[^\W\d_a-zA-Z]+", name)
    )
