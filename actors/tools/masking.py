"""The secrets of a tool server or of another agent, masked in all that comes from it: results, errors, lists
of tools, questions, stderr, and the lines of the log that quote any of these."""

from __future__ import annotations

import json
import logging
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

import attrs

from ...config.a2a import RemoteAgentConfig
from ...config.mcp import McpServerConfig
from ...config.secrets import MASK, SHORTEST, secrets_of
from .bearer import current_bearer
from .tool import Tool

BEGINNING = 8
"""Characters of a secret by which it is known where a text was cut off in the middle of it."""

T = TypeVar("T")


@attrs.define(eq=False)
class Secrets:
    """The secrets of a server, in each form in which they are found."""

    _found_as: dict[str, frozenset[str]] = attrs.field(factory=dict, repr=False)
    """By where they are from."""
    _forms: tuple[tuple[str, str], ...] = attrs.field(default=(), repr=False)
    """Each with its beginning, the longest first."""

    @classmethod
    def of(cls, config: McpServerConfig | RemoteAgentConfig) -> Secrets:
        secrets = cls()
        secrets.learn("configuration", secrets_of(config))
        return secrets

    def learn(self, source: str, values: Iterable[str]) -> None:
        """Take note of secrets, in place of the earlier ones from this source."""
        self._found_as[source] = frozenset(form for value in values for form in _forms(value))
        forms = sorted(frozenset().union(*self._found_as.values()), key=len, reverse=True)
        self._forms = tuple((form[:BEGINNING], form) for form in forms)

    def beside(self, bearer: str | None) -> Secrets:
        """These, and the token of a call."""
        if bearer is None:
            return self
        both = Secrets(dict(self._found_as))
        both.learn("bearer", [bearer])
        return both

    @property
    def empty(self) -> bool:
        """There is nothing to mask."""
        return not self._forms

    def mask(self, text: str) -> str:
        """The text without secrets, also without the beginning of one at which the text ends."""
        for beginning, form in self._forms:
            if beginning not in text:
                continue
            text = text.replace(form, MASK)
            at = text.find(beginning, max(0, len(text) - len(form) + 1))
            while at >= 0:
                if form.startswith(text[at:]):
                    text = text[:at] + MASK
                at = text.find(beginning, at + 1)
        return text

    def masked(self, value: T) -> T:
        """The value with every text in it masked: JSON, or one of ours with fields."""
        return value if self.empty else self._masked(value)

    def _masked(self, value: Any) -> Any:
        match value:
            case str():
                return self.mask(value)
            case None | int() | float():
                return value
            case Mapping():
                return {self._masked(name): self._masked(each) for name, each in value.items()}
            case list() | tuple():
                return type(value)(map(self._masked, value))
            case _ if attrs.has(type(value)):
                names = [field.name for field in attrs.fields(type(value))]
                return attrs.evolve(value, **{name: self._masked(getattr(value, name)) for name in names})
            case _:
                return value

    def tool(self, tool: Tool) -> Tool:
        """The tool with what its server says of it masked; its names stay, for it is called by them."""
        if self.empty:
            return tool
        told = ("description", "input_schema", "title", "output_schema")
        return attrs.evolve(tool, **{name: self._masked(getattr(tool, name)) for name in told})

    def in_log(self, record: logging.LogRecord) -> bool:
        """A filter of the server's log; it knows the token of the call at hand, too."""
        secrets = self.beside(current_bearer())
        record.msg, record.args = secrets.mask(record.getMessage()), ()
        if record.exc_info:
            record.exc_text = secrets.mask(logging.Formatter().formatException(record.exc_info))
        return True

    def stream(self) -> MaskedStream:
        """For what comes in pieces."""
        return MaskedStream([_encoded(form) for _, form in self._forms])


class MaskedStream:
    """Masks secrets in a stream of bytes, wherever its chunks begin and end."""

    def __init__(self, forms: list[bytes]) -> None:
        self._forms = forms
        self._any = re.compile(b"|".join(map(re.escape, forms)))
        self._held = b""
        """May be the beginning of a secret."""

    def feed(self, chunk: bytes | bytearray) -> bytes:
        """The next chunk, masked, less what may be the beginning of a secret."""
        if not self._forms:
            return bytes(chunk)
        data = self._held + chunk
        held_from = len(data) - max(_overlap(data, form) for form in self._forms)
        out, at = bytearray(), 0
        for found in self._any.finditer(data):
            if found.start() >= held_from:
                break  # it may be the beginning of a longer one
            out += data[at : found.start()] + MASK.encode()
            at = found.end()
        held_from = max(held_from, at)
        self._held = data[held_from:]
        return bytes(out + data[at:held_from])

    def rest(self) -> bytes:
        """What was held back, at the end of the stream."""
        rest, self._held = self._held, b""
        return rest if len(rest) < BEGINNING else MASK.encode()


def _overlap(data: bytes, form: bytes) -> int:
    """How many bytes at the end of the data a longer form begins with."""
    at = data.find(form[:1], max(0, len(data) - len(form) + 1))
    while at >= 0 and not form.startswith(data[at:]):
        at = data.find(form[:1], at + 1)
    return len(data) - at if at >= 0 else 0


def _forms(secret: str) -> Iterator[str]:
    """The forms in which a secret is found: as it is, and as JSON, addresses and Base64 have it. A secret of
    several lines is looked for line by line, for so it is printed."""
    lines = [line.strip() for line in secret.splitlines()]
    if len(lines) > 1:
        yield json.dumps(secret)[1:-1]
    for text in lines:
        if len(text) < SHORTEST:
            continue
        yield from (text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1])
        for safe in ("/", ""):
            yield quote(text, safe, errors="surrogatepass")
            yield quote_plus(text, safe, errors="surrogatepass")
        yield from _in_base64(_encoded(text))


def _encoded(text: str) -> bytes:
    """In UTF-8; a variable of the environment may hold half of a surrogate pair."""
    return text.encode(errors="surrogatepass")


def _in_base64(secret: bytes) -> Iterator[str]:
    """What the Base64 of any text with this secret in it contains, for each of the three ways in which the
    bytes may fall; and the whole Base64 of the secret alone."""
    for before in range(3):
        encoded = b64encode(bytes(before) + secret).decode()
        sure = encoded[-(-8 * before // 6) : 8 * (before + len(secret)) // 6]
        for form in (sure, encoded) if not before else (sure,):
            yield form
            yield form.translate(str.maketrans("+/", "-_"))
