import os
from pathlib import Path

import pytest

from stopgo.config.load import MAX_BYTES, load_config
from stopgo.config.sections.agent_config import AgentConfig, LimitsConfig, ServerConfig, ToolsConfig
from stopgo.config.sections.approval import ApprovalConfig, ApprovalOverride, Condition, Rule
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.config.sections.models import LlmConfig
from stopgo.config.sections.nodes import (
    CheckpointNode,
    LlmNode,
    LoopNode,
    ParallelNode,
    Route,
    RouterNode,
    SequentialNode,
)
from stopgo.config.text.errors import ConfigError

from .conftest import SECRET, Load, Problems


def test_everything_has_a_default(load: Load) -> None:
    config = load("{}")
    node = LlmNode(name="agent", prompt="", model="google:gemini-2.5-flash")
    assert (config.agent, config.has_tree) == (node, False)
    assert (config.name, config.description, config.prompt) == ("agent", "", "")
    assert (config.host, config.port, config.shutdown_grace) == ("127.0.0.1", 8080, 10.0)
    assert config.data_dir == Path.cwd() / "data"
    assert config.llm == LlmConfig("google:gemini-2.5-flash")
    assert (config.mcp_servers, config.tools, config.approval) == ((), ToolsConfig(5), ApprovalConfig())
    assert config.warnings == ()


def test_every_key_is_read(load: Load, tmp_path: Path) -> None:
    config = load(
        """
name: boss
description: knows all
prompt: Be good.
host: 0.0.0.0
port: 0
server: {allowed_hosts: [agent.lan], public_url: "https://a.example/x", allowed_origins: ["http://[::1]:80"]}
data_dir: /var/lib/agent
shutdown_grace: 2.5
llm: {model: offline:rules}
mcp_servers:
  - {name: a, url: "http://a:8090/mcp", connect_timeout: 1, timeout: 2.5, max_concurrency: 3}
  - {name: b, command: bin/b, args: [--x, "1"], env: {NO: "off"}}
tools: {max_parallel: 2}
approval: {unannotated: ask, in_parallel: ask}
agent:
  type: sequential
  name: root
  output_key: all
  agents:
    - {type: llm, name: one, output_key: first, max_turns: 3, history: turn}
    - type: parallel
      name: both
      agents:
        - {type: llm, name: two, prompt: "see {first}", model: script:x.yaml}
"""
    )
    assert (config.name, config.description, config.prompt) == ("boss", "knows all", "Be good.")
    assert (config.host, config.port, config.shutdown_grace) == ("0.0.0.0", 0, 2.5)
    assert config.server == ServerConfig(("agent.lan",), "https://a.example/x", ("http://[::1]:80",))
    assert config.data_dir == Path("/var/lib/agent")
    a, b = config.mcp_servers
    assert a == McpServerConfig(
        name="a",
        url="http://a:8090/mcp",
        connect_timeout=1.0,
        timeout=2.5,
        max_concurrency=3,
        as_written="http://a:8090/mcp",
    )
    assert b == McpServerConfig(
        name="b",
        command=str(tmp_path / "bin/b"),
        args=("--x", "1"),
        env={"NO": "off"},
        as_written="bin/b",
    )
    assert (config.tools, config.approval) == (
        ToolsConfig(2),
        ApprovalConfig(unannotated="ask", in_parallel="ask"),
    )
    one = LlmNode(
        name="one",
        prompt="Be good.",
        model="offline:rules",
        output_key="first",
        max_turns=3,
        history="turn",
    )
    two = LlmNode(name="two", prompt="see {first}", model="script:x.yaml")
    both = ParallelNode(name="both", agents=(two,))
    assert config.agent == SequentialNode(name="root", agents=(one, both), output_key="all")
    assert config.has_tree
    assert config.source == tmp_path / "agent.yaml"
    assert not config.packaged


def test_every_key_of_a_tree_and_a_policy_is_read(load: Load) -> None:
    config = load(
        """
limits: {max_turns: 7, max_tool_calls: 9, timeout: 60}
approval:
  in_loop: ask
  expires_after: 3600
  on_expiry: fail
  rules:
    - name: no production
      then: deny
      server: db*
      tool: "*_write"
      node: w?
      effect: once
      arguments: {target: prod, "a.b": {matches: "^x", exists: true}}
agent:
  type: loop
  name: root
  max_iterations: 3
  on_error: continue
  timeout: 30
  retries: 2
  mcp_servers: []
  approval: {in_parallel: ask, rules: [{then: run}]}
  agents:
    - {type: llm, name: w1, can_exit_loop: true, max_tool_calls: 4, tools: ["a_*"], description: d}
    - {type: approval, name: ok, message: "Go on?"}
    - type: parallel
      name: both
      max_concurrency: 2
      on_error: collect
      agents:
        - type: router
          name: pick
          routes: [{when: {k: {one_of: [1, x]}, user_message: {above: 3, below: 5}}, agent: y}]
          default: y
          agents: [{type: llm, name: y}]
"""
    )
    assert config.limits == LimitsConfig(max_turns=7, max_tool_calls=9, timeout=60.0)
    rule = Rule(
        name="no production",
        then="deny",
        server="db*",
        tool="*_write",
        node="w?",
        effect="once",
        arguments={"target": Condition(equals="prod"), "a.b": Condition(matches="^x", exists=True)},
    )
    assert config.approval == ApprovalConfig(
        rules=(rule,), in_loop="ask", expires_after=3600.0, on_expiry="fail"
    )
    model = "google:gemini-2.5-flash"
    pick = RouterNode(
        name="pick",
        routes=(
            Route(
                when={"k": Condition(one_of=(1, "x")), "user_message": Condition(above=3.0, below=5.0)},
                agent="y",
            ),
        ),
        default="y",
        agents=(LlmNode(name="y", prompt="", model=model),),
    )
    assert config.agent == LoopNode(
        name="root",
        max_iterations=3,
        on_error="continue",
        timeout=30.0,
        retries=2,
        mcp_servers=(),
        approval=ApprovalOverride(in_parallel="ask", rules=(Rule(then="run"),)),
        agents=(
            LlmNode(
                name="w1",
                prompt="",
                model=model,
                can_exit_loop=True,
                max_tool_calls=4,
                tools=("a_*",),
                description="d",
            ),
            CheckpointNode(name="ok", message="Go on?"),
            ParallelNode(name="both", max_concurrency=2, on_error="collect", agents=(pick,)),
        ),
    )


@pytest.mark.parametrize("text", ["mcp_servers:", "mcp_servers: []", "name: x"])
def test_an_agent_needs_no_server(load: Load, text: str) -> None:
    assert load(text).mcp_servers == ()


def test_an_empty_section_that_only_adds_is_its_default(load: Load) -> None:
    config = load("llm:\nmodels:\nmcp_servers:\n  - name: a\n    command: b\n    args:\n    env:\n")
    assert (config.llm, config.models) == (LlmConfig(), {})
    assert (config.mcp_servers[0].args, config.mcp_servers[0].env) == ((), {})


def test_without_a_tree_the_agent_is_one_node(load: Load) -> None:
    config = load("name: solo\nprompt: Hello.\nllm: {model: offline:rules}\n")
    assert config.agent == LlmNode(name="solo", prompt="Hello.", model="offline:rules")
    assert not config.has_tree


def test_command_line_overrides_the_file(load: Load, tmp_path: Path) -> None:
    config = load(
        """
data_dir: ${NOT_SET}
llm: {model: "${NOT_SET}"}
mcp_servers: [{name: a, command: b, args: ["${data_dir}"]}]
agent:
  type: parallel
  name: root
  agents: [{type: llm, name: a, model: "${NOT_SET}"}, {type: llm, name: b}]
""",
        data_dir=tmp_path / "${x}",
        model="script:${y}.yaml",
    )
    assert config.data_dir == tmp_path / "${x}"
    assert config.mcp_servers[0].args == (str(tmp_path / "${x}"),)
    assert config.llm.model == "script:${y}.yaml"
    assert isinstance(config.agent, ParallelNode)
    assert [getattr(node, "model", None) for node in config.agent.agents] == ["script:${y}.yaml"] * 2


# References


def test_references_take_the_type_their_key_expects(load: Load) -> None:
    config = load(
        """
port: ${PORT}
shutdown_grace: ${GRACE:-2.5}
tools: {max_parallel: "${MANY:-7}"}
approval: {unannotated: "${WHAT}"}
name: ${PORT}
description: at ${PORT}, ${PLACE:-here}, $${PORT}
""",
        {"PORT": "8081", "WHAT": "ask"},
    )
    assert (config.port, config.shutdown_grace, config.tools.max_parallel) == (8081, 2.5, 7)
    assert config.approval.unannotated == "ask"
    assert (config.name, config.description) == ("8081", "at 8081, here, ${PORT}")


def test_references_are_filled_in_after_parsing(load: Load) -> None:
    value = 'x\nport: 1\n"${NAME}": {a: [*b]} # no'
    config = load(
        "name: ${NAME}\n# ${UNSET} in a comment\nmcp_servers: [{name: a, command: b, env: {'${K': v}}]",
        {"NAME": value},
    )
    assert (config.name, config.port) == (value, 8080)
    assert config.mcp_servers[0].env == {"${K": "v"}


def test_the_data_directory_can_be_referred_to(
    load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "data_dir: ${WHERE}/x\nmcp_servers: [{name: a, command: b, args: ['--db=${data_dir}/r.db']}]"
    config = load(text, {"WHERE": "some", "data_dir": "wrong"})
    assert config.data_dir == tmp_path / "some" / "x"
    assert config.mcp_servers[0].args == (f"--db={tmp_path}/some/x/r.db",)


@pytest.mark.parametrize(
    ("command", "expected"),
    [("stopgo", "stopgo"), ("./bin/x", "{folder}/bin/x"), ("/bin/x", "/bin/x"), ("${TOOL}", "{folder}/t/x")],
)
def test_a_command_that_is_a_path_is_relative_to_the_file(
    load: Load, tmp_path: Path, command: str, expected: str
) -> None:
    config = load(f"mcp_servers: [{{name: a, command: '{command}'}}]", {"TOOL": "t/x"})
    assert config.mcp_servers[0].command == expected.format(folder=tmp_path)


def test_address_in_a_log_has_no_values(load: Load) -> None:
    config = load(
        "mcp_servers: [{name: a, url: 'http://h/mcp?key=${KEY}'}, {name: b, command: b, env: {K: '${KEY}'}}]",
        {"KEY": SECRET},
    )
    assert config.mcp_servers[0].url == f"http://h/mcp?key={SECRET}"
    assert config.mcp_servers[0].as_written == "http://h/mcp?key=${KEY}"
    assert SECRET not in repr(config)


@pytest.mark.parametrize(
    "text",
    [
        "port: ${KEY}",
        "shutdown_grace: ${KEY}",
        "approval: {unannotated: '${KEY}'}",
        "mcp_servers: [{name: a, url: '${KEY}'}]",
        "mcp_servers: [{name: a, url: 'x${KEY}'}]",
        "mcp_servers: [{name: '${KEY}', command: a}, {name: '${KEY}', command: a}]",
        "agent: {type: '${KEY}', name: a}",
        "agent: {type: llm, name: a, output_key: '${KEY}'}",
        "port: '${KEY}'\nname: ${KEY}${",
        "tools: {max_parallel: 'x${KEY}'}",
        "llm: '${KEY}'",
        "args: ['${KEY}']",
        "agent: {type: llm, name: a, can_exit_loop: '${KEY}'}",
        "approval: {rules: [{then: '${KEY}'}]}",
        "approval: {rules: [{then: run, arguments: {a: {matches: '${KEY}('}}}]}",
        "approval: {rules: [{then: run, arguments: {a: {above: '${KEY}'}}}]}",
        "agent: {type: router, name: a, routes: [{when: {k: 1}, agent: '${KEY}'}], "
        "agents: [{type: llm, name: '${KEY}x'}]}",
    ],
)
def test_no_error_holds_a_value(problems: Problems, text: str) -> None:
    found = problems(text, {"KEY": SECRET + "!"})
    assert found
    assert SECRET not in repr(found) + "".join(map(str, found))


# Files


def test_the_file_in_the_working_directory_is_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "agent.yaml").write_text("name: mine")
    monkeypatch.chdir(tmp_path)
    config = load_config()
    assert (config.name, config.source, config.packaged) == ("mine", Path("config/agent.yaml"), False)
    assert load_config("config/agent.yaml", data_dir="/there").data_dir == Path("/there")


def test_else_it_is_the_packaged_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    config = load_config(None, environ={})
    assert config.packaged
    assert config.source is not None
    assert config.source.name == "agent.yaml"
    assert config.source.is_file()


def test_a_file_may_start_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: x\n")
    assert load_config(path).name == "x"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"a: 1\nb: \xff", "the file is not UTF-8 text, first on line 2"),
        (b"#" * (MAX_BYTES + 1), "the file is larger than 1 MiB"),
        (b"", "the file is empty; expected a mapping"),
        (b"- a", "1:1: the file must be a mapping of keys, such as `name: my-agent`"),
        (b"just text", "1:1: the file must be a mapping of keys, such as `name: my-agent`"),
        (b"!x {}", '1:1: the tag "!x" is not supported'),
    ],
)
def test_files_that_are_refused(tmp_path: Path, content: bytes, text: str) -> None:
    path = tmp_path / "agent.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value) in (f"{path}: {text}", f"{path}:{text}")
    assert caught.value.code == "config_invalid"


def test_a_file_of_the_greatest_size_is_read(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_bytes(b"{}" + b" " * (MAX_BYTES - 2))
    assert load_config(path).name == "agent"


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"x\.yaml: there is no such file \(relative paths"):
        load_config(tmp_path / "x.yaml")


def test_a_file_that_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the file cannot be read: Is a directory") as caught:
        load_config(tmp_path)
    assert [problem.code for problem in caught.value.problems] == ["file_unreadable"]


def test_a_path_that_is_none() -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(Path("a\0b"))


def test_the_environment_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STOPGO_TEST_NAME", "from outside")
    path = tmp_path / "agent.yaml"
    path.write_text("name: ${STOPGO_TEST_NAME}")
    assert load_config(path).name == "from outside"
    assert "STOPGO_TEST_NAME" in os.environ


def test_a_config_is_a_value() -> None:
    one = AgentConfig(agent=LlmNode(name="a", prompt="", model="offline:rules"))
    assert one == AgentConfig(agent=LlmNode(name="a", prompt="", model="offline:rules"))
