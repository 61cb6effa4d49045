"""The gate against an oracle that was written from docs/guides/gate-tools.md, not from its code."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stopgo.actors.gate import conditions
from stopgo.actors.gate.gate import Action, PolicyScope, judge
from stopgo.actors.tools.tool import EffectClass, Hints, Tool
from stopgo.config.sections.approval import ApprovalConfig, Condition, Rule, RunOrAsk

Truth = Literal["fails", "undecided", "holds"]
MISSING, BLOCKED = object(), object()
MAX_BYTES = 40
SLOW, STUCK = "^(z|zz)+$", "z" * 39 + "!"
"""A regular expression, and a text for which it takes too long."""


@pytest.fixture(autouse=True, scope="module")
def short_texts() -> Iterator[None]:
    assert (conditions.MAX_TEXT, conditions.PATIENCE) == (64 * 1024, 0.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conditions, "MAX_TEXT", MAX_BYTES)
        yield


# The oracle: the values that a path may mean, whether a condition holds, whether a rule applies, the verdict.


def every_name(value: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """All that is inside the value, each with its path: the names on the way to it, dots and all."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in inside:
        yield f"{above}{name}", inner
        yield from every_name(inner, f"{above}{name}.")


def is_single(value: Any) -> bool:
    return not isinstance(value, list | dict)


def readings(arguments: dict[str, Any], path: str) -> list[Any]:
    found = [value for name, value in every_name(arguments) if name == path]
    for name, value in every_name(arguments):
        if path.startswith(f"{name}."):
            next_name = path.removeprefix(f"{name}.").split(".")[0]
            has_names = isinstance(value, dict) or (isinstance(value, list) and next_name.isdigit())
            if not has_names and value is not None:
                found.append(BLOCKED)
    return found or [MISSING]


def every(truths: Iterable[Truth]) -> Truth:
    found = set(truths)
    return "fails" if "fails" in found else "undecided" if "undecided" in found else "holds"


def some(truths: Iterable[Truth]) -> Truth:
    found = set(truths)
    return "holds" if "holds" in found else "undecided" if "undecided" in found else "fails"


def decided(holds: bool) -> Truth:
    return "holds" if holds else "fails"


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def is_long(text: str) -> bool:
    return len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES


def number(value: Any) -> Decimal | None:
    """The exact number, if it is written in plain ASCII digits."""
    text = text_of(value).strip()
    exponent = text.lower().partition("e")[2]
    if is_long(text_of(value)) or set(text) - set("+-.0123456789eE") or len(exponent.lstrip("+-")) > 3:
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def equal(wanted: Any, value: Any) -> Truth:
    if value is None:
        return "fails"
    if isinstance(value, list | dict):
        return "undecided"
    if isinstance(wanted, bool):
        words = {"true": True, "false": False}
        return decided(words[text_of(value)] is wanted) if text_of(value) in words else "undecided"
    if isinstance(wanted, str):
        same_number = not isinstance(value, str) and number(wanted) == number(value) is not None
        return decided(text_of(value) == wanted or same_number)
    return "undecided" if number(value) is None else decided(number(wanted) == number(value))


def compare(limit: float, value: Any, sign: int) -> Truth:
    if value is None:
        return "fails"
    amount, bound = number(value), number(limit)
    assert bound is not None
    return "undecided" if amount is None else decided(amount > bound if sign > 0 else amount < bound)


def search(pattern: str, value: Any) -> Truth:
    if value is None or isinstance(value, list | dict) or is_long(text_of(value)):
        return "undecided"
    if (pattern, value) == (SLOW, STUCK):
        return "undecided"
    texts = {text_of(value)}
    if isinstance(value, float) and number(value) is not None and value == int(value):
        texts.add(str(int(value)))  # 5000.0 is also written 5000
    whole = pattern.removesuffix("$") + r"\Z" * pattern.endswith("$")
    found = {re.search(whole, text) is not None for text in texts}
    return decided(found.pop()) if len(found) == 1 else "undecided"


def truth(condition: Condition, value: Any) -> Truth:
    if value is BLOCKED:
        return "undecided"
    if value is MISSING:
        return decided(condition == Condition(exists=False))
    parts = {
        "equals": lambda wanted: equal(wanted, value),
        "one_of": lambda wanted: some(equal(each, value) for each in wanted),
        "matches": lambda pattern: search(pattern, value),
        "above": lambda limit: compare(limit, value, 1),
        "below": lambda limit: compare(limit, value, -1),
        "exists": decided,
    }
    given = {key: getattr(condition, key) for key in parts}
    return every(parts[key](wanted) for key, wanted in given.items() if wanted is not None)


def is_called(names: Iterable[str], pattern: str | None) -> bool:
    wild = "".join({"*": ".*", "?": "."}.get(each, re.escape(each)) for each in pattern or "*")
    return any(re.fullmatch(wild, name) for name in names)


def applies(rule: Rule, tool: Tool, arguments: dict[str, Any], node: str) -> Truth:
    if not (
        is_called([tool.server], rule.server)
        and is_called(tool.names, rule.tool)
        and is_called([node], rule.node)
        and rule.effect in (None, effect(tool.hints))
    ):
        return "fails"
    if rule.only_these_arguments and not all(
        path in rule.arguments
        for path, value in every_name(arguments)
        if value in ([], {}) or is_single(value)
    ):
        return "fails"
    of_readings = every if rule.then == "run" else some
    return every(
        of_readings(truth(condition, value) for value in readings(arguments, path))
        for path, condition in rule.arguments.items()
    )


def only_reads(hints: Hints) -> bool:
    """With `contradictory_hints: ask`, a tool that also says that it destroys does not count as one that
    only reads."""
    return bool(hints.read_only and not (hints.destructive and hints.contradiction_asks))


def effect(hints: Hints) -> str:
    if only_reads(hints):
        return "read"
    return "idempotent" if hints.idempotent and not hints.destructive else "once"


def by_annotations(hints: Hints, scope: PolicyScope) -> str:
    if only_reads(hints) or hints.destructive is False:
        return "run"
    policy, strict = scope.policy, "ask" if scope.policy.defaults == "strict" else "run"
    asks = hints.destructive or (policy.unannotated or strict) == "ask"
    above = [policy.in_parallel or strict] * scope.in_parallel + [policy.in_loop or strict] * scope.in_loop
    return "ask" if asks and (not above or "ask" in above) else "run"


def verdict(tool: Tool, arguments: dict[str, Any], scope: PolicyScope) -> str:
    at_least = "run"
    for rule in scope.policy.rules:
        applied = applies(rule, tool, arguments, scope.node)
        if rule.then == "run" and applied == "undecided":
            at_least = "ask"
        elif applied != "fails":
            return at_least if rule.then == "run" else rule.then
    return at_least if by_annotations(tool.hints, scope) == "run" else "ask"


# What is generated.


TEXTS = (
    "", " ", "5", "+5", "-5", " 5.0\t", "05", "5.", ".5", ".", "-", "50E-1", "e5", "5e", "1e999", "1e9999",
    "1e-999", "5,000", "5000 USD", "$5", "1_000", "0x10", "--5", "5 5", "\uff15\uff10\uff10\uff10", "\u0665",
    "\u22125", "\u00bd", "\u00a05", "NaN", "sNaN", "inf", "-Infinity", "9007199254740993", "0.1", "0.10",
    "0.30000000000000004", "true", "True", " true", "false", "null", "None", "x", "X", "x\n", "[5]",
    "\ud800x",
)  # fmt: skip
NUMBERS = (
    0, -0.0, 5, 5.0, -5, 1000, 1001, 0.1, 0.1 + 0.2, 0.3, 2**53, 2.0**53, 2**53 + 1, 10**30, 1e22, 1e308,
    5e-324,
)  # fmt: skip
PADDED = tuple(
    pad * count + end
    for pad, end in ((" ", "5"), ("0", "5"), ("a", "5"), ("\u00e9", "5"), (" ", "x"))
    for count in (19, 20, 39, 40)
)
VALUES = (
    *(*TEXTS, *NUMBERS, *PADDED, True, False, None, float("nan"), float("inf"), float("-inf")),
    *([], [5], ["x"], {}, {"value": 5}, {"a": "x"}, [None]),
)
WANTED = (
    "x", "5", " 5.0", "05", "1e999", "true", "", "\uff15", 5, 0.3, 0.1 + 0.2, 2**53, 1e22, True, False,
)  # fmt: skip
PATTERNS = ("x", "^x", "x$", "^5$", "^$", "[.]", "^true$", "[0-9]+", "e")
LIMITS = (-5, 0.1, 0.3, 5, 1000, 2**53, 2.0**53, 1e308)
SINGLE = (
    *(Condition(equals=each) for each in WANTED),
    *(Condition(matches=each) for each in PATTERNS),
    *(Condition(above=each) for each in LIMITS),
    *(Condition(below=each) for each in LIMITS),
    *(Condition(one_of=each) for each in ((5, "x"), ("x", 5), (True, "5", 0.3))),
    *(Condition(exists=True), Condition(exists=False)),
)
VALUE = (
    st.sampled_from(VALUES) | st.integers(-(10**30), 10**30) | st.floats() | st.text("+-.015eE x", max_size=6)
)
LIMIT = st.none() | st.sampled_from(LIMITS) | st.floats(allow_nan=False, allow_infinity=False)
CONDITION = st.builds(
    Condition,
    equals=st.sampled_from([None, None, *WANTED]),
    one_of=st.none() | st.lists(st.sampled_from(WANTED), min_size=1, max_size=3).map(tuple),
    matches=st.sampled_from([None, *PATTERNS]),
    above=LIMIT,
    below=LIMIT,
    exists=st.sampled_from([None, None, True, False]),
).filter(lambda condition: condition != Condition())
SIMPLE = st.sampled_from(
    [
        *(Condition(above=9), Condition(below=9), Condition(equals="x"), Condition(matches="x")),
        *(Condition(exists=True), Condition(exists=False), Condition(exists=False, below=9)),
    ]
)
TESTS = st.dictionaries(
    st.sampled_from(["a", "a.b", "a.b.c", "a.0.b", "a.-1"]), SIMPLE, min_size=1, max_size=2
)
LEAF = st.sampled_from([5, 5, 99, 99, "x", "5 USD", None, "x" + " " * 50])
INNER = st.sampled_from(["b", "b", "c", "b.c", "0", "0.b"])
INSIDE = st.recursive(
    LEAF, lambda leaf: st.dictionaries(INNER, leaf, max_size=2) | st.lists(leaf, max_size=2)
)
ARGUMENTS = st.dictionaries(st.sampled_from(["a", "a.b", "a.b.c", "a.0", "A", ""]), INSIDE, max_size=3)
LAX = st.sampled_from(["run", "ask"])
GLOB = st.sampled_from([*[None] * 12, "*", "t*", "?", "[st]", "own", "tool"])
RULE = st.builds(
    Rule,
    then=st.sampled_from(["run", "run", "ask", "deny"]),
    server=GLOB,
    tool=st.sampled_from([*[None] * 4, "*", "t*", "own", "o*", "tool", "[to]"]),
    node=GLOB,
    effect=st.sampled_from([*[None] * 9, "read", "idempotent", "once"]),
    arguments=st.dictionaries(st.sampled_from(["a", "b"]), SIMPLE, max_size=2),
    only_these_arguments=st.sampled_from([False, False, True]),
)
POLICY = st.builds(
    ApprovalConfig, rules=st.lists(RULE, max_size=4).map(tuple), unannotated=LAX, in_parallel=LAX, in_loop=LAX
)
PLACE = st.builds(
    PolicyScope,
    node=st.sampled_from(["t", "tool", ""]),
    in_parallel=st.booleans(),
    in_loop=st.booleans(),
    policy=POLICY,
)
HINT = st.sampled_from([None, True, False])
TOOL = st.builds(
    lambda name, hints: Tool(name, "", {}, "t", hints=hints, own_name="own"),
    st.sampled_from(["t", "tool"]),
    st.builds(Hints, HINT, HINT, HINT),
)


# The comparisons.


def agree(tool: Tool, arguments: dict[str, Any], scope: PolicyScope) -> None:
    assert judge(tool, arguments, scope).action == verdict(tool, arguments, scope)


ACTIONS: tuple[Action, ...] = ("run", "ask", "deny")
READER = Tool("t", "", {}, "s", hints=Hints(read_only=True))


def agree_on_each_action(tests: dict[str, Condition], arguments: dict[str, Any]) -> None:
    """`deny`, and `ask` before another rule, match unless the tests fail; `run` before another rule matches
    if they hold; and `run` alone makes a tool that only reads ask if they are undecided."""
    run, ask, deny = (Rule(then=then, arguments=tests) for then in ACTIONS)
    otherwise = Rule(then="deny")
    for rules in ((deny,), (ask, otherwise), (run, otherwise), (run,)):
        agree(READER, arguments, PolicyScope(policy=ApprovalConfig(rules=rules)))


def test_each_condition_agrees_with_the_oracle() -> None:
    for condition, value in itertools.product(SINGLE, VALUES):
        agree_on_each_action({"a": condition}, {"a": value})


@settings(max_examples=300)
@given(condition=CONDITION, value=VALUE)
@example(Condition(matches=SLOW), STUCK)
def test_combined_conditions_agree_with_the_oracle(condition: Condition, value: Any) -> None:
    agree_on_each_action({"a": condition}, {"a": value})


@settings(max_examples=300)
@given(tests=TESTS, arguments=ARGUMENTS)
@example({"a.b": Condition(above=1000)}, {"a": {"b": 99999}, "a.b": 1})
def test_all_readings_agree_with_the_oracle(tests: dict[str, Condition], arguments: dict[str, Any]) -> None:
    agree_on_each_action(tests, arguments)


@settings(max_examples=300)
@given(tool=TOOL, arguments=st.fixed_dictionaries({}, optional={"a": LEAF, "b": LEAF}), scope=PLACE)
def test_gate_decides_in_the_documented_order(
    tool: Tool, arguments: dict[str, Any], scope: PolicyScope
) -> None:
    agree(tool, arguments, scope)


def test_all_annotations_and_settings() -> None:
    """Without a rule, after an undecided one that would run the call, and with a rule on effects."""
    undecided = Rule(then="run", arguments={"a": Condition(above=1)})
    effects: tuple[EffectClass, ...] = ("read", "idempotent", "once")
    of_effects = [(Rule(then="deny", effect=each),) for each in effects]
    actions: tuple[RunOrAsk | None, ...] = ("run", "ask", None)
    defaults: tuple[Literal["strict", "permissive"], ...] = ("strict", "permissive")
    places = [
        PolicyScope(
            in_parallel=parallel,
            in_loop=loop,
            policy=ApprovalConfig(
                rules=rules, defaults=default, unannotated=each, in_parallel=in_parallel, in_loop=in_loop
            ),
        )
        for default in defaults
        for parallel, loop in itertools.product((True, False), repeat=2)
        for each, in_parallel, in_loop in itertools.product(actions, repeat=3)
        for rules in ((), (undecided,), (undecided, Rule(then="run")), *of_effects)
    ]
    said = [*itertools.product((None, True, False), repeat=3)]
    for hints, asks, scope in itertools.product(said, (False, True), places):
        agree(Tool("t", "", {}, "s", hints=Hints(*hints, contradiction_asks=asks)), {"a": "5 USD"}, scope)
