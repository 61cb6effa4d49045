import pytest

from stopgo.config.sections.placeholders import PLACEHOLDER

from .conftest import Load


def tree_of(kind: str, *agents: str, name: str = "inner", more: str = "") -> str:
    if kind == "loop":
        agents = (*agents, "{type: llm, name: last, can_exit_loop: true}")
    return f"{{type: {kind}, name: {name}, {more}agents: [{', '.join(agents)}]}}"


def tree(kind: str, *agents: str, more: str = "") -> str:
    return f"agent: {tree_of(kind, *agents, name='root', more=more)}"


def llm(name: str, prompt: str, output_key: str | None = None) -> str:
    key = f", output_key: {output_key}" if output_key else ""
    return f"{{type: llm, name: {name}, prompt: '{prompt}'{key}}}"


@pytest.mark.parametrize(
    "text",
    [
        "prompt: 'JSON: {\"a\": 1} {} { a } {a b} {1}'",
        "prompt: 'escaped $${a}'",
        "prompt: '${A:-{a}'",
        tree("sequential", llm("a", "", "x"), llm("b", "see {x}")),
        tree("sequential", "{type: parallel, name: p, agents: [" + llm("a", "", "x") + "]}", llm("b", "{x}")),
        tree(
            "sequential",
            "{type: parallel, name: p, output_key: y, agents: [" + llm("a", "") + "]}",
            llm("b", "{y}"),
        ),
        "prompt: '{user_message}'",
        tree("loop", llm("a", "{iteration} {y}", "x"), llm("b", "{x}", "y")),
        tree("loop", "{type: sequential, name: s, agents: [" + llm("a", "{iteration}") + "]}"),
        tree("sequential", tree_of("loop", llm("a", "", "x")), llm("b", "{x}")),
        tree("sequential", tree_of("router", llm("a", "", "x"), more="model: gemini, "), llm("b", "{x}")),
        tree("sequential", llm("a", "", "x"), "{type: approval, name: c, message: 'Go on with {x}?'}"),
        tree("sequential", "{type: approval, name: c, message: m, output_key: x}", llm("b", "{x}")),
        tree("sequential", llm("a", "", "x"), "{type: a2a, name: b, url: 'http://h', prompt: '{x}'}"),
        tree("sequential", "{type: a2a, name: a, url: 'http://h', output_key: x}", llm("b", "{x}")),
        tree("sequential", llm("a", "", "x"), tree_of("router", llm("b", ""), more="prompt: '{x}', ")),
    ],
)
def test_nothing_to_warn_of(load: Load, text: str) -> None:
    assert load(text).warnings == ()


def test_placeholder_without_an_output_key(load: Load) -> None:
    assert load("name: solo\nprompt: Hello {user}, {user} and {x}.").warnings == (
        'agent.prompt: {user} stays as it is, because no node that runs before "solo" has output_key: user',
        'agent.prompt: {x} stays as it is, because no node that runs before "solo" has output_key: x',
    )


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (tree("sequential", llm("a", "{x}"), llm("b", "", "x")), 0),
        (tree("parallel", llm("a", "", "x"), llm("b", "{x}")), 1),
        (tree("sequential", llm("a", "{x}", "x")), 0),
        (tree("router", llm("a", "", "x"), llm("b", "{x}"), more="model: gemini, "), 1),
    ],
)
def test_a_key_that_comes_too_late(load: Load, text: str, place: int) -> None:
    (warning,) = load(text).warnings
    assert warning.startswith(f"agent.agents[{place}].prompt: {{x}} is empty at first")
    assert load(text.replace("{x}", "{x?}")).warnings == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prompt: '{iteration}'", 'agent.prompt: {iteration} stays as it is, because "agent" is in no loop'),
        (
            tree("sequential", tree_of("loop", llm("a", "")), llm("b", "{iteration}")),
            'agent.agents[1].prompt: {iteration} stays as it is, because "b" is in no loop',
        ),
        (
            "agent: {type: approval, name: c, message: 'Go on with {x}?'}",
            'agent.message: {x} stays as it is, because no node that runs before "c" has output_key: x',
        ),
        (
            "agent: {type: a2a, name: c, url: 'http://h', prompt: 'Do {x}'}",
            'agent.prompt: {x} stays as it is, because no node that runs before "c" has output_key: x',
        ),
        (
            tree("router", llm("a", "", "y"), more="prompt: '{x}', "),
            'agent.prompt: {x} stays as it is, because no node that runs before "root" has output_key: x',
        ),
    ],
)
def test_what_stays_in_every_kind_of_node(load: Load, text: str, expected: str) -> None:
    assert load(text).warnings == (expected,)


def test_a_warning_holds_no_value(load: Load) -> None:
    config = load("prompt: 'a {x${KEY}} ${KEY} {real}'", {"KEY": "{secret}"})
    (warning,) = config.warnings
    assert "{real}" in warning
    assert "secret" not in warning


def test_an_escaped_reference_is_no_placeholder() -> None:
    assert PLACEHOLDER.findall("{a} ${b} {c_1?} {1} {} {d??}") == [("a", ""), ("c_1", "?")]
