"""Regular expressions in files and schemas. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

import regex

_PART = re.compile(
    r"(?P<kept>\\.|\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<end>\$)|(?P<lines>\(\?[a-zA-Z]*m)|.", re.DOTALL
)
"""An escaped character or a set, a dollar sign, the flag `m`, or another character."""


@lru_cache(maxsize=1024)
def end_of_text(pattern: str) -> str:
    r"""The expression with `\Z` for `$`.

    Python's `$` also matches before a line break at the end of the text. That of JSON Schema does not
    (ECMA-262, "Assertion"). An expression with the flag `m` stays as it is.
    """
    parts = list(_PART.finditer(pattern))
    if any(part["lines"] for part in parts):
        return pattern
    ended = "".join(r"\Z" if part["end"] else part[0] for part in parts)
    try:
        regex.compile(ended)
    except regex.error:  # a repeated `$`
        return pattern
    return ended
