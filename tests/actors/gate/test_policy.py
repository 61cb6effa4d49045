"""The canonical form of a policy: what makes a revision, and what does not."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stopgo.actors.gate.policy import Policy
from stopgo.config.load import load_config

BASE: Mapping[str, Any] = {
    "name": "bot",
    "mcp_servers": [{"name": "desk", "command": "none"}, {"name": "shop", "command": "none"}],
    "approval": {
        "rules": [
            {"tool": "pay", "then": "ask", "arguments": {"sum": {"above": 5}, "to": "bank"}},
            {"tool": "wipe", "then": "deny", "node": "b", "server": "desk"},
        ]
    },
    "agent": {
        "type": "parallel",
        "name": "all",
        "agents": [
            {"type": "llm", "name": "a", "approval": {"rules": [{"tool": "read", "then": "run"}]}},
            {"type": "llm", "name": "b", "mcp_servers": ["desk", "shop"]},
        ],
    },
}


def policy(file: Mapping[str, Any], folder: Path, **environ: str) -> Policy:
    path = folder / "agent.yaml"
    path.write_text(yaml.safe_dump(file, sort_keys=False))
    config = load_config(path, environ=environ, own_providers={"test"})
    return Policy.of(config, config.agent, config.rule_secrets)


def base(change: Callable[[Any], object] = lambda _: None) -> dict[str, Any]:
    file: dict[str, Any] = json.loads(json.dumps(BASE))
    change(file)
    return file


def rule(file: Any, index: int = 0) -> Any:
    return file["approval"]["rules"][index]


def child(file: Any, index: int) -> Any:
    return file["agent"]["agents"][index]


SAME: Mapping[str, Callable[[Any], object]] = {
    "defaults spelled out": lambda file: file["approval"].update(
        defaults="permissive", unannotated="run", in_parallel="run", contradictory_hints="read_only"
    ),
    "a setting that nothing reads": lambda file: file["approval"].update(in_loop="ask"),
    "when approvals expire": lambda file: file["approval"].update(expires_after=60, on_expiry="fail"),
    "an optional rule": lambda file: rule(file).update(optional=True),
    "the long form of a condition": lambda file: rule(file)["arguments"].update(to={"equals": "bank"}),
    "another spelling of a number": lambda file: rule(file)["arguments"].update(sum={"above": 5.0}),
    "the order of servers": lambda file: child(file, 1).update(mcp_servers=["shop", "desk"]),
    "the order of nodes": lambda file: file["agent"]["agents"].reverse(),
    "an inherited setting": lambda file: child(file, 1).update(approval={"unannotated": "run"}),
    "a prompt": lambda file: child(file, 1).update(prompt="Be kind."),
    "a node above": lambda file: file.update(
        agent={"type": "sequential", "name": "top", "agents": [file["agent"]]}
    ),
}
OTHER: Mapping[str, Callable[[Any], object]] = {
    "strict": lambda file: file["approval"].update(defaults="strict"),
    "unannotated": lambda file: file["approval"].update(unannotated="ask"),
    "in_parallel": lambda file: file["approval"].update(in_parallel="ask"),
    "contradictory_hints": lambda file: file["approval"].update(contradictory_hints="ask"),
    "the order of rules": lambda file: file["approval"]["rules"].reverse(),
    "one rule fewer": lambda file: file["approval"]["rules"].pop(),
    "then": lambda file: rule(file).update(then="deny"),
    "tool": lambda file: rule(file).update(tool="p*"),
    "server": lambda file: rule(file).update(server="shop"),
    "node": lambda file: rule(file, 1).update(node="a"),
    "effect": lambda file: rule(file).update(effect="once"),
    "name": lambda file: rule(file).update(name="money"),
    "equals": lambda file: rule(file)["arguments"].update(to="me"),
    "above": lambda file: rule(file)["arguments"].update(sum={"above": 6}),
    "below": lambda file: rule(file)["arguments"]["sum"].update({"above": 5, "below": 9}),
    "matches": lambda file: rule(file)["arguments"].update(to={"matches": "bank"}),
    "exists": lambda file: rule(file)["arguments"].update(to={"exists": True}),
    "one_of": lambda file: rule(file)["arguments"].update(to={"one_of": ["bank", "me"]}),
    "a rule of a node": lambda file: child(file, 0).pop("approval"),
    "a setting of a node": lambda file: child(file, 0)["approval"].update(unannotated="ask"),
    "the name of a node": lambda file: child(file, 0).update(name="c"),
    "servers of a node": lambda file: child(file, 1).update(mcp_servers=["desk"]),
    "tools of a node": lambda file: child(file, 1).update(tools=["pay"]),
    "a closed rule": lambda file: rule(file, 1).update(only_these_arguments=True),
    "a shadow rule": lambda file: rule(file).update(shadow=True),
    "a filter of a server": lambda file: file["mcp_servers"][0].update(tools={"exclude": ["wipe"]}),
    "a server more": lambda file: file["mcp_servers"].append({"name": "more", "command": "none"}),
    "names of tools": lambda file: file.update(tool_names="prefixed"),
    "weaker hints": lambda file: file["approval"].update(on_weaker_hints="trust"),
    "no parallel node": lambda file: file["agent"].update(type="sequential"),
}


@pytest.mark.parametrize("change", SAME.values(), ids=SAME)
def test_equal_policies_have_one_revision(change: Callable[[Any], object], tmp_path: Path) -> None:
    assert policy(base(change), tmp_path).revision == policy(base(), tmp_path).revision


@pytest.mark.parametrize("change", OTHER.values(), ids=OTHER)
def test_each_setting_that_the_gate_reads_makes_a_revision(
    change: Callable[[Any], object], tmp_path: Path
) -> None:
    assert policy(base(change), tmp_path).revision != policy(base(), tmp_path).revision


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(
    data=st.data(),
    changed=st.sets(st.sampled_from(sorted(SAME)), max_size=4),
    other=st.sampled_from([None, *sorted(OTHER)]),
)
def test_order_of_keys_and_equal_spellings_make_no_difference(
    data: st.DataObject, changed: set[str], other: str | None, tmp_path: Path
) -> None:
    def change(file: Any) -> None:
        for name in sorted(changed - {"the order of nodes", "a node above", "defaults spelled out"}):
            SAME[name](file)

    def shuffled(value: Any) -> Any:
        if isinstance(value, list):
            return list(map(shuffled, value))
        if not isinstance(value, dict):
            return value
        return {key: shuffled(value[key]) for key in data.draw(st.permutations(sorted(value)))}

    changed_base = base() if other is None else base(OTHER[other])
    one = policy(shuffled(base(change)), tmp_path)
    assert (one.revision == policy(changed_base, tmp_path).revision) is (other is None)


def test_id_of_a_rule_does_not_depend_on_the_rules_before_it(tmp_path: Path) -> None:
    first = policy(base(), tmp_path)
    more = policy(
        base(lambda file: file["approval"]["rules"].insert(0, {"tool": "x", "then": "run"})), tmp_path
    )
    assert more.ids["approval.rules[2]"] == first.ids["approval.rules[1]"]
    assert more.ids["approval.rules[1]"] == first.ids["approval.rules[0]"]
    assert len(set(more.ids.values())) == len(more.ids) == 4


def test_closed_rule_has_another_id(tmp_path: Path) -> None:
    closed, before = policy(base(OTHER["a closed rule"]), tmp_path), policy(base(), tmp_path)
    assert [each.get("only_these_arguments") for each in closed.content["rules"]] == [None, None, True]
    assert closed.ids["approval.rules[1]"] != before.ids["approval.rules[1]"]


def test_shadow_rule_that_equals_a_real_one_has_an_id_of_its_own(tmp_path: Path) -> None:
    def twin(first: bool) -> Callable[[Any], object]:
        def change(file: Any) -> None:
            rules = file["approval"]["rules"]
            rules.insert(0 if first else len(rules), {**rules[0], "shadow": True})

        return change

    before, after = policy(base(twin(first=True)), tmp_path), policy(base(twin(first=False)), tmp_path)
    real, shadow = (before.ids[f"approval.rules[{index}]"] for index in (1, 0))
    assert real == policy(base(), tmp_path).ids["approval.rules[0]"]
    assert shadow != real
    assert after.ids["approval.rules[0]"] == real
    assert shadow in after.ids.values()
    assert len(set(before.ids.values())) == len(before.ids)


def test_id_of_a_shadow_rule_stays_when_it_counts(tmp_path: Path) -> None:
    tried = policy(base(OTHER["a shadow rule"]), tmp_path)
    assert tried.ids == policy(base(), tmp_path).ids
    assert [each.get("shadow") for each in tried.content["rules"]] == [None, True, None]


def test_policy_has_no_secrets(tmp_path: Path) -> None:
    secrets = {"DESK_TOKEN": "tiny", "SHOP_PASSWORD": "a long secret"}
    values: dict[str, Any] = {
        "exact": "${DESK_TOKEN}",
        "inside": {"matches": "x${SHOP_PASSWORD}"},
        "password": "change-me-now",
        "key": {"one_of": ["sk1234567890abcdef", "free"]},
        "to": "bank",
    }
    found = policy(base(lambda file: rule(file).update(arguments=values)), tmp_path, **secrets)
    conditions = next(each["arguments"] for each in found.content["rules"] if "pay" in each["text"])
    assert conditions == {
        "exact": {"equals": "***"},
        "inside": {"matches": "***"},
        "password": {"equals": "***"},
        "key": {"one_of": ["***", "***"]},
        "to": {"equals": "bank"},
    }
    other = policy(
        base(lambda file: rule(file).update(arguments=values)), tmp_path, **secrets | {"DESK_TOKEN": "t2"}
    )
    assert other.revision == found.revision
