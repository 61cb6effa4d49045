"""Markdown as tokens: the token of each construct, and limits that always hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.gateway.web.markdown_tokens import (
    MAX_DEPTH,
    MAX_TEXT,
    MAX_TOKENS,
    SCHEMES,
    TAGS,
    MarkdownToken,
    document,
    is_safe,
)


def t(tag: str, *children: Any, **more: Any) -> MarkdownToken:
    return {"tag": tag, "children": list(children), **more}


def p(*children: Any) -> list[MarkdownToken]:
    return [t("p", *children)]


def cells(tag: str, *texts: str, align: str | None = None) -> MarkdownToken:
    return t("tr", *(t(tag, text, **({"align": align} if align else {})) for text in texts))


PIECES: list[tuple[str, list[MarkdownToken]]] = [
    ("", []),
    (" \n\n", []),
    ("one\ntwo", p("one\ntwo")),
    ("one  \ntwo", p("one", t("br"), "two")),
    ("one\n\ntwo", [t("p", "one"), t("p", "two")]),
    *((f"{'#' * level} title", [t(f"h{level}", "title")]) for level in range(1, 7)),
    ("title\n===", [t("h1", "title")]),
    ("*a* __b__ ~~c~~", p(t("em", "a"), " ", t("strong", "b"), " ", t("s", "c"))),
    ("***a***", p(t("em", t("strong", "a")))),
    ("`a*b*`", p(t("code", "a*b*"))),
    ("```python title=x\na\n\n b\n```", [t("pre", "a\n\n b", info="python")]),
    ("```\na", [t("pre", "a")]),
    ("> ```", [t("blockquote", t("pre"))]),
    ("    a\n    b", [t("pre", "a\nb")]),
    ("- a\n- b", [t("ul", t("li", "a"), t("li", "b"))]),
    ("- a\n\n- b", [t("ul", t("li", t("p", "a")), t("li", t("p", "b")))]),
    ("- a\n  1. b", [t("ul", t("li", "a", t("ol", t("li", "b"))))]),
    ("7. a\n8. b", [t("ol", t("li", "a"), t("li", "b"), start=7)]),
    ("> a\n> > b", [t("blockquote", t("p", "a"), t("blockquote", t("p", "b")))]),
    ("---", [t("hr")]),
    (
        "|a|b|\n|-|-|\n|1|2|",
        [t("table", t("thead", cells("th", "a", "b")), t("tbody", cells("td", "1", "2")))],
    ),
    *(
        (f"|a|\n|{line}|", [t("table", t("thead", cells("th", "a", align=align)))])
        for line, align in ((":-", "left"), (":-:", "center"), ("-:", "right"))
    ),
    ("[a *b*](https://x.y/z)", p(t("a", "a ", t("em", "b"), href="https://x.y/z"))),
    ('[a](http://x.y "title")', p(t("a", "a", href="http://x.y"))),
    ("<https://x.y>", p(t("a", "https://x.y", href="https://x.y"))),
    ("<a@x.y>", p(t("a", "a@x.y", href="mailto:a@x.y"))),
    ("[<http://a.b>](http://c.d)", p(t("a", "http://a.b", href="http://c.d"))),
    ("https://x.y", p("https://x.y")),
    ("[a]() [*b*]( )", p("a ", t("em", "b"))),
    ("a &amp; &lt;b&gt; \\*c\\*", p("a & <b> *c*")),
]


@pytest.mark.parametrize(("text", "blocks"), PIECES, ids=lambda value: repr(value)[:30])
def test_each_construct_becomes_its_token(text: str, blocks: list[MarkdownToken]) -> None:
    assert document(text) == blocks


def test_pieces_cover_all_tags() -> None:
    assert {token["tag"] for _, blocks in PIECES for token in tokens(blocks)} == TAGS


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("![a *b*](x.png)", p("a ", t("em", "b"))),
        ('![a](  <data:image/png;base64,AA>\n"t" )', p("a")),
        ("![](javascript:alert(1))!", p("!")),
        ("![a ![b](c)](d)", p("a b")),
        ("[![a](b.svg)](https://x.y)", p(t("a", "a", href="https://x.y"))),
        ("![[a](http://b.c)](d)", p(t("a", "a", href="http://b.c"))),
        ("*![a*](b)", p("*a*")),
        *((text, p(text)) for text in ("![a]", "![a](b", "![a][b]", "![a](b 'c)", "!", "a![", "![a](b c)")),
    ],
)
def test_image_becomes_its_alternative_text(text: str, shown: list[MarkdownToken]) -> None:
    assert document(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<b onclick=x>a</b>",
        "a <img src=x onerror=alert(1)> b",
        "<!-- a -->",
        "<svg/onload=alert(1)>",
        "[a](javascript:alert(1))",
        "[a](JavaScript:alert(1))",
        "[a](java\\script:x)",
        "[a](vbscript:x)",
        "[a](data:text/html,x)",
        "[a](file:///etc/passwd)",
        "[a](blob:http://x.y/z)",
        "[a](//x.y)",
        "[a](/conversations)",
        "[a](x.html)",
        "[a](#top)",
        "<javascript:alert(1)>",
        "[a]: http://x.y",
        "[a][b]",
    ],
)
def test_html_and_other_links_stay_text(text: str) -> None:
    [paragraph] = document(text)
    assert paragraph["tag"] == "p"
    assert "".join(paragraph["children"]).replace("\\", "") == text.replace("\\", "")


@pytest.mark.parametrize(
    "text", ["[a](&#106;avascript:x)", "[a](java&Tab;script:x)", "[a](<java\tscript:x>)"]
)
def test_escaped_scheme_is_no_link(text: str) -> None:
    assert hrefs(document(text)) == []


@pytest.mark.parametrize("href", ["http://[", "http:", "HTTPS://x", " http://x", "javascript:http://x", ""])
def test_only_three_schemes_are_safe(href: str) -> None:
    assert is_safe(href) == (href in ("http:", "HTTPS://x", " http://x"))


# -------------------------------------------------------------------------------- bounds


def as_written(text: str) -> list[MarkdownToken]:
    return [t("pre", text)]


@pytest.mark.parametrize("letter", ["x", "\u00e9", "\U0001f600"])
def test_text_over_64_kib_is_shown_as_written(letter: str) -> None:
    most = MAX_TEXT // len(letter.encode())
    assert document(letter * most) == p(letter * most)
    assert document(letter * (most + 1)) == as_written(letter * (most + 1))


DEEP = {
    "quotes": ">" * 100 + " secret",
    "lists": "".join(" " * 2 * depth + "- secret\n" for depth in range(50)),
    "emphasis": "*a **b " * 100 + "c** d*" * 100,
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_deep_nesting_is_shown_as_written(text: str) -> None:
    assert document(text) == as_written(text)


@pytest.mark.parametrize("text", ["![" * 3000 + "](x)" * 3000, "[" * 10_000, "![" * 10_000])
def test_brackets_keep_the_depth_limit(text: str) -> None:
    check(document(text))


def test_too_many_tokens_are_shown_as_written() -> None:
    wide = "|a" * 1000 + "|\n" + "|-" * 1000 + "|\n" + "a\n" * (MAX_TOKENS // 1000)
    assert document(wide) == as_written(wide)
    many = "*a* " * (MAX_TOKENS // 2)
    assert document(many) == as_written(many)


# ---------------------------------------------------------------------------- any text


def tokens(blocks: list[Any]) -> Iterator[MarkdownToken]:
    for each in blocks:
        if not isinstance(each, str):
            yield each
            yield from tokens(each["children"])


def texts(blocks: list[Any]) -> Iterator[str]:
    for each in blocks:
        if isinstance(each, str):
            yield each
        else:
            yield from texts(each["children"])


def hrefs(blocks: list[MarkdownToken]) -> list[str]:
    return [token["href"] for token in tokens(blocks) if "href" in token]


def depth(children: list[Any]) -> int:
    return max((1 + depth(each["children"]) for each in children if not isinstance(each, str)), default=0)


EXTRAS: dict[str, dict[str, type]] = {
    "a": {"href": str},
    "pre": {"info": str},
    "ol": {"start": int},
    "th": {"align": str},
    "td": {"align": str},
}


def check(blocks: list[MarkdownToken]) -> None:
    """Check the limits of every document."""
    for block in blocks:
        assert not isinstance(block, str)
    assert depth(blocks) <= MAX_DEPTH
    for token in tokens(blocks):
        assert token["tag"] in TAGS
        extras = {key: type(value) for key, value in token.items() if key not in ("tag", "children")}
        assert extras.items() <= EXTRAS.get(token["tag"], {}).items()
        if token["tag"] == "a":
            assert urlsplit(token["href"]).scheme in SCHEMES
            assert not any(inner["tag"] == "a" for inner in tokens(token["children"]))
        assert token.get("align") in (None, "left", "center", "right")
        if token["tag"] in ("pre", "code"):
            assert all(isinstance(child, str) for child in token["children"])
    assert "" not in list(texts(blocks))


PARTS = [
    *(
        "*",
        "**",
        "_",
        "~~",
        "`",
        "```\n",
        "[",
        "](",
        ")",
        "![",
        "<",
        ">",
        "> ",
        "- ",
        "1. ",
        "# ",
        "|",
        "|-|",
    ),
    *(
        "\n",
        "\n\n",
        "    ",
        "\\",
        "&#106;",
        "&Tab;",
        "<script>",
        "</b>",
        "<!--",
        "javascript:",
        "JAVASCRIPT:",
    ),
    *("http://x.y", "data:text/html,", "mailto:a@b.c", "//x.y", '"', "'", "\t", "\u202e", "\x00", "a", " "),
    *("[a]: ", "---", "===", "~~~", "a@b.c"),
]
ANY_TEXT = st.text(max_size=200) | st.lists(st.sampled_from(PARTS), max_size=40).map("".join)


@given(ANY_TEXT)
def test_any_text_keeps_the_limits(text: str) -> None:
    check(document(text))


@given(st.sampled_from(["javascript:", "data:", "vbscript:", "file:", "x:"]), ANY_TEXT)
def test_link_of_another_scheme_is_dropped(scheme: str, rest: str) -> None:
    for text in (
        f"[a]({scheme}{rest})",
        f"<{scheme}{rest}>",
        f"[a](<{scheme}{rest}>)",
        f"[{rest}]({scheme}1)",
    ):
        check(document(text))


@given(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8), ANY_TEXT, ANY_TEXT)
def test_word_between_any_texts_is_kept(word: str, before: str, after: str) -> None:
    word = f"Zq{word}qZ"
    shown = document(f"{before}\n\n{word}\n\n{after}")
    assert any(word in each for each in texts(shown))
