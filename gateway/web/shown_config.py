"""An agent file as the page shows it: as written, but without secrets. Pure.

References such as `${VAR}` stay, so no value of a variable is shown. These literal values are masked:

* all values of headers and of the environment of servers;
* values whose name indicates a secret, and values that look like a key;
* users in URLs, and the values in their queries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from ...config.sections.secrets import MASK, says_secret, secrets_in, seems_secret, shown_address
from ...config.text.interpolate import MalformedReference, Reference, TextPart, escape, parse
from ...config.text.values import Invalid, Plain, Scalar, Sequence, Table, Value, plain

_PRIVATE = re.compile(r"env|environment|.*headers?|.*cookies?", re.IGNORECASE)
"""Mappings of which only the keys are shown."""
_NAMES_OF_OTHERS = frozenset({"output_key", "api_key_env"})
"""Keys that look secret but whose values are names."""
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s\"'<>]+")
_USER = re.compile(r"[^\s/@:\"']+:[^\s/@\"']+@")
"""A user with a password, also without a URL scheme."""
_ASSIGNED = re.compile(
    r"((?<![\w-])-[\w.-]+\s+|[\w.-]+\s*=\s*|\"[\w.-]+\"\s*:\s*)(\"[^\"]*\"|'[^']*'|[^\s;,&\"'}\]]+)"
)
"""An option with its value, a variable, or an entry of an object in JSON."""
_NAMED = re.compile(r"\s*-*([\w.-]+)\s*[:=]\s*(.*)", re.DOTALL)
_OPTION = re.compile(r"-+[\w.-]+")
_SHORT_NAMES = frozenset({"-p", "-u", "--user", "--auth"})
"""Options that are usually followed by a user or a password."""
_WIDTH = 100


def without_secrets(value: Value) -> Value:
    """The file, or a part of it, with secrets masked."""
    match value:
        case Table(entries=entries):
            return Table({_key(name): _entry(name, each) for name, each in entries.items()}, value.mark)
        case Sequence(items=items):
            return Sequence(tuple(map(without_secrets, items)), value.mark)
        case Scalar(value=str(text)):
            return Scalar(_text(text), value.mark)
        case Scalar() | Invalid():
            return value


def yaml_of(value: Value) -> str:
    """A value as YAML, in the order of the file."""
    text: str = yaml.dump(
        plain(value),
        Dumper=_ConfigDumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=_WIDTH,
    )
    return text


class _ConfigDumper(yaml.SafeDumper):
    """Writes multi-line texts as blocks, and indents lists below their key."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_ConfigDumper.add_representer(str, _string)


# ----------------------------------------------------------------------- masking


def _key(name: str) -> str:
    return MASK if seems_secret(name) else name


def _entry(name: str, value: Value) -> Value:
    if _PRIVATE.fullmatch(name):
        return _names_only(value)
    if name not in _NAMES_OF_OTHERS and says_secret(name):
        return _hidden(value)
    if name == "arguments" and isinstance(value, Table):
        return Table({_key(each): _condition(each, of) for each, of in value.entries.items()}, value.mark)
    if name == "args" and isinstance(value, Sequence):
        return Sequence(tuple(_arguments(value.items)), value.mark)
    return without_secrets(value)


def _condition(name: str, value: Value) -> Value:
    """The condition of a rule on one argument, which is shown unless the argument is a secret."""
    return _hidden(value) if says_secret(name) else without_secrets(value)


def _names_only(value: Value) -> Value:
    """Mask the values of a mapping, or of a list of `NAME=VALUE`."""
    match value:
        case Sequence(items=items):
            return Sequence(tuple(map(_name_only, items)), value.mark)
        case _:
            return _hidden(value)


def _name_only(item: Value) -> Value:
    match item:
        case Scalar(value=str(text)) if "=" in text:
            name, _, content = text.partition("=")
            return Scalar(f"{_text(name)}={_hidden_text(content)}", item.mark)
        case _:
            return _hidden(item)


def _hidden(value: Value) -> Value:
    """Mask all values; keys and references stay."""
    match value:
        case Table(entries=entries):
            return Table({_key(name): _hidden(each) for name, each in entries.items()}, value.mark)
        case Sequence(items=items):
            return Sequence(tuple(map(_hidden, items)), value.mark)
        case Scalar(value=None) | Invalid():
            return value
        case Scalar(value=content):
            return Scalar(_hidden_text(content), value.mark)


def _hidden_text(content: Plain) -> str:
    """References without their defaults; a text with any other content is masked."""
    parts = _parts(str(content))
    if any(isinstance(part, str) for part in parts):
        return MASK
    return "".join(f"${{{part.name}}}" for part in parts if isinstance(part, Reference))


def _arguments(items: tuple[Value, ...]) -> Iterator[Value]:
    """Mask the arguments of a command. An option's name may be in one argument and its value in the next."""
    name = ""
    for item in items:
        text = item.value if isinstance(item, Scalar) else None
        if (
            name
            and (says_secret(name) or name in _SHORT_NAMES)
            and not (isinstance(text, str) and _OPTION.fullmatch(text))
        ):
            yield _hidden(item)
        elif isinstance(text, str) and (named := _NAMED.fullmatch(text)) and says_secret(named[1]):
            yield Scalar(f"{text[: named.start(2)]}{_hidden_text(named[2])}", item.mark)
        else:
            yield without_secrets(item)
        name = text if isinstance(text, str) and _OPTION.fullmatch(text) else ""


def _text(text: str) -> str:
    """A text with its secrets masked; a text that cannot be parsed is masked as a whole."""
    shown = _ADDRESS.sub(lambda found: _address(found[0]), text)
    shown = "".join(escape(part) if isinstance(part, str) else _reference(part) for part in _parts(shown))
    shown = _USER.sub(f"{MASK}@", shown)
    shown = _ASSIGNED.sub(_assignment, shown)
    for secret in sorted(set(secrets_in("", shown)), key=len, reverse=True):
        if secret and MASK not in secret:
            shown = shown.replace(secret, MASK)
    return shown


def _address(text: str) -> str:
    try:
        return shown_address(parse(text))
    except MalformedReference:
        return MASK


def _assignment(found: re.Match[str]) -> str:
    name = found[1].strip(' \t\n="-:')
    if name in _NAMES_OF_OTHERS or not says_secret(name):
        return found[0]
    return f"{found[1]}{_hidden_text(found[2])}"


def _reference(part: Reference) -> str:
    if part.default is None or seems_secret(part.default) or says_secret(part.name):
        return f"${{{part.name}}}"
    return f"${{{part.name}:-{part.default}}}"


def _parts(text: str) -> tuple[TextPart, ...]:
    try:
        return parse(text)
    except MalformedReference:
        return (MASK,)
