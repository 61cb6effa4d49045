"""The shapes of configuration values, derived from attrs classes.

The reader and the JSON Schema both use these shapes, so each key is defined in one place: as a field. The
bodies of the HTTP contract (`gateway/contract`) describe their fields in the same way.
"""

from __future__ import annotations

import functools
import math
import re
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import attrs

from ..text.values import Mark, Plain, Table

_ABOUT = "stopgo.about"

T = TypeVar("T")

Empty: TypeAlias = Literal["refused", "nothing", "none"]
"""The meaning of a list, a mapping or a section without content.

`refused`: it is an error, because an omitted key can permit more than a written one. With `auth:` and only
comments below it, anyone could use the agent.
`nothing`: no value and an empty one both mean that nothing is added to what the agent can use.
`none`: an empty list means none, which is less than the default; no value is an error.
"""


@attrs.frozen
class About:
    """The facts about a key that the type of its field does not express."""

    text: str
    """Description for people and for the JSON Schema."""
    minimum: float | None = None
    above: float | None = None
    """Exclusive minimum."""
    maximum: float | None = None
    pattern: str | None = None
    """A regular expression that the whole text must match; needs `meaning`."""
    meaning: str | None = None
    """Describes a text that matches `pattern`, to follow "expected"."""
    regex: bool = False
    """The text is a Python regular expression."""
    not_empty: bool = False
    """An empty text is refused."""
    empty: Empty = "refused"
    """The meaning of a list, a mapping or a section without content."""
    unique_names: bool = False
    """The items of the list have unique `name`s."""
    by_name: bool = False
    """The list may also be a mapping from the `name`s to the other keys of each item."""
    pairs: bool = False
    """The mapping may also be a list of `KEY=VALUE` texts."""
    keys: About | None = None
    """Limits of the keys of the mapping."""
    items: About | None = None
    """Limits of the items of the list or mapping."""
    key: str | None = None
    """The name of the key, if it differs from that of the field."""
    alias: str | None = None
    """Another key that means the same."""
    opposite: str | None = None
    """Another key, for a flag, that means the opposite."""
    synonyms: Mapping[str, str] = attrs.field(factory=dict)
    """Other words for words of a choice."""
    needs: str | None = None
    """Another key that must stand beside this one."""
    filled_in: bool = False
    """May be omitted, because it is filled in from other keys before reading."""
    derived: bool = False
    """Not a key of the file: computed when the file is loaded."""
    schema: Mapping[str, Any] = attrs.field(factory=dict)
    """Keywords that the HTTP contract adds to the JSON Schema of the type."""


def about(text: str, **limits: Any) -> Mapping[str, About]:
    """The `metadata` of a field; `limits` are the fields of `About`."""
    return {_ABOUT: About(text, **limits)}


def default(value: T, text: str, *, repr: bool = True, **limits: Any) -> T:
    """A field that may be omitted, with its default value and the arguments of `about`."""
    return attrs.field(default=value, repr=repr, metadata=about(text, **limits))


def about_of(field: attrs.Attribute[Any]) -> About:
    """The description of a field. Raises KeyError if it has none."""
    described: About = field.metadata[_ABOUT]
    return described


SOME_TEXT = About("", not_empty=True)
"""An item that is a text and not empty."""
NO_TILDE: Mapping[str, Any] = {"pattern": r"(?!~)[\s\S]*", "meaning": "a path (for ~ write ${HOME})"}
"""Limits of a path. Only a shell expands `~`; the system would create a folder of that name."""


@attrs.frozen
class Text:
    pattern: str | None = None
    meaning: str | None = None
    not_empty: bool = False
    regex: bool = False


PAIR = Text(r"[^=]+=[\s\S]*", "KEY=VALUE")
"""An item of the list form of a mapping with `pairs`."""


@attrs.frozen
class Number:
    whole: bool
    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    seconds: bool = False
    """The unit is seconds: the description begins with "Seconds"."""


@attrs.frozen
class Flag:
    """True or false."""


@attrs.frozen
class AnyScalar:
    """A text, a number, or true or false."""


@attrs.frozen
class Anything:
    """Any JSON value; references are expanded at any depth."""


@attrs.frozen
class Choice:
    words: tuple[str, ...]
    synonyms: Mapping[str, str] = attrs.field(factory=dict)
    """Other words that are read as one of `words`."""


@attrs.frozen
class ListOf:
    item: Shape
    unique_names: bool = False
    by_name: bool = False


@attrs.frozen
class MapOf:
    """A mapping from texts to items of one shape."""

    item: Shape
    key: Text = Text()
    pairs: bool = False


@attrs.frozen
class Section:
    """A mapping that becomes an instance of `cls`."""

    cls: type


@attrs.frozen
class Variants:
    """A mapping whose `type` key says which of the sections it is."""

    sections: Mapping[str, Section]


Shape: TypeAlias = Text | Number | Flag | AnyScalar | Anything | Choice | ListOf | MapOf | Section | Variants


@attrs.frozen
class Key:
    name: str
    shape: Shape
    about: About
    required: bool
    """The key must be in the file."""
    default: str | float | Path | None = None
    """The default of an omitted key; None if it is not a plain value."""
    alias_of: str | None = None
    """The key that this key is another name of."""
    is_opposite: bool = False
    """It is another name of the opposite."""
    field: str = ""
    """The field for the value."""

    @property
    def may_be_blank(self) -> bool:
        """Whether no value means the default, as `mcp_servers:` with all entries commented out."""
        return self.about.empty == "nothing"

    @property
    def is_collection(self) -> bool:
        return isinstance(self.shape, ListOf | MapOf | Section)

    @property
    def needs_content(self) -> bool:
        """Whether an empty list or mapping is refused here. A section with keys that it needs names them."""
        match self.shape:
            case ListOf() | MapOf():
                return self.about.empty == "refused"
            case Section(cls):
                needs_keys = any(key.required for key in keys_of(cls).values()) or exactly_one_of(cls)
                return self.about.empty == "refused" and not needs_keys
            case _:
                return False


@functools.cache
def keys_of(cls: type) -> Mapping[str, Key]:
    """The keys of a section, by name, in the order of its fields."""
    hints = typing.get_type_hints(cls)
    keys: dict[str, Key] = {}
    for field in attrs.fields(cls):
        if (described := about_of(field)).derived:
            continue
        shape = _shape_of(hints[field.name], described)
        name = described.key or field.name
        keys[name] = Key(
            name=name,
            shape=shape,
            about=described,
            required=field.default is attrs.NOTHING and not described.filled_in,
            default=field.default if isinstance(field.default, str | int | float | Path) else None,
            field=field.name,
        )
        if described.alias:
            other = About(f"The same as `{name}`.", needs=described.needs, empty=described.empty)
            keys[described.alias] = Key(
                described.alias, shape, other, required=False, alias_of=name, field=field.name
            )
        if described.opposite:
            other = About(f"The opposite of `{name}`.")
            keys[described.opposite] = Key(
                described.opposite,
                shape,
                other,
                required=False,
                alias_of=name,
                is_opposite=True,
                field=field.name,
            )
    return keys


def names_of(cls: type, name: str) -> tuple[str, ...]:
    """The names of a key of a section, including aliases."""
    return tuple(key.name for key in keys_of(cls).values() if name in (key.name, key.alias_of))


def written_as(cls: type, name: str, value: Table) -> str | None:
    """The name with which a key of a section is written; None if it is not given."""
    return next((each for each in names_of(cls, name) if each in value.entries), None)


def type_word(cls: type) -> str | None:
    """The value of `type` in this section; None for a section without that key."""
    word = getattr(cls, "TYPE", None)
    return word if isinstance(word, str) else None


def exactly_one_of(cls: type) -> tuple[tuple[str, ...], ...]:
    """Groups of keys, of which exactly one group must be given. Empty without such a rule."""
    groups: tuple[tuple[str, ...], ...] = getattr(cls, "EXACTLY_ONE_OF", ())
    return groups


def needed_by_words(cls: type) -> tuple[tuple[str, str, str], ...]:
    """Triples of a key, one of its words, and the key that this word needs."""
    needed: tuple[tuple[str, str, str], ...] = getattr(cls, "WORD_NEEDS", ())
    return needed


def needs_a_key(cls: type) -> bool:
    """Whether this section must have at least one key."""
    return bool(getattr(cls, "NOT_EMPTY", False))


def short_for(cls: type) -> Key | None:
    """The key for a bare value in place of this section; None if a bare value is not allowed."""
    name = getattr(cls, "SHORT", None)
    return keys_of(cls)[name] if name else None


def mark_of(cls: type, value: Table) -> Mapping[str, Mark | None]:
    """The field `mark` of this section, if it has one: the position of the key `MARKED`."""
    key = getattr(cls, "MARKED", None)
    return {"mark": value.entries.get(key, value).mark} if key else {}


_SIMPLE: Mapping[Any, Shape] = {bool: Flag(), Plain: AnyScalar(), Any: Anything()}
"""The shapes of types whose values have no limits."""


def _shape_of(hint: Any, described: About) -> Shape:
    hint = without_none(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in (str, Path):
        return Text(described.pattern, described.meaning, described.not_empty, described.regex)
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if hint in (int, float):
        in_seconds = described.text.startswith("Seconds ")
        return Number(hint is int, described.minimum, described.above, described.maximum, in_seconds)
    if origin is Literal:
        return Choice(arguments, described.synonyms)
    if origin is tuple:
        item = _shape_of(arguments[0], described.items or About(""))
        return ListOf(item, described.unique_names, described.by_name)
    if origin is not None and issubclass(origin, Mapping):
        item = _shape_of(arguments[1], described.items or About(""))
        key = Text(described.keys.pattern, described.keys.meaning) if described.keys else Text()
        return MapOf(item, key, described.pairs)
    if attrs.has(hint):
        return Section(hint)
    if members := _variants(hint):
        return Variants(members)
    raise TypeError(f"no configuration value has the type {hint!r}")


def without_none(hint: Any) -> Any:
    """The type of a value that is given, if that is one type."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint
    members = [member for member in typing.get_args(hint) if member is not types.NoneType]
    return members[0] if len(members) == 1 else hint


def _variants(hint: Any) -> Mapping[str, Section]:
    members = {type_word(cls): Section(cls) for cls in typing.get_args(hint)}
    return {word: section for word, section in members.items() if word is not None}


# ----------------------------------------------------------------- texts from variables, ranges

_WHOLE = re.compile(r"[-+]?[0-9]{1,18}")
_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")
_FLAGS = {"true": True, "false": False}


def typed(text: str, shape: Shape) -> object:
    """The value of a variable: a flag or a number where the shape needs one, if the text is one."""
    if isinstance(shape, Flag):
        return _FLAGS.get(text, text)
    if isinstance(shape, Number):
        if _WHOLE.fullmatch(text):
            return int(text)
        if _NUMBER.fullmatch(text):
            return float(text)
    return text


def in_range(number: float, shape: Number) -> bool:
    return (
        not (isinstance(number, float) and math.isnan(number))
        and (shape.minimum is None or number >= shape.minimum)
        and (shape.above is None or number > shape.above)
        and (shape.maximum is None or number <= shape.maximum)
    )
