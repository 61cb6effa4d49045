import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stopgo.config.checks.tree import tree_from_stored
from stopgo.config.sections.approval import ApprovalOverride, Condition, Rule
from stopgo.config.sections.nodes import (
    ROUTER_PROMPT,
    LlmNode,
    LoopNode,
    Node,
    ParallelNode,
    Route,
    RouterNode,
    SequentialNode,
    children_of,
)
from stopgo.config.text.errors import ConfigError

from .conftest import Load

ENVIRON = {"A": "one", "N": "3", "EMPTY": "", "TRAP": "${A}"}

prose = st.lists(
    st.sampled_from(
        ["${A}", "${NOT:-x}", "${EMPTY:-y}", "$${A}", "${TRAP}", "${data_dir}", "{key}", " ", "é\n", "$"]
    )
).map(lambda parts: "".join(parts).replace("$${", "$${ ").replace("${key}", "$ {key}"))
condition = st.sampled_from(["x", 1, True, "${A}", {"matches": "^a"}, {"one_of": [1, "${N}"]}, {"above": 1}])
rule = st.fixed_dictionaries(
    {"then": st.sampled_from(["run", "ask", "deny"])},
    optional={
        "tool": st.sampled_from(["resources_*", "${A}"]),
        "arguments": st.dictionaries(st.sampled_from(["a", "b.c"]), condition, min_size=1, max_size=2),
    },
)
approval = st.fixed_dictionaries(
    {"unannotated": st.just("ask")},
    optional={
        "rules": st.lists(rule, min_size=1, max_size=2),
        "in_loop": st.sampled_from(["run", "${NOT:-ask}"]),
        "expires_after": st.sampled_from([1.5, "${N}"]),
        "on_expiry": st.just("fail"),
    },
)
every_node = {
    "output_key": st.sampled_from(["out", "${A}"]),
    "description": prose,
    "mcp_servers": st.sampled_from([[], ["files"], ["${A}"]]),
    "tools": st.sampled_from([[], ["a_*"]]),
    "a2a": st.sampled_from([[], ["far"], ["far", "${A}"]]),
    "timeout": st.sampled_from([2, "${N}"]),
    "retries": st.just(2),
    "approval": approval,
}
leaf = st.fixed_dictionaries(
    {"type": st.just("llm")},
    optional={
        **every_node,
        "prompt": prose,
        "model": st.sampled_from(["offline:rules", "script:${A}.yaml", "${NOT:-ollama:b}"]),
        "max_turns": st.sampled_from([1, "${N}"]),
        "max_tool_calls": st.just(7),
        "history": st.sampled_from(["turn", "${NOT:-turn}"]),
        "on_error": st.just("continue"),
    },
)
leaf |= st.fixed_dictionaries(
    {"type": st.just("approval"), "message": prose.filter(bool)}, optional=every_node
)
leaf |= st.fixed_dictionaries(
    {"type": st.just("a2a"), "agent": st.sampled_from(["far", "${A}"])},
    optional={**every_node, "prompt": st.sampled_from(["{user_message}", "Do ${A}."])},
)


def parent(kind: str, inner: Any, more: Any = None, optional: Any = None) -> Any:
    agents = {"type": st.just(kind), "agents": st.lists(inner, min_size=1, max_size=3)}
    return st.fixed_dictionaries({**agents, **(more or {})}, optional={**every_node, **(optional or {})})


routes = st.lists(
    st.fixed_dictionaries({"when": st.just({"out": {"equals": "${A}"}})}), min_size=1, max_size=2
)
tree = st.recursive(
    leaf,
    lambda inner: st.one_of(
        parent("sequential", inner, None, {"on_reject": st.just("continue")}),
        parent("parallel", inner, None, {"max_concurrency": st.just(2), "on_error": st.just("collect")}),
        parent("loop", inner, None, {"max_iterations": st.sampled_from([3, "${N}"])}),
        parent("router", inner, {"model": st.sampled_from(["openai:n", "${A}"])}),
        parent("router", inner, {"prompt": prose}),
        parent("router", inner, {"routes": routes}),
    ),
    max_leaves=6,
)


def named(data: dict[str, Any], path: str = "n") -> dict[str, Any]:
    """The tree with a name for every node, unique by its place."""
    children = [named(child, f"{path}.{index}") for index, child in enumerate(data.get("agents", ()))]
    routes = [{**route, "agent": f"{path}.0"} for route in data.get("routes", ())]
    return {
        **data,
        "name": path,
        **({"agents": children} if children else {}),
        **({"routes": routes} if routes else {}),
    }


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree | st.none(), prose, st.none() | st.sampled_from(["script:x.yaml", "ollama:${A}$${b"]))
def test_a_stored_tree_comes_back(
    load: Load, data: dict[str, Any] | None, prompt: str, model: str | None
) -> None:
    file: dict[str, Any] = {"prompt": prompt, "llm": {"model": "${NOT:-offline:rules}"}}
    file["mcp_servers"] = [{"name": name, "command": "c"} for name in ("files", ENVIRON["A"])]
    file["a2a"] = [{"name": name, "url": "http://h"} for name in ("far", ENVIRON["A"])]
    if data is not None:
        file["agent"] = named(data)
    config = load(yaml.safe_dump(file, allow_unicode=True), ENVIRON, model=model)
    stored = json.loads(json.dumps(config.stored_tree))
    assert stored == config.stored_tree
    assert tree_from_stored(stored, environ=ENVIRON, data_dir=config.data_dir) == config.agent


def test_a_stored_tree_may_have_empty_values() -> None:
    """Older versions stored them, and read each as its default."""
    tree = {
        "type": "llm",
        "name": "a",
        "prompt": "",
        "model": "offline:rules",
        "approval": {"rules": []},
    }
    inner = {**tree, "name": "b", "approval": {"rules": [{"then": "ask", "arguments": None}]}}
    node = tree_from_stored({"type": "loop", "name": "c", "approval": None, "agents": [tree, inner]})
    assert isinstance(node, LoopNode)
    assert [each.approval for each in (node, *node.agents)] == [
        None,
        ApprovalOverride(rules=()),
        ApprovalOverride(rules=(Rule(then="ask"),)),
    ]


TEXT = """
name: boss
prompt: Obey ${KEY}.
llm: {model: "script:${FILE:-x}.yaml"}
agent:
  type: parallel
  name: root
  agents:
    - {type: llm, name: a}
    - {type: llm, name: b, prompt: "${data_dir}", model: "ollama:${KEY}"}
"""


def test_stored_tree_is_the_written_one(load: Load) -> None:
    config = load(TEXT, {"KEY": "s3cret"})
    assert config.stored_tree == {
        "type": "parallel",
        "name": "root",
        "agents": [
            {"type": "llm", "name": "a", "prompt": "Obey ${KEY}.", "model": "script:${FILE:-x}.yaml"},
            {"type": "llm", "name": "b", "prompt": "${data_dir}", "model": "ollama:${KEY}"},
        ],
    }


def test_without_a_tree_the_one_node_is_stored(load: Load) -> None:
    config = load("prompt: Obey ${KEY}.", {"KEY": "s3cret"})
    assert config.stored_tree == {
        "type": "llm",
        "name": "agent",
        "prompt": "Obey ${KEY}.",
        "model": "google:gemini-2.5-flash",
    }


def test_stored_router_has_its_model_and_prompt(load: Load) -> None:
    agents = "agents: [{type: llm, name: b, prompt: p, model: m}]"
    stored = load(
        f"llm: {{model: 'ollama:${{K}}'}}\nagent: {{type: router, name: a, prompt: Pick., {agents}}}",
        {"K": "k"},
    )
    assert stored.stored_tree["model"] == "ollama:${K}"
    assert isinstance(stored.agent, RouterNode)
    assert (stored.agent.model, stored.agent.prompt) == ("ollama:k", "Pick.")
    other = load(f"agent: {{type: router, name: a, model: openai:y, {agents}}}", model="script:z")
    assert (other.stored_tree["model"], other.stored_tree["prompt"]) == ("script:z", ROUTER_PROMPT)
    routed = load(
        f"agent: {{type: router, name: a, routes: [{{when: {{k: v}}, agent: b}}], {agents}}}",
        model="script:z",
    )
    assert "model" not in routed.stored_tree
    assert routed.agent == RouterNode(
        name="a",
        routes=(Route(when={"k": Condition(equals="v")}, agent="b"),),
        agents=(LlmNode(name="b", prompt="p", model="script:z"),),
    )


def test_a_stored_tree_is_read_with_the_variables_of_today(load: Load, tmp_path: Path) -> None:
    stored = load(TEXT, {"KEY": "old"}).stored_tree
    node = tree_from_stored(stored, environ={"KEY": "new", "FILE": "y"}, data_dir=tmp_path)
    assert node == ParallelNode(
        name="root",
        agents=(
            LlmNode(name="a", prompt="Obey new.", model="script:y.yaml"),
            LlmNode(name="b", prompt=str(tmp_path), model="ollama:new"),
        ),
    )


def test_a_stored_tree_keeps_the_model_that_stood_in(load: Load, tmp_path: Path) -> None:
    stored = load(TEXT, {"KEY": "k"}, model="script:${z}").stored_tree
    assert models(tree_from_stored(stored, environ={"KEY": "k"}, data_dir=tmp_path)) == ["script:${z}"] * 2


def models(node: Node) -> list[str]:
    if isinstance(node, LlmNode):
        return [node.model]
    return [model for child in children_of(node) for model in models(child)]


def test_a_variable_that_is_gone_is_named(load: Load) -> None:
    stored = load(TEXT, {"KEY": "old"}).stored_tree
    with pytest.raises(ConfigError) as caught:
        tree_from_stored(stored, environ={}, data_dir=Path("/d"))
    assert [str(problem) for problem in caught.value.problems] == [
        f"stored tree: agent.agents[{place}: the environment variable KEY is not set "
        "(set it, or write ${KEY:-default})"
        for place in ("0].prompt", "1].model")
    ]


@pytest.mark.parametrize(
    "stored", [{}, {"type": "future", "name": "x"}, {"type": "llm", "name": "x", "new": 1}]
)
def test_what_this_version_does_not_know_is_refused(stored: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        tree_from_stored(stored, environ={})


def test_a_tree_that_is_as_deep_as_a_file_may_be(load: Load) -> None:
    text = "{type: llm, name: leaf, prompt: p, model: m}"
    for depth in range(14):
        text = f"{{type: sequential, name: n{depth}, agents: [{text}]}}"
    config = load(f"agent: {text}")
    node = tree_from_stored(config.stored_tree, environ={})
    assert node == config.agent
    assert isinstance(node, SequentialNode)
