import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stopgo.config.text.interpolate import (
    MalformedReference,
    Reference,
    UnsetVariable,
    escape,
    fill,
    parse,
    whole_reference,
)

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]*", fullmatch=True)
defaults = st.text(st.characters(exclude_characters="}")).filter(lambda text: "${" not in text)
dollars = st.text(st.sampled_from("$${}a:-"))


def filled(text: str, **variables: str) -> str:
    return fill(parse(text), variables.get)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${A}", "one"),
        ("<${A}${B}>", "<onetwo>"),
        ("${A:-x}", "one"),
        ("${NOT:-x y:-z}", "x y:-z"),
        ("${NOT:-}", ""),
        ("${EMPTY}", ""),
        ("${EMPTY:-x}", "x"),
        ("$${A}", "${A}"),
        ("$$${A}", "$${A}"),
        ("$A {A} $ $$", "$A {A} $ $$"),
        ("${A}$${A}", "one${A}"),
        ("${TRAP}", "${A}"),
        ("<${file:/a b:-c}>", "<content>"),
    ],
)
def test_what_a_text_becomes(text: str, expected: str) -> None:
    variables = {"A": "one", "B": "two", "EMPTY": "", "TRAP": "${A}", "file:/a b:-c": "content"}
    assert filled(text, **variables) == expected


@pytest.mark.parametrize(
    "text",
    [
        "${",
        "${}",
        "${A",
        "${1A}",
        "${A-x}",
        "${A:x}",
        "${A B}",
        "x ${ y",
        "${A}${",
        "${A:-${B}}",
        "${A:-${B:-x}}",
        "${A:-$${B}",
        "${file:}",
        "${file:a",
        "${file:a${B}}",
    ],
)
def test_a_reference_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(MalformedReference):
        parse(text)


def test_an_unset_variable_is_named() -> None:
    with pytest.raises(UnsetVariable) as caught:
        filled("${A}${B}", A="one")
    assert caught.value.name == "B"


@given(st.text() | dollars)
@example("$${")
@example("$$$${a}")
def test_an_escaped_text_reads_as_itself(text: str) -> None:
    nothing: dict[str, str] = {}
    assert fill(parse(escape(text)), nothing.get) == text


@given(dollars)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parts = parse(text)
    except MalformedReference:
        return
    assert all(parts)


@given(st.text(), names, st.text(), st.text())
def test_a_value_stands_where_its_reference_stood(before: str, name: str, value: str, after: str) -> None:
    # A dollar just before the reference would escape it.
    before = before.rstrip("$")
    text = f"{escape(before)}${{{name}}}{escape(after)}"
    assert fill(parse(text), {name: value}.get) == before + value + after


@given(names, st.none() | defaults)
def test_a_whole_reference_is_recognised(name: str, default: str | None) -> None:
    text = f"${{{name}}}" if default is None else f"${{{name}:-{default}}}"
    assert whole_reference(parse(text)) == Reference(name, default)
    assert whole_reference(parse(text + " ")) is None
    assert whole_reference(parse(text + text)) is None
