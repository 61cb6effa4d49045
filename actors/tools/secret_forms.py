"""Which forms ask for a secret. Pure.

What is typed into a form is stored and shown like any other answer. MCP demands that servers ask for secrets
by an address to visit and not by a form (2025-11-25, "Elicitation", "Security Considerations").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

WORDS = {"passwd", "pwd", "secret", "token", "bearer", "credential", "otp", "totp", "cvv", "cvc"}
"""A name with one of these words is that of a secret; a plural counts as the word."""
PAIRS = {
    (first, second)
    for second, firsts in {
        "key": "api access private secret auth signing encryption master ssh account",
        "word": "pass",
        "phrase": "pass seed",
        "code": "pass security recovery backup",
        "number": "card",
    }.items()
    for first in firsts.split()
}
"""So is one with these words next to each other, or in one: `password`."""
_JOINED = WORDS | {"".join(pair) for pair in PAIRS}
_ENDS = ("password", "passwd", "passphrase", "pwd", "secret", "token", "apikey")
"""Words that count at the end of a longer one, too: `userpassword`."""
_BORDER = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z]+")
_CHOICE = {"type", "title", "description", "default", "enum", "const"}
"""All keywords of a field whose answer is chosen, not typed."""


def is_secret_name(name: str) -> bool:
    """Whether a field of this name is for a secret. Case and separators tell words apart: `apiKey`, `api-key`
    and `user_password` are such names, `primary_key` is none."""
    words = [word.lower() for word in _BORDER.split(unicodedata.normalize("NFKC", name)) if word]
    forms = {*words, "".join(words)}
    forms |= {form.removesuffix("s") for form in forms}
    pairs = ((first, second.removesuffix("s")) for first, second in pairwise(words))
    return any(form in _JOINED or form.endswith(_ENDS) for form in forms) or any(p in PAIRS for p in pairs)


def secret_field(schema: Mapping[str, Any]) -> str | None:
    """The name or title of a field of the form that is for a secret; None when there is none."""
    todo: list[tuple[str, Any]] = [("", schema)]
    while todo:
        name, node = todo.pop()
        if _is_choice(node):
            continue
        if is_secret_name(name):
            return name
        if isinstance(node, list):
            todo += (("", each) for each in node)
        if not isinstance(node, Mapping):
            continue
        title, fields = node.get("title"), node.get("properties")
        if str(node.get("format")).lower() == "password":
            return name or "format: password"
        if isinstance(title, str) and is_secret_name(title):
            return title
        for keyword, value in node.items():
            named = keyword in ("properties", "patternProperties") and isinstance(value, Mapping)
            todo += value.items() if named else (("", value),)
            if keyword == "required" and isinstance(value, list):
                # Of a field that is described, the description counts.
                known = fields if isinstance(fields, Mapping) else {}
                todo += ((each, None) for each in value if isinstance(each, str) and each not in known)
    return None


def _is_choice(field: object) -> bool:
    if not isinstance(field, Mapping) or not field.keys() <= _CHOICE:
        return False
    return field.get("type") == "boolean" or "const" in field or isinstance(field.get("enum"), list)
