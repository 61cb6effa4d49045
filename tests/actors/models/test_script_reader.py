from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.models.messages.errors import InvalidScript, UnreadableScript
from stopgo.actors.models.offline.script_reader import load_script, parse_script
from stopgo.config.text.compose import AGENT_FILE


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(InvalidScript) as refused:
        parse_script(text, "demo.yaml")
    assert refused.value.code == "invalid_script"
    assert str(refused.value) == "\n".join(refused.value.problems)
    return refused.value.problems


REPLY = "replies:\n- "
CALL = f"{REPLY}tool_calls:\n  - "
ARTIFACT = f"{REPLY}a2a:\n    artifact: "
EXCLUDE = "exclude each other; give one of them"


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("- text: a", 1, "expected a mapping, found a list"),
        ("replies: 7", 1, "replies: expected a list, found a whole number"),
        ("replies: []", 1, "replies: the list is empty"),
        ("{}", 1, "replies is required"),
        ("replies: [7]", 1, "replies[0]: expected a mapping"),
        (f"{REPLY}delay: 1", 2, "replies[0]: text, tool_calls, a2a or error is required"),
        (f"{REPLY}text: a\n  txt: b", 3, 'replies[0].txt: unknown key "txt" (did you mean "text"?)'),
        (f"{REPLY}text: a\n  text: b", 3, 'replies[0]: duplicate key "text", first on line 2'),
        (f"{REPLY}text: 7", 2, "replies[0].text: expected text"),
        (f"{REPLY}text: !!python/object:os.system a", 2, "is not supported"),
        *(
            (f"{REPLY}text: a\n  when: {{{key}: '('}}", 3, f"replies[0].when.{key}: this is not a regular")
            for key in ("user", "prompt", "tool_result")
        ),
        *(
            (f"{REPLY}text: a\n  when: {{{key}: 0}}", 3, f"when.{key}: expected a whole number at least 1")
            for key in ("call", "iteration", "turn", "attempt")
        ),
        *(
            (f"{REPLY}text: a\n  when: {{{key}: 3}}", 3, f"replies[0].when.{key}: expected text")
            for key in ("last_tool", "node", "step", "message_id")
        ),
        (f"{REPLY}text: a\n  when: {{turn: true}}", 3, "found a boolean"),
        (f"{REPLY}text: a\n  when: {{turn: 1.5}}", 3, "found a number"),
        (f"{REPLY}text: a\n  when: {{last_tol: a}}", 3, 'did you mean "last_tool"?'),
        (f"{REPLY}text: a\n  delay: -1", 3, "expected a number from 0"),
        (f"{REPLY}text: a\n  delay: .inf", 3, "expected a number from 0"),
        (f"{REPLY}text: a\n  delay: 5 min", 3, "in seconds: 300"),
        (f"{REPLY}text: a\n  usage: {{input_tokens: -1}}", 3, "expected a whole number at least 0"),
        (f"{REPLY}error: {{status: 500}}", 2, "replies[0].error: message is required"),
        (f"{REPLY}error: {{status: 200, message: a}}", 2, "expected a whole number from 400 to 599"),
        (f"{REPLY}tool_calls: []", 2, "replies[0].tool_calls: the list is empty"),
        (f"{CALL}arguments: {{}}", 3, "replies[0].tool_calls[0]: name is required"),
        (f"{CALL}name: 5", 3, "replies[0].tool_calls[0].name: expected text"),
        (f"{CALL}{{name: a, arguments: [1]}}", 3, "arguments: expected a mapping, found a list"),
        (f"{CALL}{{name: a, arguments: {{d: [.nan]}}}}", 3, "arguments.d[0]: expected a JSON value"),
        (f"{CALL}{{name: a, arguments: {{b: 1, b: 2}}}}", 3, 'duplicate key "b", first on line 3'),
        (f"{CALL}{{name: a, arguments: &x {{b: *x}}}}", 3, "nested deeper than 40 levels"),
        (f"{REPLY}text: a\n  error: {{message: b}}", 2, f"replies[0]: text and error {EXCLUDE}"),
        (f"{REPLY}error: {{message: b}}\n  usage: {{}}", 3, f"replies[0].usage: error and usage {EXCLUDE}"),
        (f"{REPLY}a2a: {{}}\n  tool_calls: [{{name: a}}]", 3, f"a2a and tool_calls {EXCLUDE}"),
        (f"{REPLY}text: '${{name}}'", 2, "replies[0].text: ${name} is not a named group"),
        (f"{REPLY}text: 'a ${{name'", 2, "a ${ has no } (write $${ for a literal ${)"),
        (f"{REPLY}when: {{user: '(a)'}}\n  text: 'got ${{1}}'", 3, "groups are used by name"),
        (f"{CALL}{{name: t, arguments: {{x: ['${{b}}']}}}}", 3, "replies[0].tool_calls: ${b} is not"),
        (f"{ARTIFACT}{{text: [a, '${{b}}']}}", 3, "replies[0].a2a: ${b} is not a named group"),
        (f"{REPLY}when: {{user: '(?P<a>.)', prompt: '(?P<a>.)'}}\n  text: b", 2, 'the group "a" is in two'),
        (f"{REPLY}a2a: completed", 2, "replies[0].a2a: expected a mapping, found text"),
        (f"{REPLY}a2a: {{state: working}}", 2, "expected completed, failed, rejected,"),
        (f"{REPLY}a2a: {{state: '${{x'}}", 2, "expected completed, failed, rejected,"),
        (f"{ARTIFACT}{{}}", 3, "replies[0].a2a.artifact: text, file or data is required"),
        (f"{ARTIFACT}{{text: a, data: {{}}}}", 3, f"text and data {EXCLUDE}"),
        (f"{ARTIFACT}{{text: 7}}", 3, "artifact.text[0]: expected text"),
        (f"{ARTIFACT}{{text: []}}", 3, "artifact.text: the list is empty"),
        (f"{ARTIFACT}{{file: {{name: a}}}}", 3, "artifact.file: text or url is required"),
        (f"{ARTIFACT}{{file: {{text: a, url: b}}}}", 3, f"artifact.file: text and url {EXCLUDE}"),
        (f"{ARTIFACT}{{file: {{url: 1}}}}", 3, "artifact.file.url: expected text"),
        (f"{ARTIFACT}{{data: [1]}}", 3, "artifact.data: expected a mapping"),
        (f"{REPLY}text: 'a\n", 3, "not valid YAML"),
    ],
)
def test_mistake_has_line_key_and_sentence(text: str, line: int, part: str) -> None:
    (problem,) = problems(text)
    assert problem.startswith(f"demo.yaml:{line}:")
    assert part in problem


def test_all_mistakes_are_reported_in_order() -> None:
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


def test_nul_and_more_values_than_in_an_agent_file_are_accepted() -> None:
    values = AGENT_FILE.values + 1
    text = f'{CALL}{{name: a, arguments: {{x: [{"0," * values}], y: "\\0"}}}}'
    (reply,) = parse_script(text, "demo.yaml").replies
    assert reply.tool_calls[0].arguments == {"x": [0] * values, "y": "\0"}


def test_multiplying_aliases_are_refused() -> None:
    levels = ["a0: &a0 [x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 8)]
    body = "\n".join(f"      {line}" for line in levels)
    found = problems(f"replies:\n- tool_calls:\n  - name: t\n    arguments:\n{body}\n")
    assert "more than 100000 values" in found[0]


def test_unused_unnamed_group_is_accepted() -> None:
    script = parse_script("replies:\n- when: {user: '(a|b)'}\n  text: '$${1}'", "demo.yaml")
    assert len(script.replies) == 1


def test_missing_or_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(
        UnreadableScript, match=r"script .*none\.yaml: there is no such file .*relative to the agent file"
    ):
        load_script(tmp_path / "none.yaml")
    with pytest.raises(UnreadableScript, match="the file cannot be read: Is a directory"):
        load_script(tmp_path)


def test_file_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"replies:\n- text: \xff")
    with pytest.raises(UnreadableScript, match="not UTF-8 text, first on line 2"):
        load_script(tmp_path / "a.yaml")


def test_file_above_4_mib_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_bytes(b"#" * (5 << 20))
    with pytest.raises(UnreadableScript, match="larger than 4 MiB"):
        load_script(path)


def test_script_has_the_name_of_its_file(tmp_path: Path) -> None:
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
def test_any_document_is_read_or_refused(document: object) -> None:
    try:
        parse_script(repr(document).replace("None", "null"), "demo.yaml")
    except InvalidScript as refused:
        assert all(problem.startswith("demo.yaml:") for problem in refused.problems)  # noqa: PT017


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_script(text, "demo.yaml")
    except InvalidScript as refused:
        assert refused.problems  # noqa: PT017
