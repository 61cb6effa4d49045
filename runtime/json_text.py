"""The JSON dialects. No other module parses JSON or imports orjson; a test holds that.

| function | dialect | used for | duplicate names | NaN, 1e999 | lone surrogates | big integers | depth |
|---|---|---|---|---|---|---|---|
| `dump` | own | the journal | | refused | escaped | exact | ~1,000 |
| `canonical` | own | what is hashed | | refused | escaped | exact | ~1,000 |
| `load` | own | the journal, our servers' answers | last wins | kept | kept | exact | ~1,000 |
| `load_edge` | edge | request bodies, typed JSON | refused | refused | refused | 308 digits | 100 |
| `load_provider` | provider | replies of providers and agents | last wins | refused | U+FFFD | exact | 100 |
| `load_piece` | provider | events of providers | last wins | refused | kept | exact | 100 |
| `load_values` | model | arguments of tool calls | refused if unequal | refused | U+FFFD | exact | 100 |
| `load_mcp` | MCP | messages of tool servers | last wins | null | U+FFFD | or null | ~1,000 |
| `dump_wire` | wire | answers, events, requests to others | | null | U+FFFD | exact | ~1,000 |

* own: a round trip. Every value that `dump` accepts, `load` returns equal. The text is valid UTF-8.
* edge: strict. With duplicate names, a proxy may have judged another value than this program uses. Every
  accepted value fits everywhere that it goes later.
* provider: damaged characters are replaced, so that the rest of the reply can be used. NaN and infinity are
  refused, because they may be arguments of a tool call.
  A character may be cut between two events, so `load_piece` keeps its halves, which `mend` joins later.
* model: several values one after the other, with line breaks inside strings. Names that are there twice with
  different values have two meanings.
* MCP: as tolerant as possible. The call may have had an effect, and without its reply a human would have
  to find out which.
* wire: always valid JSON in one line.

Sizes are bounded where the bytes arrive, not here. "~1,000" is Python's recursion limit. "exact" holds up
to 4,300 digits, which is Python's limit; above it `load_mcp` returns null, and the others raise. All
readers raise ValueError, for nesting too. Text for people, such as arguments in a prompt, is made with
`json.dumps` where it is shown. `actors/mcp/wire/message_bound.py` reads the beginnings of messages that
are too long, which are not JSON.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import orjson

MAX_DEPTH = 100
"""Levels of objects and arrays that text from outside may have. Every JSON library has a limit of its own,
all of them higher: an accepted value can be passed on in a larger one."""


def depth(value: object) -> int:
    """The number of levels of objects and arrays in a JSON value; 0 for any other value."""
    level, found = [value], 0
    while level := [each for each in level if isinstance(each, dict | list)]:
        found += 1
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
    return found


# ----------------------------------------------------------------- own


def _mapping(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} is not JSON")


def _encoder(*, ascii_only: bool = False, sort_keys: bool = False) -> Callable[[object], str]:
    return json.JSONEncoder(
        ensure_ascii=ascii_only,
        allow_nan=False,
        check_circular=False,
        sort_keys=sort_keys,
        separators=(",", ":"),
        default=_mapping,
    ).encode


_compact = _encoder()
_ascii = _encoder(ascii_only=True)
_canonical = _encoder(ascii_only=True, sort_keys=True)
_OWN = json.JSONDecoder()
_ONLY_JSON = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME


def dump(value: object) -> str:
    """Write a JSON value in the own dialect, compactly.

    Raises:
        TypeError, ValueError: the value is not JSON; NaN and infinity are not.
        RecursionError: it contains itself, or a thousand levels.
    """
    try:
        text = orjson.dumps(value, _mapping, _ONLY_JSON).decode()
    except orjson.JSONEncodeError:  # orjson also refuses integers of more than 64 bits and lone surrogates
        return _dump_slowly(value)
    # orjson writes NaN and infinity as null; such a text does not read back equal.
    if "null" in text and orjson.loads(text) != value:
        return _dump_slowly(value)
    return text


def _dump_slowly(value: object) -> str:
    text = _compact(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:  # UTF-8 cannot hold a lone surrogate; an escape can
            return _ascii(value)
    return text


def load(text: str) -> Any:
    """Read a text that this program has written. Raises ValueError."""
    try:
        # `decode` would search for blanks before the value, which takes as long as reading a short text.
        value, end = _OWN.raw_decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if end < len(text) and not text[end:].isspace():
        raise ValueError(f"there is more after the JSON, at character {end}")
    return value


def canonical(value: object) -> str:
    """Write a JSON value in ASCII with its names in order: equal values have the same text."""
    return _canonical(value)


def same(one: str, other: str) -> bool:
    """Compare the values of two texts. The order of names does not matter; 1, 1.0 and true differ."""
    return one == other or _canonical(load(one)) == _canonical(load(other))


# ----------------------------------------------------------------- edge


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    if math.isfinite(number := float(digits)):
        return number
    raise ValueError("a number is out of range")


def _fits_a_double(digits: str) -> int:
    if len(digits) > sys.float_info.max_10_exp:
        _finite(digits)
    return int(digits)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    named = dict(pairs)
    if len(named) < len(pairs):
        raise ValueError("a name is there twice in one object")
    return named


_EDGE = json.JSONDecoder(
    parse_constant=_refuse, parse_float=_finite, parse_int=_fits_a_double, object_pairs_hook=_object
)


def load_edge(raw: bytes | str) -> Any:
    """Read strict JSON (RFC 8259).

    Raises:
        JSONDecodeError: the syntax is wrong.
        ValueError: the JSON is not acceptable.
    """
    try:
        text = raw.decode() if isinstance(raw, bytes) else raw
        value = _EDGE.decode(text)
        if isinstance(raw, str) or _has_surrogate_escape(text):
            _compact(value).encode()
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from None
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair in a string") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if _too_deep(text, value):
        raise ValueError(f"nested more than {MAX_DEPTH} deep")
    return value


def _has_surrogate_escape(text: str) -> bool:
    """Whether a text may have a surrogate. Only an escape can bring one, because decoded bytes hold none."""
    return "\\ud" in text or "\\uD" in text


def _too_deep(text: str, value: object) -> bool:
    # Count the brackets first, because few texts have so many.
    return text.count("{") + text.count("[") > MAX_DEPTH and depth(value) > MAX_DEPTH


# ----------------------------------------------------------------- provider and MCP


def _null(_constant: str) -> None:
    return None


def _finite_or_null(digits: str) -> float | None:
    return number if math.isfinite(number := float(digits)) else None


def _int_or_null(digits: str) -> int | None:
    try:
        return int(digits)
    except ValueError:  # more digits than Python reads
        return None


def _one_meaning(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    named = dict(pairs)
    if len(named) < len(pairs):
        for name, value in pairs:
            if _canonical(value) != _canonical(named[name]):
                raise ValueError(f"the name {name!r} is there twice, with different values")
    return named


_PROVIDER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
_MODEL = json.JSONDecoder(
    parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_one_meaning, strict=False
)
_BLANK = re.compile(r"[ \t\n\r]*")
_ODD_BYTES = re.compile("[\udc80-\udcff]+")
_MCP = json.JSONDecoder(parse_constant=_null, parse_float=_finite_or_null, parse_int=_int_or_null)


def load_provider(raw: bytes | str) -> Any:
    """Read the reply of a model provider or an A2A agent. Raises ValueError."""
    text = _decoded(raw)
    value = _load_repaired(_PROVIDER, text)
    if _too_deep(text, value):
        raise ValueError("nested too deeply")
    return value


def load_piece(text: str) -> Any:
    """Read an event of a provider. Its texts may end or begin with half a character. Raises ValueError."""
    text = text.strip(" \t\n\r")
    try:
        # `decode` would search for blanks, which takes as long as reading a short text.
        value, end = _PROVIDER.raw_decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if end < len(text):
        raise ValueError(f"there is more after the JSON, at character {end}")
    if _too_deep(text, value):
        raise ValueError("nested too deeply")
    return value


def load_values(text: str) -> list[Any]:
    """Read the JSON values that follow each other in a text of a model. Raises ValueError."""
    values: list[Any] = []
    at = _end_of_blank(text, 0)
    try:
        while at < len(text):
            value, at = _MODEL.raw_decode(text, at)
            values.append(value)
            at = _end_of_blank(text, at)
        if _has_surrogate_escape(text):
            values = json.loads(_repaired(_compact(values)))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if any(_too_deep(text, value) for value in values):
        raise ValueError("nested too deeply")
    return values


def _end_of_blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None
    return found.end()


def mend(text: str) -> str:
    """Join the halves of characters in a text that was cut, and replace the halves that are alone.

    A half is that of a surrogate pair, or bytes of a UTF-8 sequence that were decoded as `surrogateescape`.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        paired = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        return _repaired(_ODD_BYTES.sub(_decoded_bytes, paired))
    return text


def _decoded_bytes(found: re.Match[str]) -> str:
    return found[0].encode(errors="surrogateescape").decode(errors="replace")


def load_mcp(raw: bytes | str) -> Any:
    """Read a message of a tool server. Raises ValueError."""
    return _load_repaired(_MCP, _decoded(raw))


def _decoded(raw: bytes | str) -> str:
    # Servers on .NET send a byte order mark. The codec utf-8-sig would take longer than reading a short text.
    return raw.decode(errors="replace").removeprefix("\ufeff") if isinstance(raw, bytes) else raw


def _load_repaired(decoder: json.JSONDecoder, text: str) -> Any:
    try:
        value = decoder.decode(text)
        # Programs in JavaScript send lone surrogates when they cut a text.
        return decoder.decode(_repaired(_compact(value))) if _has_surrogate_escape(text) else value
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _repaired(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# ----------------------------------------------------------------- wire


class Written:
    """A JSON array of which all items are written already, each in the dialect "wire"."""

    def __init__(self, items: Sequence[bytes]) -> None:
        self._items = items

    def to_json(self) -> list[Any]:
        found: list[Any] = json.loads(bytes(self))
        return found

    def __bytes__(self) -> bytes:
        return b"[%b]" % b",".join(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Written) and bytes(self) == bytes(other)

    __hash__ = None  # type: ignore[assignment]


def _own_json_or_written(value: object) -> object:
    return orjson.Fragment(bytes(value)) if isinstance(value, Written) else _own_json(value)


def _own_json(value: object) -> object:
    to_json = getattr(value, "to_json", None)
    return _mapping(value) if to_json is None else to_json()


_any_value = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_own_json).encode


def dump_wire(value: object) -> bytes:
    """Write a JSON value for another program, in one line. A value that is not JSON has a method `to_json`.

    Raises:
        TypeError: a value is not JSON and has no such method.
    """
    try:
        return orjson.dumps(value, _own_json_or_written)
    except orjson.JSONEncodeError:  # a lone surrogate, an integer of more than 64 bits, 255 levels
        text = _any_value(value)
        if "NaN" in text or "Infinity" in text:
            text = _any_value(json.loads(text, parse_constant=_null))
        return _repaired(text).encode()
