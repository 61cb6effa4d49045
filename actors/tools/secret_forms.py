"""Detection of forms that ask for a secret. Pure.

Answers to forms are stored and shown. MCP requires that servers ask for secrets with an address to visit and
not with a form (2025-11-25, "Elicitation", "Security Considerations").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

WORDS = {"passwd", "pwd", "secret", "token", "bearer", "credential", "otp", "totp", "cvv", "cvc"}
"""Words that mark the name of a secret, also in the plural."""
PAIRS = {
    (first, second)
    for second, firsts in {
        "key": "api access private secret auth signing encryption master ssh account",
        "word": "pass",
        "phrase": "pass seed",
        "code": "pass security recovery backup verification authentication authenticator auth mfa login pin",
        "number": "card",
    }.items()
    for first in firsts.split()
}
"""Pairs of adjacent words that mark the name of a secret, also as one word, such as `password`."""
_JOINED = WORDS | {"".join(pair) for pair in PAIRS}
_ENDS = ("password", "passwd", "passphrase", "pwd", "secret", "token", "apikey")
"""Words that mark a secret at the end of a longer word as well, such as `userpassword`."""
_BORDER = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z]+")
_CHOICE = {"type", "title", "description", "default", "enum", "const"}
"""All keywords of a field whose value is chosen, not typed."""


def is_secret_name(name: str) -> bool:
    """Return whether the name of a field denotes a secret. Words are separated by case and by separators:
    `apiKey`, `api-key` and `user_password` do, `primary_key` does not."""
    words = [word.lower() for word in _BORDER.split(unicodedata.normalize("NFKC", name)) if word]
    forms = {*words, "".join(words)}
    forms |= {form.removesuffix("s") for form in forms}
    pairs = ((first, second.removesuffix("s")) for first, second in pairwise(words))
    return any(form in _JOINED or form.endswith(_ENDS) for form in forms) or any(p in PAIRS for p in pairs)


def secret_field(schema: Mapping[str, Any]) -> str | None:
    """Return the name or title of a field that asks for a secret; None if there is none."""
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
                # A field with a description is judged by that.
                known = fields if isinstance(fields, Mapping) else {}
                todo += ((each, None) for each in value if isinstance(each, str) and each not in known)
    return None


def _is_choice(field: object) -> bool:
    if not isinstance(field, Mapping) or not field.keys() <= _CHOICE:
        return False
    return field.get("type") == "boolean" or "const" in field or isinstance(field.get("enum"), list)
