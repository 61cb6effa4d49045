"""Conversion of Markdown to a tree of tokens, from which the page builds its elements. Pure.

Every tag is in `TAGS`. HTML stays text, images become their alternative text, and only http, https and mailto
links become links. A text that is too long, nested too deeply or has too many tokens is shown as written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token as Parsed

MarkdownToken: TypeAlias = dict[str, Any]
"""``tag`` and ``children``, which are tokens and texts; with ``href``, ``info``, ``start`` or ``align``."""

MAX_TEXT = 64 * 1024
"""Bytes of a text that is parsed."""
MAX_TOKENS = 20_000
"""Tokens and texts in one document."""
MAX_DEPTH = 40
"""Maximum nesting of tokens."""
_TAGS = "p h1 h2 h3 h4 h5 h6 em strong s code pre ul ol li blockquote hr br a table thead tbody tr th td"
TAGS = frozenset(_TAGS.split())
SCHEMES = frozenset({"http", "https", "mailto"})
_MAX_LEVEL = 20
"""Maximum nesting of blocks in the parser, which drops deeper ones."""


class _TooMuch(Exception):
    """The tree would be too deep or too large."""


def document(text: str) -> list[MarkdownToken]:
    """The blocks of a text."""
    if len(text) > MAX_TEXT or len(text.encode("utf-8", "replace")) > MAX_TEXT:
        return _as_written(text)
    parsed = _PARSER.parse(text)
    if any(each.nesting == 1 and each.level >= _MAX_LEVEL - 1 for each in parsed):
        return _as_written(text)
    try:
        return _Tree().build(parsed)
    except _TooMuch:
        return _as_written(text)


def is_safe(href: str) -> bool:
    """Whether the scheme of a link is allowed."""
    try:
        return urlsplit(href).scheme in SCHEMES
    except ValueError:
        return False


def _as_written(text: str) -> list[MarkdownToken]:
    return [{"tag": "pre", "children": [text]}]


def _image(state: StateInline, silent: bool) -> bool:
    """The rule for `![alternative text](address "title")`, which parses only the alternative text.

    The parser's own rule recurses for each image within an image, without a bound.
    """
    if not state.src.startswith("![", state.pos):
        return False
    helpers, most = state.md.helpers, state.posMax
    start, end = state.pos + 2, helpers.parseLinkLabel(state, state.pos + 1, False)
    if end < 0 or not state.src.startswith("(", end + 1):
        return False
    address = helpers.parseLinkDestination(state.src, _after_spaces(state, end + 2), most)
    pos = _after_spaces(state, address.pos if address.ok else end + 2)
    title = helpers.parseLinkTitle(state.src, pos, most)
    if title.ok:
        pos = _after_spaces(state, title.pos)
    if pos >= most or state.src[pos] != ")":
        return False
    if not silent:
        state.pos, state.posMax = start, end
        state.push("image_open", "", 1)
        state.md.inline.tokenize(state)
        state.push("image_close", "", -1)
    state.pos, state.posMax = pos + 1, most
    return True


def _after_spaces(state: StateInline, pos: int) -> int:
    while pos < state.posMax and state.src[pos] in " \t\n":
        pos += 1
    return pos


class _MarkdownParser(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        """Whether the URL may be a link; otherwise it stays text."""
        return is_safe(url)


def _parser() -> MarkdownIt:
    parser = _MarkdownParser("commonmark", {"html": False, "linkify": False, "maxNesting": _MAX_LEVEL})
    parser.enable(["strikethrough", "table"])
    # With references, a long URL that is defined once and used often could inflate the answer without bound,
    # and the definitions would be missing from the text.
    parser.disable("reference")
    parser.inline.ruler.at("image", _image)
    return parser


_PARSER = _parser()


class _Tree:
    """Builds the tree. It does not recurse, because emphasis can nest as deep as the text is long."""

    def __init__(self) -> None:
        self._blocks: list[Any] = []
        self._open: list[list[Any]] = [self._blocks]
        """The children of the open tokens, innermost last."""
        self._count = 0
        self._links = 0
        """Number of open links. Only the outermost one becomes a link."""

    def build(self, parsed: Iterable[Parsed]) -> list[MarkdownToken]:
        self._add_all(parsed)
        return self._blocks

    def _add_all(self, parsed: Iterable[Parsed]) -> None:
        for each in parsed:
            if each.nesting == 1:
                self._enter(each)
            elif each.nesting == -1:
                self._open.pop()
                self._links -= each.tag == "a"
            elif each.type == "inline":
                self._add_all(each.children or ())
            else:
                self._add_leaf(each)

    def _enter(self, parsed: Parsed) -> None:
        is_link = parsed.tag == "a"
        self._links += is_link
        # The parser does not check an empty URL.
        is_none = is_link and (self._links > 1 or not is_safe(str(parsed.attrs["href"])))
        if parsed.hidden or parsed.tag not in TAGS or is_none:
            self._open.append(self._open[-1])
            return
        children: list[Any] = []
        self._add({"tag": parsed.tag, "children": children, **_extras(parsed)})
        self._open.append(children)
        if len(self._open) > MAX_DEPTH:
            raise _TooMuch

    def _add_leaf(self, parsed: Parsed) -> None:
        match parsed.type:
            case "hr":
                self._add({"tag": "hr", "children": []})
            case "hardbreak":
                self._add({"tag": "br", "children": []})
            case "softbreak":
                self._add_text("\n")
            case "code_inline":
                self._add({"tag": "code", "children": [parsed.content]})
            case "code_block" | "fence":
                info = parsed.info.split()[:1]
                code = parsed.content.removesuffix("\n")
                self._add(
                    {"tag": "pre", "children": [code] if code else [], **({"info": info[0]} if info else {})}
                )
            case _:
                self._add_text(parsed.content)

    def _add_text(self, text: str) -> None:
        children = self._open[-1]
        if children and isinstance(children[-1], str):
            children[-1] += text
        elif text:
            self._add(text)

    def _add(self, child: MarkdownToken | str) -> None:
        self._count += 1
        if self._count > MAX_TOKENS:
            raise _TooMuch
        self._open[-1].append(child)


def _extras(parsed: Parsed) -> MarkdownToken:
    if parsed.tag == "a":
        return {"href": parsed.attrs["href"]}
    if "start" in parsed.attrs:
        return {"start": parsed.attrs["start"]}
    if style := parsed.attrs.get("style"):
        return {"align": str(style).removeprefix("text-align:")}
    return {}
