"""The agent files that come with the project."""

import re
from pathlib import Path

import pytest

from stopgo.config.load import load_config
from stopgo.config.sections.agent_config import AgentConfig
from stopgo.config.sections.nodes import LlmNode, ParallelNode, RemoteAgentNode, SequentialNode

ROOT = Path(__file__).parents[2]
DEFAULT = ROOT / "config" / "agent.yaml"
PIPELINES = sorted((ROOT / "testdata").glob("*.yaml"))


def test_the_default_needs_no_key_no_port_and_no_network(tmp_path: Path) -> None:
    config = load_config(DEFAULT, environ={}, data_dir=tmp_path)
    assert isinstance(config.agent, LlmNode)
    assert config.agent.model == "offline:rules"
    (server,) = config.mcp_servers
    assert (server.name, server.command) == ("resources", "stopgo")
    assert server.args == ("mcp-resources", "--db", f"{tmp_path}/resources.db")
    assert (config.host, config.warnings) == ("127.0.0.1", ())


def test_its_model_can_be_named_from_outside() -> None:
    config = load_config(DEFAULT, environ={"STOPGO_MODEL": "script:x.yaml"})
    assert config.llm.model == "script:x.yaml"


def test_the_keys_it_offers_to_try_can_be_tried(tmp_path: Path) -> None:
    text = re.sub(r"^( *)#(?=\S| {2})", r"\1", DEFAULT.read_text(), flags=re.MULTILINE)
    path = tmp_path / "agent.yaml"
    path.write_text(text)
    config = load_config(path, environ={})
    assert isinstance(config.agent, SequentialNode)
    assert [server.name for server in config.mcp_servers] == ["resources", "remote"]
    assert config.mcp_servers[0].env == {"LANG": "C.UTF-8"}
    assert config.approval.defaults == "strict"
    assert [(rule.tool, rule.then) for rule in config.approval.rules] == [("resources_add", "run")]
    assert config.warnings == ()


SHIPPED = {
    "config/agent.yaml": ["resources"],
    "config/agent-b.yaml": ["resources"],
    "testdata/e2e-sequential.yaml": ["resources"],
    "testdata/e2e-parallel.yaml": ["resources"],
    "testdata/e2e-loop.yaml": ["resources"],
    "testdata/e2e-chain-a.yaml": [],
    "testdata/e2e-chain-b.yaml": ["resources"],
}


@pytest.mark.parametrize(("path", "servers"), SHIPPED.items())
def test_a_shipped_file_names_its_servers(path: str, servers: list[str]) -> None:
    assert [server.name for server in load_config(ROOT / path, environ={}).mcp_servers] == servers


@pytest.mark.parametrize("path", PIPELINES, ids=lambda path: path.stem)
def test_a_pipeline_loads_without_a_warning(path: Path) -> None:
    config = load_config(path, environ={})
    assert config.warnings == ()
    assert config.has_tree
    assert config.llm.model == "offline:rules" or script_of(path, config).is_file()


def script_of(path: Path, config: AgentConfig) -> Path:
    return path.parent / config.llm.model.removeprefix("script:")


def test_the_parallel_pipeline_summarizes_two_branches() -> None:
    config = load_config(ROOT / "testdata" / "e2e-parallel.yaml", environ={})
    assert isinstance(config.agent, SequentialNode)
    gather, summarizer = config.agent.agents
    assert isinstance(gather, ParallelNode)
    assert [node.name for node in gather.agents] == ["list-all", "count-analysis"]
    assert summarizer.name == "summarizer"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("config/agent-a.yaml", "config/agent-b.yaml"),
        ("testdata/e2e-chain-a.yaml", "testdata/e2e-chain-b.yaml"),
    ],
)
def test_the_first_of_two_agents_delegates_to_the_second(first: str, second: str) -> None:
    one, other = (load_config(ROOT / each, environ={}) for each in (first, second))
    assert (one.warnings, other.warnings) == ((), ())
    assert isinstance(one.agent, SequentialNode)
    analyzer, delegator = one.agent.agents
    assert isinstance(delegator, RemoteAgentNode)
    assert (analyzer.name, analyzer.output_key, delegator.prompt) == (
        "analyzer",
        "analysis",
        "{user_message}",
    )
    assert [agent.url for agent in one.remote_agents] == [f"http://127.0.0.1:{other.port}/a2a"]
    assert one.mcp_servers == ()
    assert [server.name for server in other.mcp_servers] == ["resources"]
    assert one.llm.model == other.llm.model == "offline:rules"


def test_two_shipped_agents_share_nothing_and_can_be_tried_further(tmp_path: Path) -> None:
    one, other = (load_config(ROOT / "config" / f"agent-{which}.yaml", environ={}) for which in "ab")
    assert one.data_dir != other.data_dir
    text = re.sub(
        r"^( *)#(?=\S| {2})", r"\1", (ROOT / "config" / "agent-a.yaml").read_text(), flags=re.MULTILINE
    )
    (tmp_path / "agent.yaml").write_text(text)
    tried = load_config(tmp_path / "agent.yaml", environ={})
    assert [agent.name for agent in tried.remote_agents] == ["resources", "delegator"]
    delegator = tried.remote_agents[1]
    assert (delegator.headers, delegator.destructive_hint) == ({"X-Api-Key": "none"}, True)
