"""The texts of a pasted file with the references and the secrets of an agent file. Pure.

References of other clients become variables: `${env:NAME}`, `${input:ID}` (VS Code: by the id, in capitals),
`${userHome}` and `${workspaceFolder}`. A secret becomes a variable, too, which is called after its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from ..sections.secrets import SHORTEST, says_secret, secrets_in, secrets_of_argument
from ..text.interpolate import FILE, Reference, TextPart, escape

_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_OWN = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?")
_SAME = {"userHome": "HOME", "workspaceFolder": "WORKSPACE_FOLDER", "cwd": "WORKSPACE_FOLDER"}
_SIGNS = {"/": "/", "pathSeparator": "/"}
_MAX_LINE = 200


@attrs.frozen
class Variable:
    """A variable that the agent file refers to."""

    name: str
    why: str
    """What it stands for, in a few words."""


def one_line(text: str) -> str:
    """A text of the file for a comment: one line without invisible characters."""
    line = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(line.split())[:_MAX_LINE]


@attrs.define
class PastedTexts:
    """Translates texts, and collects the variables."""

    _inputs: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    keep_secrets: bool = attrs.field(default=False, kw_only=True)
    _whys: dict[str, str] = attrs.field(factory=dict)
    _values: dict[str, str] = attrs.field(factory=dict)
    """The secrets by variable."""
    _notes: list[str] = attrs.field(factory=list)

    @property
    def variables(self) -> tuple[Variable, ...]:
        return tuple(Variable(name, why) for name, why in self._whys.items())

    def take_notes(self) -> list[str]:
        """The notes since the last call."""
        notes, self._notes = list(dict.fromkeys(self._notes)), []
        return notes

    def plain(self, text: str) -> str:
        """A text that holds no secret."""
        return _written(self._parts(text))

    def of_variable(self, server: str, name: str, text: str) -> str:
        """The value of a variable of a server's environment. A secret keeps the variable's name."""
        found = [(_word(name if each == text else f"{name}_SECRET"), each) for each in secrets_in(name, text)]
        return self._hidden(text, name, server, found)

    def of_header(self, server: str, name: str, text: str) -> str:
        return self._hidden(
            text, name, server, [(_word(server, name), each) for each in secrets_in(name, text)]
        )

    def address(self, server: str, text: str) -> str:
        return self._hidden(
            text, "", server, [(_word(server, "URL_SECRET"), each) for each in secrets_in("", text)]
        )

    def arguments(self, server: str, given: list[str]) -> list[str]:
        return [
            self._hidden(
                text,
                "",
                server,
                [(_word(server, name or "SECRET"), each) for name, each in secrets_of_argument(before, text)],
            )
            for before, text in zip(("", *given), given, strict=False)
        ]

    def _hidden(self, text: str, name: str, server: str, secrets: Iterable[tuple[str, str]]) -> str:
        """The text with a variable in place of each secret."""
        parts = self._parts(text)
        if self.keep_secrets:
            return _written(parts)
        if name and says_secret(name) and not text.strip():
            return f"${{{self._variable(_word(name), '', server)}}}"
        literal = all(isinstance(part, str) for part in parts)
        longest = sorted(dict.fromkeys(secrets), key=lambda each: -len(each[1]))
        for variable, secret in longest:
            is_secret = secret.strip() and "${" not in secret and (literal or len(secret) >= SHORTEST)
            if is_secret and any(isinstance(part, str) and secret in part for part in parts):
                parts = _replaced(parts, secret, self._variable(variable, secret, server))
                literal = False
        return _written(parts)

    def _variable(self, wanted: str, secret: str, server: str) -> str:
        """The variable for a secret, called as wanted if no other secret has that name."""
        name, number = wanted, 1
        while self._values.get(name, secret) != secret or (name in self._whys and name not in self._values):
            number += 1
            name = f"{_word(server)}_{wanted}" if number == 2 else f"{wanted}_{number}"
        self._values[name] = secret
        known = ", which is in the pasted file" if secret else ""
        self._whys.setdefault(name, f"a secret of {one_line(server)}{known}")
        return name

    def _parts(self, text: str) -> tuple[TextPart, ...]:
        """A text with the references of an agent file."""
        parts: list[TextPart] = []
        end = 0
        for found in _REFERENCE.finditer(text):
            parts.append(text[end : found.start()])
            parts.append(self._reference(found[1], found[0]))
            end = found.end()
        parts.append(text[end:])
        return tuple(part for part in parts if part != "")

    def _reference(self, inside: str, written: str) -> TextPart:
        if inside in _SIGNS:
            return _SIGNS[inside]
        if inside.startswith(FILE) and inside != FILE:
            return Reference(inside)
        if inside in _SAME:
            if inside != "userHome":
                self._whys.setdefault(_SAME[inside], "the folder of the project")
            return Reference(_SAME[inside])
        if own := _OWN.fullmatch(inside):
            if own[2] is None:
                self._whys.setdefault(own[1], "the pasted file refers to it")
            return Reference(own[1], own[2] and own[2].removeprefix(":-"))
        kind, _, id = inside.partition(":")
        if not re.search("[A-Za-z0-9]", id or kind):
            return written
        name = _word(id or kind)
        if kind != "input":
            self._notes.append(f"{one_line(written)} became a variable: an agent cannot look it up.")
            self._whys.setdefault(name, one_line(written))
            return Reference(name)
        asked = self._inputs.get(id, {})
        default = asked.get("default")
        if isinstance(default, str) and default and not asked.get("password") and not {*"${}"} & {*default}:
            return Reference(name, default)
        self._whys.setdefault(name, one_line(str(asked.get("description") or f"the input {id}")))
        return Reference(name)


def _replaced(parts: tuple[TextPart, ...], secret: str, variable: str) -> tuple[TextPart, ...]:
    found: list[TextPart] = []
    for part in parts:
        if isinstance(part, Reference):
            found.append(part)
            continue
        for number, piece in enumerate(part.split(secret)):
            found += ([Reference(variable)] if number else []) + ([piece] if piece else [])
    return tuple(found)


def _written(parts: tuple[TextPart, ...]) -> str:
    """Parts as an agent file has them."""
    return "".join(
        escape(part)
        if isinstance(part, str)
        else f"${{{part.name}}}"
        if part.default is None
        else f"${{{part.name}:-{part.default}}}"
        for part in parts
    )


def _word(*names: str) -> str:
    """The name of a variable: capitals, digits and `_`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", "_".join(names))
    word = re.sub("[^A-Z0-9]+", "_", spaced.upper()).strip("_")
    return f"_{word}" if word[:1].isdigit() else word or "SECRET"
