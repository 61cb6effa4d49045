"""Finds the secrets in the entry of a tool server or a remote agent, so that its output can be masked. Pure.

* A value is secret if its name says so: the name of a header, a variable, a query parameter or an option.
* Part of a value is secret if it looks like a key: 16 letters and digits in a row, with some of each. This
  does not count in paths of files and in the hosts of addresses.
* The password in an address is secret, and so is a user without a password.

Values shorter than `SHORTEST` are never masked, because they are likely to occur in ordinary text. A secret
that is a word, such as `postgres`, is also the name of databases, roles and arguments: it is masked only
where the text says that it is a secret.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from urllib.parse import unquote, unquote_plus

from ..text.interpolate import FILE, MalformedReference, Reference, TextPart, parse
from ..text.values import Scalar, Sequence, Table, Value
from .a2a import RemoteAgentConfig
from .address import USER
from .mcp import McpServerConfig

MASK = "***"
SHORTEST = 6
"""Minimum length of a secret, in characters."""

_SECRET_WORD = re.compile(
    r".*(?:token|secrets?|password|passwd|pwd|passphrase|credentials?|authorization|cookie|key)|jwt|pat|pass"
)
_PLAIN_NAME = re.compile(
    r"(?:.*_)?(?:public|primary|foreign|sort|partition)_?key"
    r"|.*_(?:count|dir|endpoint|file|host|id|length|limit|name|path|port|size|timeout|ttl|type|uri|url|user)"
)
"""Names that have such a word, but do not name a secret."""
_SCHEME = re.compile(r"(?:apikey|basic|bearer|token)\s+(\S.*)", re.IGNORECASE | re.DOTALL)
_AUTHORITY = re.compile(r"://[^/?#\s]*/?")
_PARAMETER = re.compile(r"[?&]([^=&#\s]+)=([^&#\s]+)")
_OPTION = re.compile(r"-*([\w-]+)\s*[:=]\s*(?!//)(.+)", re.DOTALL)
_NAME_OF_NEXT = re.compile(r"-+[\w-]+")
_PIECE = re.compile(r"[^\s?#&=:;,@\"'<>()]{16,}")
_KEY = re.compile(r"(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{16}")


_WORD = re.compile(r"(?=.{1,20}$)(?:[A-Z]?[a-z]+|[A-Z]+)(?:[-_ ](?:[A-Z]?[a-z]+|[A-Z]+))*")


def is_word(secret: str) -> bool:
    """Whether a secret is a word or some words, such as `postgres` or `change-me`, so that it is likely to
    occur in ordinary text."""
    return _WORD.fullmatch(secret) is not None


def weak_secrets(server: McpServerConfig | RemoteAgentConfig) -> Iterator[tuple[str, str]]:
    """The names of secrets of a server or an agent that are not masked everywhere, with the reason."""
    if isinstance(server, RemoteAgentConfig):
        return weak_values(server.all_headers)
    return weak_values({**server.headers, **server.env})


def weak_values(values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The same of values with names, such as variables or headers."""
    for name, value in values.items():
        if value and says_secret(name):
            if len(value) < SHORTEST:
                yield name, f"it has fewer than {SHORTEST} characters"
            elif is_word(value):
                yield name, "it is a common word"


def says_secret(name: str) -> bool:
    """Whether a value of this name is secret."""
    words = re.findall("[a-z]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())
    return any(map(_SECRET_WORD.fullmatch, words)) and not _PLAIN_NAME.fullmatch("_".join(words))


def seems_secret(text: str) -> bool:
    """Whether the text, a word without separators, looks like a key."""
    return _KEY.search(text) is not None


def secrets_in(name: str, value: str) -> Iterator[str]:
    """The secrets in a value of this name."""
    if says_secret(name):
        scheme = _SCHEME.fullmatch(value.strip())
        credentials = scheme[1] if scheme else value
        yield credentials
        yield _basic(credentials).partition(":")[2]
        if name.lower().endswith("cookie"):
            yield from (each.partition("=")[2] for each in value.split(";"))
    for user in (user for word in value.split() for user in USER.findall(word)):
        for credentials in (user, unquote(user)):
            yield credentials
            yield credentials.partition(":")[2]
    for parameter, content in _PARAMETER.findall(value):
        if says_secret(parameter):
            yield from (content, unquote_plus(content))
    for piece in _PIECE.findall(_AUTHORITY.sub(" ", value)):
        if not piece.startswith(("/", "./", "../", "~")):
            yield from filter(seems_secret, piece.split("/"))


def secrets_of(server: McpServerConfig | RemoteAgentConfig) -> Iterator[str]:
    """The secrets in the configuration of a server or an agent."""
    yield from server.secrets
    yield from secrets_in("", server.url or "")
    if isinstance(server, RemoteAgentConfig):
        yield from secrets_of_values(server.all_headers)
        return
    yield from secrets_of_values(server.headers)
    if server.oauth is not None:
        yield server.oauth.client_secret
    yield from secrets_of_values(server.env)
    for each in map(secrets_of_argument, ("", *server.args), server.args):
        yield from (secret for _, secret in each)


def secrets_of_argument(before: str, value: str) -> Iterator[tuple[str, str]]:
    """The secrets in an argument of a command, each with the name of its option. `before` is the argument
    before it."""
    name = before if _NAME_OF_NEXT.fullmatch(before) and not value.startswith("-") else ""
    yield from ((name, secret) for secret in secrets_in(name, value))
    if option := _OPTION.fullmatch(value):
        yield from ((option[1], secret) for secret in secrets_in(option[1], option[2]))


def secrets_of_values(values: Mapping[str, str]) -> Iterator[str]:
    """The secrets in values with names, such as variables or headers."""
    for name, value in values.items():
        yield from secrets_in(name, value)


def secrets_of_variables(written: Value, lookup: Callable[[str], str | None]) -> Iterator[str]:
    """The secrets in the variables that an entry refers to, and the contents of the files that it refers to.
    `written` is the entry in the configuration file."""
    match written:
        case Scalar(value=str(text)):
            with suppress(MalformedReference):  # under an unknown key, which is reported
                names = [part.name for part in parse(text) if isinstance(part, Reference)]
                yield from secrets_of_values({name: lookup(name) or "" for name in names})
                yield from (lookup(name) or "" for name in names if name.startswith(FILE))
        case Sequence(items=items):
            for item in items:
                yield from secrets_of_variables(item, lookup)
        case Table(entries=entries):
            for item in entries.values():
                yield from secrets_of_variables(item, lookup)
        case _:
            pass


def _basic(credentials: str) -> str:
    """User and password in credentials of the scheme Basic (RFC 7617); empty if there are none."""
    try:
        return b64decode(credentials, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""


# ----------------------------------------------------------------- addresses in logs

_FIRST = 0xE000
"""First private-use character. While an address is parsed, each reference is replaced by one of them."""
_REFERENCES = re.compile("[:\ue000-\uf8ff]*")
_STEP = re.compile("(?<![:/])/[^/]+")
_ARGUMENT = re.compile("([?&#])([^=&#]*=)?([^&#]*)")


def shown_address(parts: tuple[TextPart, ...]) -> str:
    """An address as logs show it: the user, values in the query and path segments that look like a key are
    masked. References stay; where a secret could be, without their defaults."""
    references = [part for part in parts if isinstance(part, Reference)]
    signs = {chr(_FIRST + number): reference for number, reference in enumerate(references)}
    free = iter(signs)
    text = "".join(part if isinstance(part, str) else next(free) for part in parts)

    def bare(text: str) -> str:
        if not _REFERENCES.fullmatch(text):
            return MASK
        return "".join(f"${{{signs[char].name}}}" if char in signs else char for char in text)

    end = min((at for mark in "?#" if (at := text.find(mark)) >= 0), default=len(text))
    query = _ARGUMENT.sub(lambda each: f"{each[1]}{each[2] or ''}{bare(each[3])}", text[end:])
    place = USER.sub(lambda user: bare(user[0]), text[:end])
    place = _STEP.sub(lambda step: f"/{MASK}" if seems_secret(step[0]) else step[0], place)
    for sign, reference in signs.items():
        place = place.replace(sign, _shown(reference))
    return place + query


def _shown(reference: Reference) -> str:
    if reference.default is None or seems_secret(reference.default):
        return f"${{{reference.name}}}"
    return f"${{{reference.name}:-{shown_address((reference.default,))}}}"
