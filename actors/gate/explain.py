"""Explains a verdict of the gate: the rules and hints that it considers, in order, in words. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from ...config.sections.approval import Condition, Rule
from ..tools.tool import Hints, Tool
from .conditions import BLOCKED, MISSING, ConditionResult, evaluate
from .gate import (
    Action,
    Fit,
    PolicyScope,
    Verdict,
    effect_class,
    judge_by_rules,
    matches,
    rule_text,
    settings_above,
)

_WOULD: Mapping[Action, str] = {
    "run": "the call would run",
    "ask": "the call would ask",
    "deny": "the call would be denied",
}


@attrs.frozen
class PolicyStep:
    """A rule, hint or setting that the gate considers."""

    text: str
    decides: bool
    why: str


def explain(
    tool: Tool, arguments: Mapping[str, Any], scope: PolicyScope
) -> tuple[Verdict, tuple[PolicyStep, ...]]:
    """The gate's verdict, and the steps to it. Exactly one step decides."""
    verdict, evaluated = judge_by_rules(tool, arguments, scope)
    would = {each.place: f"; if it counted, {_WOULD[each.action]}" for each in verdict.shadows}
    steps = [
        PolicyStep(
            rule_text(rule),
            matches(rule, fits) and not rule.shadow,
            f"{_why(rule, fits, tool, scope)}{would.get(rule.place, '') if rule.shadow else ''}",
        )
        for rule, fits in evaluated
    ]
    if not any(step.decides for step in steps):
        steps.extend(_hints(tool, scope))
    if verdict.undecided:
        steps = [attrs.evolve(step, decides=False) for step in steps]
        steps.append(
            PolicyStep(verdict.rule, True, "the call asks: a rule that runs calls may or may not match")
        )
    return verdict, tuple(steps)


def _why(rule: Rule, fits: Fit, tool: Tool, scope: PolicyScope) -> str:
    match fits.key:
        case None:
            return "matches"
        case "server":
            return f"the server is {_quoted(tool.server)}"
        case "tool":
            return f"the tool is {_quoted(tool.name)}"
        case "node":
            return f"the node is {_quoted(scope.node)}"
        case "effect":
            return f"the tool's effect is {effect_class(tool, approved=False)}"
        case _ if fits.result is ConditionResult.FAILS:
            return _unmet(rule, fits.key, fits.value)
        case _:
            outcome = "matches" if matches(rule, fits) else "does not match"
            return f"{outcome}, undecided: {_undecided(rule, fits.key, fits.value)}"


def _unmet(rule: Rule, key: str, value: Any) -> str:
    if key == "only_these_arguments":
        return f"the rule does not name the argument {_quoted(value)}"
    if value is MISSING:
        return f"{key} is missing"
    unmet = " and ".join(_parts(rule, key, value, ConditionResult.FAILS))
    return f"{key} is {_quoted(value)}, which does not fit {unmet}"


def _undecided(rule: Rule, key: str, value: Any) -> str:
    if key == "only_these_arguments":
        return f"the argument {_quoted(value)} has a name with a dot, or a number as its name"
    if value is BLOCKED:
        return f"{key} leads through a value without names, or to too many"
    parts = " and ".join(_parts(rule, key, value, ConditionResult.UNDECIDED)) or "a pattern"
    return f"{key} is {_quoted(value)}, for which {parts} cannot be decided"


def _parts(rule: Rule, key: str, value: Any, wanted: ConditionResult) -> Iterator[str]:
    """The parts of a condition that give this result for a value."""
    condition, whole = rule.arguments[key.removeprefix("arguments.")], rule.only_these_arguments
    for field in attrs.fields(Condition):
        wish = getattr(condition, field.name)
        if wish is not None and evaluate(Condition(**{field.name: wish}), value, whole=whole) is wanted:
            yield f"{field.name} {_quoted(wish)}"


def _hints(tool: Tool, scope: PolicyScope) -> Iterator[PolicyStep]:
    hints, policy = tool.hints.in_effect, scope.policy
    yield PolicyStep("readOnlyHint: true runs", bool(hints.read_only), _said_to_read(tool.hints))
    if hints.read_only:
        return
    said = _said("destructiveHint", hints.destructive)
    if hints.destructive is False:
        yield PolicyStep("destructiveHint: false runs", True, said)
        return
    asks = bool(hints.destructive) or policy.action("unannotated") == "ask"
    above = settings_above(scope)
    relaxed = asks and bool(above) and all(action == "run" for _, action in above)
    if hints.destructive:
        yield PolicyStep("destructiveHint: true asks", not relaxed, said)
    else:
        yield PolicyStep("destructiveHint: true asks, destructiveHint: false runs", False, said)
        setting = f"approval.unannotated: {policy.action('unannotated')}"
        yield PolicyStep(setting, not relaxed, said)
    if asks and above:
        setting = " and ".join(f"approval.{key}: {action}" for key, action in above)
        why = f"the call would ask {' and '.join(_BELOW[key] for key, _ in above)}"
        yield PolicyStep(setting, relaxed, why if relaxed else f"{why}, and still does")


_BELOW = {"in_parallel": "below a parallel node", "in_loop": "below a loop"}


def _said_to_read(hints: Hints) -> str:
    if hints.contradictory:
        setting = "ask" if hints.contradiction_asks else "read_only"
        return f"destructiveHint is true as well, and approval.contradictory_hints is {setting}"
    return _said("readOnlyHint", hints.read_only)


def _said(name: str, hint: bool | None) -> str:
    return f"{name} is not given" if hint is None else f"{name} is {json.dumps(hint)}"


def _quoted(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # as it is written
    # Half of a surrogate pair is valid JSON, but no text that can be printed.
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= 80 else f"{text[:79]}…"
