"""`${VAR}`, `${VAR:-default}` and `${file:PATH}` in configuration text. Pure: the caller provides the values.

`${env:VAR}` is another spelling of `${VAR}`, which other programs use.

`$${` stands for a literal `${`. As in a shell, `:-` also replaces a variable that is set but empty. Values
are not expanded again: a value that contains `${X}` stays as it is. A default contains no reference. A
reference to a file has no default, because a secret that is missing must not be replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

import attrs

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_DEFAULT = r"(?:(?!\$\{)[^}])*"
FILE = "file:"
"""How the name of a reference to a file begins; the path follows."""
_FILE = rf"{FILE}(?:(?!\$\{{)[^}}])+"
_TOKEN = re.compile(
    rf"(?P<escape>\$\$\{{)|\$\{{(?:(?P<file>{_FILE})|(?:env:)?(?P<name>{_NAME})(?::-(?P<default>{_DEFAULT}))?)\}}"
)

WHOLE_REFERENCE_PATTERN = rf"^\$\{{({_FILE}|(env:)?{_NAME}(:-{_DEFAULT})?)\}}$"
"""JSON Schema pattern of a text that is exactly one reference."""


@attrs.frozen
class Reference:
    name: str
    """The name of a variable, or `FILE` with a path."""
    default: str | None = None


TextPart: TypeAlias = str | Reference
VariableLookup: TypeAlias = Callable[[str], str | None]
"""Returns the value of a reference by its name; None if it is a variable that is not set."""


class MalformedReference(Exception):
    """A `${` that neither starts a reference nor is escaped."""


class UnsetVariable(Exception):
    """A reference without default to a variable that is not set."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def parse(text: str) -> tuple[TextPart, ...]:
    """Split a text into literal texts, unescaped, and references. Raises `MalformedReference`."""
    parts: list[TextPart] = []
    literal = ""
    end = 0
    for token in _TOKEN.finditer(text):
        literal += _plain(text[end : token.start()])
        end = token.end()
        if token["escape"]:
            literal += "${"
            continue
        if literal:
            parts.append(literal)
            literal = ""
        parts.append(Reference(token["file"] or token["name"], token["default"]))
    literal += _plain(text[end:])
    if literal:
        parts.append(literal)
    return tuple(parts)


def fill(parts: tuple[TextPart, ...], lookup: VariableLookup) -> str:
    """Replace references by the values of variables. Raises `UnsetVariable`."""
    return "".join(part if isinstance(part, str) else _value(part, lookup) for part in parts)


def escape(text: str) -> str:
    """The text with `${` escaped, so that it is read as `text`."""
    return text.replace("${", "$${")


def whole_reference(parts: tuple[TextPart, ...]) -> Reference | None:
    """The only reference of a text; None if the text has anything else."""
    match parts:
        case (Reference() as reference,):
            return reference
        case _:
            return None


def _plain(text: str) -> str:
    if "${" in text:
        raise MalformedReference
    return text


def _value(reference: Reference, lookup: VariableLookup) -> str:
    value = lookup(reference.name)
    if reference.default is not None and not value:
        return reference.default
    if value is None:
        raise UnsetVariable(reference.name)
    return value
