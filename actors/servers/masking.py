"""Masking of the secrets of a tool server or another agent in all its output: results, errors, lists of
tools, questions, stderr, and log lines that quote any of these.

A secret that is a word, such as `postgres`, may also be the name of a database or an argument, which the
model needs. It is masked as a whole word in log lines; elsewhere only beside a name that says that it is a
secret, and as the password in an address.
"""

from __future__ import annotations

import json
import logging
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

import attrs

from ...config.sections.a2a import RemoteAgentConfig
from ...config.sections.mcp import McpServerConfig
from ...config.sections.secrets import MASK, SHORTEST, is_word, says_secret, secrets_of
from ..tools.tool import Tool
from .bearer import current_bearer

BEGINNING = 8
"""Minimum number of characters of a secret at the end of a truncated text to be masked."""

WEAK_SECRET = "the value of %s is not masked everywhere: %s"

T = TypeVar("T")


@attrs.define(eq=False)
class Secrets:
    """The secrets of a server, in all forms in which they can occur."""

    _found_as: dict[str, frozenset[str]] = attrs.field(factory=dict, repr=False)
    """The forms by source."""
    _forms: tuple[tuple[str, str], ...] = attrs.field(default=(), repr=False)
    """All forms, each with its first characters, longest first."""
    _words: frozenset[str] = attrs.field(default=frozenset(), repr=False)
    """Secrets written by people that are words."""
    _in_line: re.Pattern[str] | None = attrs.field(default=None, repr=False)
    """A word of them."""
    _named: re.Pattern[str] | None = attrs.field(default=None, repr=False)
    """A word of them where a text says that it is a secret; the first group is what says it."""

    @classmethod
    def of(cls, config: McpServerConfig | RemoteAgentConfig) -> Secrets:
        secrets = cls()
        secrets.learn_written("configuration", secrets_of(config))
        return secrets

    def learn_written(self, source: str, values: Iterable[str]) -> None:
        """Set the secrets of a source that people have written, so that they may be words."""
        found = frozenset(values)
        words = frozenset(each for each in found if len(each) >= SHORTEST and is_word(each))
        self.learn(source, found - words)
        self._words |= words
        if self._words:
            longest_first = sorted(self._words, key=len, reverse=True)
            word = rf"(?:{'|'.join(map(re.escape, longest_first))})(?![\w-])"
            self._in_line = re.compile(rf"(?<![\w-]){word}")
            self._named = re.compile(_SAYING + word)

    def learn(self, source: str, values: Iterable[str]) -> None:
        """Set the secrets of a source, which are tokens."""
        self._found_as[source] = frozenset(form for value in values for form in _forms(value))
        forms = sorted(frozenset().union(*self._found_as.values()), key=len, reverse=True)
        self._forms = tuple((form[:BEGINNING], form) for form in forms)

    def beside(self, bearer: str | None) -> Secrets:
        """Return these secrets and the token of a call."""
        if bearer is None:
            return self
        both = attrs.evolve(self, found_as=dict(self._found_as))
        both.learn("bearer", [bearer])
        return both

    @property
    def empty(self) -> bool:
        """Whether there is nothing to mask."""
        return not self._forms and not self._words

    def mask(self, text: str) -> str:
        """Mask all secrets in a text, and the beginning of a secret at its end."""
        for beginning, form in self._forms:
            if beginning not in text:
                continue
            text = text.replace(form, MASK)
            at = text.find(beginning, max(0, len(text) - len(form) + 1))
            while at >= 0:
                if form.startswith(text[at:]):
                    text = text[:at] + MASK
                at = text.find(beginning, at + 1)
        return self._named.sub(_masked_after, text) if self._named else text

    def masked(self, value: T) -> T:
        """Mask all texts inside a JSON value or an attrs object."""
        return value if self.empty else self._masked(value)

    def _masked(self, value: Any) -> Any:
        match value:
            case str():
                return self.mask(value)
            case None | int() | float():
                return value
            case Mapping():
                return {self._masked(name): self._masked_of(name, each) for name, each in value.items()}
            case list() | tuple():
                return type(value)(map(self._masked, value))
            case _ if attrs.has(type(value)):
                names = [field.name for field in attrs.fields(type(value))]
                return attrs.evolve(value, **{name: self._masked(getattr(value, name)) for name in names})
            case _:
                return value

    def _masked_of(self, name: Any, value: Any) -> Any:
        is_word = isinstance(value, str) and value in self._words
        return MASK if is_word and says_secret(str(name)) else self._masked(value)

    def tool(self, tool: Tool) -> Tool:
        """Mask the description and schemas of a tool. Its names stay, because it is called by them."""
        if self.empty:
            return tool
        told = ("description", "input_schema", "title", "output_schema")
        return attrs.evolve(tool, **{name: self._masked(getattr(tool, name)) for name in told})

    def in_log(self, record: logging.LogRecord) -> bool:
        """A logging filter that masks records, also with the token of the current call."""
        secrets = self.beside(current_bearer())
        record.msg, record.args = secrets._mask_line(record.getMessage()), ()
        if record.exc_info:
            record.exc_text = secrets._mask_line(logging.Formatter().formatException(record.exc_info))
        return True

    def _mask_line(self, text: str) -> str:
        text = self.mask(text)
        return self._in_line.sub(MASK, text) if self._in_line else text

    def stream(self) -> MaskedStream:
        """Return a masker for a stream of bytes."""
        return MaskedStream([_encoded(form) for _, form in self._forms])


class MaskedStream:
    """Masks secrets in a stream of bytes, also across the borders of chunks."""

    def __init__(self, forms: list[bytes]) -> None:
        self._forms = forms
        self._any = re.compile(b"|".join(map(re.escape, forms)))
        self._kept_back = b""
        """Bytes kept back, because they may be the beginning of a secret."""

    def feed(self, chunk: bytes | bytearray) -> bytes:
        """Mask the next chunk. Keep back a possible beginning of a secret at its end."""
        if not self._forms:
            return bytes(chunk)
        data = self._kept_back + chunk
        kept_from = len(data) - max(_overlap(data, form) for form in self._forms)
        out, at = bytearray(), 0
        for found in self._any.finditer(data):
            if found.start() >= kept_from:
                break  # it may be the beginning of a longer secret
            out += data[at : found.start()] + MASK.encode()
            at = found.end()
        kept_from = max(kept_from, at)
        self._kept_back = data[kept_from:]
        return bytes(out + data[at:kept_from])

    def rest(self) -> bytes:
        """Return the bytes kept back at the end of the stream."""
        rest, self._kept_back = self._kept_back, b""
        return rest if len(rest) < BEGINNING else MASK.encode()


_SAYING = (
    r"(?i:([\w-]*(?:token|secret|password|passwd|pwd|passphrase|credential|authorization|cookie|key|pass)s?"
    r"[\"']?\s*(?:[:=]|\bis\b)\s*(?:(?:basic|bearer)\s+)?[\"']?|://[^/\s:@]*:))"
)


def _masked_after(found: re.Match[str]) -> str:
    return f"{found[1]}{MASK}"


def _overlap(data: bytes, form: bytes) -> int:
    """Return how many bytes at the end of the data are the beginning of a form."""
    at = data.find(form[:1], max(0, len(data) - len(form) + 1))
    while at >= 0 and not form.startswith(data[at:]):
        at = data.find(form[:1], at + 1)
    return len(data) - at if at >= 0 else 0


def _forms(secret: str) -> Iterator[str]:
    """Yield the forms of a secret: verbatim, and as encoded in JSON, URLs and Base64. A secret of several
    lines is masked line by line, because output shows it in lines."""
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
    """Encode as UTF-8. Environment variables may contain lone surrogates."""
    return text.encode(errors="surrogatepass")


def _in_base64(secret: bytes) -> Iterator[str]:
    """Yield the characters that the Base64 of any text with this secret contains, for each of the three
    possible alignments, and the Base64 of the secret alone."""
    for before in range(3):
        encoded = b64encode(bytes(before) + secret).decode()
        sure = encoded[-(-8 * before // 6) : 8 * (before + len(secret)) // 6]
        for form in (sure, encoded) if not before else (sure,):
            yield form
            yield form.translate(str.maketrans("+/", "-_"))
