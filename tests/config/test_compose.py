import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.config.text.compose import AGENT_FILE, compose
from stopgo.config.text.errors import ConfigError, Problem
from stopgo.config.text.values import Invalid, Mark, Scalar, Sequence, Table, dotted, from_plain, plain

MAX_DEPTH, MAX_VALUES = AGENT_FILE.depth, AGENT_FILE.values


def refused(text: str) -> Problem:
    with pytest.raises(ConfigError) as caught:
        compose(text, "f.yaml")
    return caught.value.problems[-1]


def test_every_key_and_value_knows_its_place() -> None:
    value, problems = compose("a: 1\nb:\n  - x\n  - {c: true}\n", "f.yaml")
    assert problems == ()
    assert isinstance(value, Table)
    assert value.key_marks == {"a": Mark(1, 1), "b": Mark(2, 1)}
    items = value.entries["b"]
    assert isinstance(items, Sequence)
    assert items.items[0] == Scalar("x", Mark(3, 5))
    assert items.items[1].mark == Mark(4, 5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 5", 5),
        ("a: 5.5", 5.5),
        ("a: yes", True),
        ("a:", None),
        ("a: '5'", "5"),
        ("a: 2026-01-02", "2026-01-02"),
        ("a: 2026-99-99", "2026-99-99"),
        ("a: '='", "="),
        ("a: !!str 5", "5"),
    ],
)
def test_scalars(text: str, expected: object) -> None:
    value, problems = compose(text, "f.yaml")
    assert (plain(value), problems) == ({"a": expected}, ())


def test_a_key_is_text_as_it_stands() -> None:
    value, _ = compose("NO: a\n8080: b\nnull: c\n", "f.yaml")
    assert plain(value) == {"NO": "a", "8080": "b", "null": "c"}


def test_aliases_stand_for_what_they_name() -> None:
    value, _ = compose("a: &x [1, 2]\nb: *x\n", "f.yaml")
    assert plain(value) == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize(
    ("text", "line", "column", "key", "code", "message"),
    [
        ("a: 1\nb: {c: 1, c: 2}", 2, 11, "b", "duplicate_key", 'duplicate key "c", first on line 2'),
        ("a: 1\n\na: 1", 3, 1, "", "duplicate_key", 'duplicate key "a", first on line 1'),
        (
            "a: !python/name:os.system x",
            1,
            4,
            "a",
            "yaml_tag",
            'the tag "!python/name:os.system" is not supported',
        ),
        ("a: !!set {b}", 1, 4, "a", "yaml_tag", 'the tag "tag:yaml.org,2002:set" is not supported'),
        ("b: {<<: {a: 1}}", 1, 5, "b", "yaml_tag", "merge keys (<<) are not supported; write the keys out"),
        ("[a]: 1", 1, 1, "", "wrong_type", "a key must be text"),
        ("a: [0b_]", 1, 5, "a[0]", "wrong_type", "not a valid whole number"),
        ("a: !!int ''", 1, 4, "a", "wrong_type", "not a valid whole number"),
        ("a: !!bool x", 1, 4, "a", "wrong_type", "not a valid boolean"),
        (f"a: {'9' * 5000}", 1, 4, "a", "wrong_type", "not a valid whole number"),
        (r'a: "\0"', 1, 4, "a", "control_character", "a NUL character"),
        (r'a: {"b\0": 1}', 1, 5, "a", "control_character", "a NUL character"),
        (
            r'a: "\ud83d\ude00"',
            1,
            4,
            "a",
            "control_character",
            r"half of a surrogate pair; write the character itself, or \U and eight digits",
        ),
    ],
)
def test_reading_goes_on_after(text: str, line: int, column: int, key: str, code: str, message: str) -> None:
    _, problems = compose(text, "f.yaml")
    assert problems == (Problem(code, message, "f.yaml", line, column, key),)


def test_a_value_that_was_reported_is_marked() -> None:
    value, _ = compose("a: !x y", "f.yaml")
    assert isinstance(value, Table)
    assert value.entries["a"] == Invalid(Mark(1, 4))


@pytest.mark.parametrize(
    ("text", "code", "line", "words"),
    [
        ("", "empty_file", None, "empty"),
        ("# nothing\n", "empty_file", None, "empty"),
        ("a: b: c", "yaml_syntax", 1, "mapping values are not allowed here"),
        ("a: 1\n  b: 2", "yaml_syntax", 2, "not valid YAML"),
        ("a:\n\t- b", "yaml_syntax", 2, "cannot start any token"),
        ("a: *b", "yaml_syntax", 1, "undefined alias"),
        ("a: 1\n---\nb: 1", "yaml_syntax", 2, "single document"),
        ("a: 1\nb: \x01", "yaml_syntax", 2, "control character"),
        ('a: "\\UFFFFFFFF"', "yaml_syntax", 1, "escape"),
        ("[" * 100_000, "too_deep", 1, f"deeper than {MAX_DEPTH} levels"),
        ("{a: " * 100_000, "too_deep", 1, f"deeper than {MAX_DEPTH} levels"),
        ("a: &a [*a]", "too_deep", 1, f"deeper than {MAX_DEPTH} levels"),
        ("- a\n" * (MAX_VALUES + 1), "too_large", MAX_VALUES, f"more than {MAX_VALUES} values"),
    ],
)
def test_reading_stops_at(text: str, code: str, line: int | None, words: str) -> None:
    problem = refused(text)
    assert (problem.code, problem.line) == (code, line)
    assert words in problem.message


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("llm:\n\tmodel: x", "indent with spaces"),
        ("llm:\n  model: x\n   timeout: 5", "indented like its neighbours"),
        ("llm:\n    model: x\n  timeout: 5", "indented like its neighbours"),
        ("prompt: You: are nice", "needs quotes"),
        ("name:a\nllm: {}", "a colon and a space"),
        ("name\nllm: {}", "a colon and a space"),
        ("args: [-y, @scope/server]", "put the text in quotes"),
        ("name: `x`", "put the text in quotes"),
        ("tool: *", "put the text in quotes"),
        ('name: a\nprompt: "x\nllm: {}\n', "the quote opened on line 2 is never closed"),
        ("name: 'x\n", "the quote opened on line 1 is never closed"),
    ],
)
def test_invalid_yaml_has_a_hint(text: str, hint: str) -> None:
    problem = refused(text)
    assert problem.code == "yaml_syntax"
    assert hint in (problem.hint or "")


def test_an_alias_bomb_is_refused() -> None:
    lines = ["a0: &a0 x"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 20)]
    assert refused("\n".join(lines)).code == "too_large"


def test_a_long_file_is_refused_before_all_of_it_is_composed() -> None:
    problem = refused("- a\n" * 50_000)
    assert (problem.code, problem.line) == ("too_large", 2 * MAX_VALUES)


def test_as_many_keys_as_allowed_are_read() -> None:
    text = "".join(f"k{number}: 1\n" for number in range(MAX_VALUES - 1))
    value, problems = compose(text, "f.yaml")
    assert problems == ()
    assert isinstance(value, Table)
    assert len(value.entries) == MAX_VALUES - 1


def test_as_deep_as_allowed_is_read() -> None:
    text = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    value, problems = compose(text, "f.yaml")
    assert problems == ()
    assert value.mark == Mark(1, 1)
    assert refused(f"[{text}]").code == "too_deep"


def test_an_alias_is_as_deep_as_what_it_stands_for() -> None:
    anchor, rest = "[" * 10 + "]" * 10, MAX_DEPTH - 1 - 10
    text = f"- &a {anchor}\n- {'[' * rest}*a{']' * rest}"
    assert compose(text, "f.yaml")[1] == ()
    assert refused(text.replace("*a", "[*a]")).code == "too_deep"


@given(st.text() | st.text(st.sampled_from("ab:-[]{}&*!|>'\"%@#?, \n\\0")))
def test_any_text_is_read_or_refused(text: str) -> None:
    problems: tuple[Problem, ...] | None = None
    try:
        compose(text, "f.yaml")
    except ConfigError as error:
        problems = error.problems
    assert problems is None or problems


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(json)
def test_plain_values_come_back(data: object) -> None:
    assert plain(from_plain(data)) == data


def test_data_that_is_not_plain_json_is_refused() -> None:
    with pytest.raises(TypeError, match="a set is not plain JSON"):
        from_plain({"a": [{1}]})


def test_a_path_is_written_with_dots_and_brackets() -> None:
    assert dotted(("mcp_servers", 0, "env", "A")) == "mcp_servers[0].env.A"
    assert dotted(()) == ""
    assert dotted(("x" * 100, "a\nb")) == f"{'x' * 39}….a?b"
