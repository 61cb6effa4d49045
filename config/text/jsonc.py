"""JSON as people write it, to YAML that means the same. Pure.

VS Code and other programs accept comments and trailing commas in JSON (the format is called JSONC). YAML has
trailing commas, but other comments, no tabs before a key, and no pairs of escaped surrogates.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""
    (?P<string>"(?:[^"\\\n]|\\.)*"?)
    | (?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
    | (?P<tab>\t)
    """,
    re.VERBOSE | re.DOTALL,
)
_PAIR = re.compile(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)
_SLASH = re.compile(r"(\\\\)|\\/")


def jsonc_to_yaml(text: str) -> str:
    """The text without comments and tabs outside its strings. Every value keeps its line.

    A text that does not begin like JSON is returned as it is. Braces are added around the members of an
    object, because people copy these without the braces.
    """
    bare = _TOKEN.sub(_cleaned, text)
    match bare.lstrip()[:1]:
        case "{" | "[":
            return bare
        case '"':
            return f"{{{bare}}}"
        case _:
            return text


def _cleaned(token: re.Match[str]) -> str:
    if token["string"] is not None:
        return _PAIR.sub(_joined, _SLASH.sub(lambda each: each[1] or "/", token["string"]))
    return "\n" * token[0].count("\n") or " "


def _joined(pair: re.Match[str]) -> str:
    return chr(0x10000 + ((int(pair[1], 16) & 0x3FF) << 10) + (int(pair[2], 16) & 0x3FF))
