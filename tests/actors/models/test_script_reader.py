from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.models.errors import InvalidScript, UnreadableScript
from stopgo.actors.models.script_reader import load_script, parse_script


def problems(text: str | bytes) -> tuple[str, ...]:
    with pytest.raises(InvalidScript) as refused:
        parse_script(text, "demo.yaml")
    assert refused.value.code == "invalid_script"
    assert str(refused.value) == "\n".join(refused.value.problems)
    return refused.value.problems


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("", 1, "a script must be a mapping"),
        ("- text: a", 1, "a script must be a mapping"),
        ("replies: 7", 1, "`replies` must be a list"),
        ("replies: []", 1, "holds no reply"),
        ("{}", 1, "needs `replies`"),
        ("reply:\n- text: a", 1, "did you mean `replies`?"),
        ("replies:\n- 7", 2, "a reply must be a mapping"),
        ("replies:\n- delay: 1", 2, "needs `text`, `tool_calls`, `error` or `a2a`"),
        ("replies:\n- text: a\n  txt: b", 3, "did you mean `text`?"),
        ("replies:\n- text: a\n  text: b", 3, "`text` stands twice"),
        ("replies:\n- text: 7", 2, "must be a text"),
        ("replies:\n- text: a\n  when:\n    user: '('", 4, "not a regular expression"),
        ("replies:\n- text: a\n  when: {usr: a}", 3, "did you mean `user`?"),
        ("replies:\n- text: a\n  when: {last_tol: a}", 3, "did you mean `last_tool`?"),
        ("replies:\n- text: a\n  when: hello", 3, "`when` must be a mapping"),
        ("replies:\n- text: a\n  when: {call: 0}", 3, "a whole number from 1"),
        ("replies:\n- text: a\n  when: {turn: true}", 3, "a whole number from 1"),
        ("replies:\n- text: a\n  when: {turn: 1.5}", 3, "a whole number from 1"),
        ("replies:\n- text: a\n  when: {node: 3}", 3, "must be a text"),
        ("replies:\n- text: a\n  delay: -1", 3, "seconds"),
        ("replies:\n- text: a\n  delay: .inf", 3, "seconds"),
        ("replies:\n- text: a\n  delay: soon", 3, "seconds"),
        ("replies:\n- text: a\n  delay: [1]", 3, "seconds"),
        ("replies:\n- text: a\n  delay: 2026-99-99", 3, "`delay` cannot be read; quote it"),
        ("replies:\n- text: a\n  usage: {input_tokens: -1}", 3, "not negative"),
        ("replies:\n- text: a\n  usage: {tokens: 1}", 3, "no key `tokens`"),
        ("replies:\n- text: a\n  error: {status: 500, message: b}", 2, "cannot have `text`"),
        (
            "replies:\n- tool_calls: [{name: a}]\n  error: {status: 500, message: b}",
            2,
            "cannot have `tool_calls`",
        ),
        ("replies:\n- error: {status: 500}", 2, "needs `message`"),
        ("replies:\n- error: {status: 200, message: a}", 2, "400 to 599"),
        ("replies:\n- tool_calls: []", 2, "holds no call"),
        ("replies:\n- tool_calls: {name: a}", 2, "`tool_calls` must be a list"),
        ("replies:\n- tool_calls:\n  - arguments: {}", 3, "needs `name`"),
        ("replies:\n- tool_calls:\n  - {name: a, argument: {}}", 3, "did you mean `arguments`?"),
        ("replies:\n- tool_calls:\n  - {name: a, arguments: [1]}", 3, "`arguments` must be a mapping"),
        ("replies:\n- tool_calls:\n  - {name: a, arguments: {d: 2026-01-01}}", 3, "quote it"),
        ("replies:\n- tool_calls:\n  - {name: a, arguments: {d: .nan}}", 3, "no JSON number"),
        (
            "replies:\n- tool_calls:\n  - {name: a, arguments: {1: b}}",
            3,
            "a key in `arguments` must be a text",
        ),
        ("replies:\n- tool_calls:\n  - {name: a, arguments: {b: 1, b: 2}}", 3, "`b` stands twice"),
        ("replies:\n- tool_calls:\n  - {name: a, arguments: &x {b: *x}}", 3, "in itself"),
        ("replies:\n- text: '${name}'", 2, "`${name}` is no named group"),
        ("replies:\n- text: 'a ${name'", 2, "`text` has a `${` without its `}`"),
        ("replies:\n- text: b\n  when: {call: 0, turn: 1}", 3, "`call` must be a whole number from 1"),
        ("replies:\n- text: b\n  when: {node: 1, turn: 1}", 3, "`node` must be a text"),
        ("replies:\n- text: b\n  when: {prompt: '(', user: x}", 3, "`prompt` is not a regular expression"),
        ("replies:\n- tool_calls:\n  - name: 5", 3, "`name` must be a text"),
        ("replies:\n- error: {message: b, status: 200}", 2, "`status` must be an HTTP status"),
        ("replies:\n- when: {user: '(a)'}\n  text: 'got ${1}'", 3, "groups are used by name"),
        (
            "replies:\n- when: {user: '(?P<a>.)'}\n  tool_calls:\n  - name: t\n    arguments: {x: ['${b}']}",
            4,
            "`${b}` is no named group",
        ),
        ("replies:\n- when: {user: '(?P<a>.)', prompt: '(?P<a>.)'}\n  text: b", 2, "in two patterns"),
        ("replies:\n- text: a\n  when: {message_id: 1}", 3, "`message_id` must be a text"),
        ("replies:\n- text: a\n  a2a: completed", 3, "`a2a` must be a mapping of state, artifact"),
        ("replies:\n- text: a\n  a2a: {stat: failed}", 3, "did you mean `state`?"),
        ("replies:\n- text: a\n  a2a: {state: working}", 3, "`state` must be one of completed, failed,"),
        ("replies:\n- text: a\n  a2a: {state: 1}", 3, "`state` must be a text"),
        ("replies:\n- tool_calls: [{name: a}]\n  a2a: {}", 2, "with `a2a` cannot have `tool_calls`"),
        ("replies:\n- error: {message: a}\n  a2a: {}", 3, "with `error` cannot have `a2a`"),
        ("replies:\n- a2a:\n    artifact: all", 3, "`artifact` must be a mapping of text, file, data"),
        ("replies:\n- a2a:\n    artifact: {}", 3, "`artifact` needs one of text, file, data"),
        ("replies:\n- a2a:\n    artifact: {text: a, data: {}}", 3, "`artifact` needs one of text"),
        ("replies:\n- a2a:\n    artifact: {text: 7}", 3, "`text` must be a text"),
        ("replies:\n- a2a:\n    artifact: {text: []}", 3, "`text` holds no chunk"),
        ("replies:\n- a2a:\n    artifact:\n      text:\n      - a\n      - 7", 6, "`text` must be a text"),
        ("replies:\n- a2a:\n    artifact: {file: a}", 3, "`file` must be a mapping of name, media_type,"),
        ("replies:\n- a2a:\n    artifact: {file: {name: a}}", 3, "`file` needs one of text, url"),
        ("replies:\n- a2a:\n    artifact: {file: {text: a, url: b}}", 3, "`file` needs one of text, url"),
        ("replies:\n- a2a:\n    artifact: {file: {url: 1}}", 3, "`url` must be a text"),
        ("replies:\n- a2a:\n    artifact: {file: {url: a, name: 1}}", 3, "`name` must be a text"),
        ("replies:\n- a2a:\n    artifact: {file: {url: a, media_type: 1}}", 3, "`media_type` must be a text"),
        ("replies:\n- a2a:\n    artifact: {data: [1]}", 3, "`data` must be a mapping"),
        ("replies:\n- a2a:\n    artifact: {data: {a: .nan}}", 3, "no JSON number"),
        ("replies:\n- a2a:\n    artifact: {text: [a, '${b}']}", 3, "`${b}` is no named group"),
        ("replies:\n- text: 'a\n", 3, "not valid YAML"),
        ("replies:\n- text: a\n - b", 3, "not valid YAML"),
        ("replies:\n- text: !!python/object:os.system a", 2, "must be a text"),
    ],
)
def test_mistakes_are_told_with_their_line(text: str, line: int, part: str) -> None:
    (problem,) = problems(text)
    assert problem.startswith(f"demo.yaml:{line}: ")
    assert part in problem


def test_all_mistakes_are_told_in_order() -> None:
    found = problems("""
replies:
  - when: {user: '('}
    text: 'not a mistake as far as one can tell: ${x}'
  - text: '${x}'
  - text: [a]
    delay: x
  - tool_calls: [{name: 7}]
other: 1
""")
    assert [int(problem.split(":")[1]) for problem in found] == [3, 5, 6, 7, 8, 9]


def test_what_is_no_text_is_refused() -> None:
    assert "not valid YAML" in problems(b"\xff\xfe\x00\x00rubbish\x00")[0]
    assert "not valid YAML" in problems("replies: \x00")[0]


def test_multiplying_aliases_are_refused() -> None:
    levels = ["a0: &a0 [x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 8)]
    body = "\n".join(f"      {line}" for line in levels)
    found = problems(f"replies:\n- tool_calls:\n  - name: t\n    arguments:\n{body}\n")
    assert "more than 100000 values" in found[0]


def test_deep_nesting_is_refused() -> None:
    assert problems("replies: " + "[" * 5000)
    assert problems("replies: " + "[" * 5000 + "]" * 5000)


def test_unnamed_groups_that_nobody_uses_are_fine() -> None:
    script = parse_script("replies:\n- when: {user: '(a|b)'}\n  text: '$${1}'", "demo.yaml")
    assert len(script.replies) == 1


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        UnreadableScript, match=r"there is no script .*none\.yaml; .*relative to the agent file"
    ):
        load_script(tmp_path / "none.yaml")
    with pytest.raises(UnreadableScript, match="cannot read the script"):
        load_script(tmp_path)


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_bytes(b"#" * (5 << 20))
    with pytest.raises(UnreadableScript, match="larger than 4 MiB"):
        load_script(path)


def test_a_file_is_called_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    path.write_text("replies:\n- text: a\n")
    assert load_script(path).name == "one.yaml"


_WORDS = st.sampled_from(
    ["replies", "when", "text", "tool_calls", "error", "user", "status", "name", "arguments", "(", "1", "-1"]
) | st.sampled_from(["a2a", "state", "failed", "artifact", "file", "data", "url"])
_NODES = st.recursive(
    _WORDS | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.just("replies"), st.lists(_NODES, max_size=4)))
def test_any_document_is_a_script_or_refused_with_reasons(document: object) -> None:
    try:
        parse_script(repr(document).replace("None", "null"), "demo.yaml")
    except InvalidScript as refused:
        assert all(problem.startswith("demo.yaml:") for problem in refused.problems)  # noqa: PT017


@given(st.text(max_size=200))
def test_any_text_is_a_script_or_refused(text: str) -> None:
    try:
        parse_script(text, "demo.yaml")
    except InvalidScript as refused:
        assert refused.problems  # noqa: PT017
