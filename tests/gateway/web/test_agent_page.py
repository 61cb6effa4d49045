"""The page's data about a real agent: tools and rules, parts, and the file without secrets."""

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import attrs
import pytest
from mcp.server import MCPServer

from stopgo.actors.agent import lists
from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.open_agent import open_agent
from stopgo.config.load import load_config
from stopgo.config.text.compose import compose
from stopgo.gateway.servers.resource_store import ResourceStore
from stopgo.gateway.servers.resources import resource_server
from stopgo.gateway.web.agent_page import agent_view
from stopgo.gateway.web.shown_config import without_secrets, yaml_of
from stopgo.runtime.json_text import dump_wire
from tests.canary import KEY, TOKEN

SERVER = "mcp_servers: [{name: resources, brought_by: program}]\n"
PROCESS = (
    "mcp_servers: [{name: resources, command: stopgo, args: [mcp-resources, --db, '${data_dir}/r.db']}]\n"
)
BEGIN = "name: a\nllm: {model: 'script:replies.yaml'}\n"
RULES = """approval:
  rules:
    - then: run
      tool: resources_add
      arguments: {name: {matches: "^test-"}}
    # Nobody removes by night.
    - name: additions ask
      then: ask
      tool: resources_*
      effect: once
"""


@pytest.fixture
def configured(tmp_path: Path) -> Callable[..., Any]:
    (tmp_path / "replies.yaml").write_text("replies: [{text: hello}]")

    def write(text: str, **environ: str) -> Any:
        (tmp_path / "agent.yaml").write_text(text)
        os.utime(tmp_path / "agent.yaml", (1.0, 1.0))
        return load_config(tmp_path / "agent.yaml", environ=environ, data_dir=tmp_path / "data")

    return write


async def view_of(config: Any, **options: Any) -> Any:
    async with open_agent(config, **options) as agent:
        return json.loads(dump_wire(await agent_view(agent)))


@asynccontextmanager
async def open_with_resources(config: Any) -> AsyncIterator[Agent]:
    """Open an agent whose tool server runs in this process."""
    with closing(ResourceStore(config.data_dir / "r.db")) as store:
        async with open_agent(config, servers={"resources": resource_server(store)}) as agent:
            yield agent


async def view_with_resources(config: Any) -> Any:
    async with open_with_resources(config) as agent:
        return json.loads(dump_wire(await agent_view(agent)))


async def test_each_tool_names_the_deciding_rule(configured: Any) -> None:
    view = await view_with_resources(configured(BEGIN + SERVER + RULES))
    tools = {tool["name"]: tool for tool in view["tools"]}
    rule = {
        "name": "additions ask",
        "file": "agent.yaml",
        "line": 10,
        "yaml": "name: additions ask\nthen: ask\ntool: resources_*\neffect: once\n",
    }
    assert (tools["resources_add"]["policy"], tools["resources_add"]["rule"]) == ("ask", rule)
    assert tools["resources_add"]["depends_on_arguments"]
    listing = tools["resources_list"]
    assert (listing["policy"], listing["reason"], listing["rule"]) == ("run", "readOnlyHint: true", None)
    assert (listing["effect"], listing["server"], listing["depends_on_arguments"]) == (
        "read",
        "resources",
        False,
    )


async def test_rule_of_a_node_has_its_file_and_line(configured: Any) -> None:
    tree = """agent:
  type: sequential
  name: both
  agents:
    - {type: llm, name: one, prompt: p}
    - type: llm
      name: two
      prompt: p
      approval:
        rules:
          - {then: deny, tool: resources_add}
"""
    view = await view_with_resources(configured(BEGIN + SERVER + tree))
    (add,) = [tool for tool in view["tools"] if tool["name"] == "resources_add"]
    assert add["rule"] is None
    one, two = add["nodes"]
    assert (one["node"], one["policy"], two["node"], two["policy"]) == ("one", "ask", "two", "deny")
    assert two["rule"] == {
        "name": 'node "two" approval.rules[0]',
        "file": "agent.yaml",
        "line": 14,
        "yaml": "then: deny\ntool: resources_add\n",
    }
    assert view["tree"]["children"] == [
        {"name": "one", "type": "llm", "model": "script:replies.yaml"},
        {"name": "two", "type": "llm", "model": "script:replies.yaml"},
    ]


async def test_page_counts_what_runs_unapproved_and_says_where(configured: Any) -> None:
    tree = """agent:
  type: sequential
  name: both
  agents:
    - {type: llm, name: one, prompt: p}
    - {type: parallel, name: prepare, agents: [{type: llm, name: two, prompt: p}]}
"""
    for approval, expected, unapproved in (("", "run", 2), ("approval: {defaults: strict}\n", "ask", 0)):
        view = await view_with_resources(configured(BEGIN + SERVER + approval + tree))
        nodes = {
            tool["name"]: {each["node"]: each["policy"] for each in tool["nodes"]} for tool in view["tools"]
        }
        assert nodes == {
            "resources_add": {"one": "ask", "two": expected},
            "resources_remove": {"one": "ask", "two": expected},
            "resources_list": {"one": "run", "two": "run"},
        }
        assert view["unapproved"] == unapproved


async def test_verdicts_per_node_are_omitted_for_many_tools(
    configured: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "MOST_EVALUATIONS", 2)
    tree = "agent: {type: sequential, name: s, agents: [{type: llm, name: one, prompt: p}]}\n"
    view = await view_with_resources(configured(BEGIN + SERVER + tree))
    assert [tool["nodes"] for tool in view["tools"]] == [None, None, None]


async def test_the_parts_of_the_agent(configured: Any) -> None:
    view = await view_of(configured(BEGIN + "description: d\nexamples: [do it, '<b>x']\n" + PROCESS))
    assert view["examples"] == ["do it", "<b>x"]
    assert (view["name"], view["description"], view["file"], view["file_changed"]) == (
        "a",
        "d",
        "agent.yaml",
        False,
    )
    assert view["servers"] == [
        {
            "name": "resources",
            "transport": "stdio",
            "where": "stopgo",
            "max_concurrency": 16,
            "required": True,
            "tools": 3,
        }
    ]
    (model,) = view["models"]
    assert (model["name"], model["provider"]) == ("script:replies.yaml", "script")
    assert model["prices"]["input"] == 0.0


async def test_a_server_that_the_program_brings(configured: Any) -> None:
    view = await view_of(configured(BEGIN), servers={"calc": MCPServer("calc")})
    (server,) = view["servers"]
    assert (server["transport"], server["where"], server["tools"]) == (
        "program",
        "an object of the program",
        0,
    )


async def test_the_tools_of_a_server_that_is_one_tool(configured: Any) -> None:
    text = BEGIN + SERVER.replace("name: resources", "name: resources, expose: server") + RULES
    (tool,) = (await view_with_resources(configured(text)))["tools"]
    assert [each["name"] for each in tool["inside"]] == [
        "resources_add",
        "resources_remove",
        "resources_list",
    ]
    assert [each["policy"] for each in tool["inside"]] == ["ask", "ask", "run"]


async def test_a_file_that_changed_after_the_start_is_not_shown(configured: Any, tmp_path: Path) -> None:
    async with open_with_resources(configured(BEGIN + SERVER + RULES)) as agent:
        with (tmp_path / "agent.yaml").open("a") as file:
            file.write("port: 1\n")
        os.utime(tmp_path / "agent.yaml", (agent.started + 9, agent.started + 9))
        view = await agent_view(agent)
        assert (view["file_changed"], view["config"]) == (True, "")
        assert all(tool["rule"] is None for tool in view["tools"])
        (tmp_path / "agent.yaml").unlink()
        assert (await agent_view(agent))["file_changed"]


async def test_an_agent_of_a_program_has_no_file(configured: Any) -> None:
    config = configured(BEGIN.replace("script:replies.yaml", "offline:rules"))
    view = await view_of(attrs.evolve(config, source=None))
    assert (view["file"], view["file_changed"], view["config"]) == (None, False, "")


# ------------------------------------------------------------------------ secrets

SECRETS = f"""
name: a
prompt: "Use {KEY}, password={TOKEN}, https://me:{TOKEN}@x.example/{KEY}?q={TOKEN} and me:{TOKEN}@x.example"
llm:
  model: offline:rules
  options:
    extra_headers: {{X-Any: '{TOKEN} {KEY}'}}
    apiKey: ['{TOKEN}', {{inner: '{TOKEN}'}}]
models:
  mine: {{provider: openai_compatible, model: m, base_url: 'https://u:{TOKEN}@h.example/v1?key={KEY}', \
api_key_env: THE_KEY}}
mcp_servers:
  - name: one
    enabled: false
    url: https://me:{TOKEN}@h.example/{KEY}/mcp?token={TOKEN}&any=tok
    headers: {{Authorization: 'Bearer {TOKEN}', X-Short: hush, X-Var: '${{IT:-{KEY}}}', X-Mixed: 'a ${{IT}}'}}
  - name: two
    enabled: false
    command: tool
    args: [--password, hush, '--api-key={TOKEN}', '-H', 'Authorization: Bearer {TOKEN}', \
--db, 'x.db', -u, 'me:hush', -c, 'x --password hush', '{{"apiKey": "hush", "a": 1}}', \
--dsn, 'pg://u:{TOKEN}@h/d', '{KEY}']
    env: {{ANY: '{TOKEN}', SHORT: hush}}
  - name: three
    enabled: false
    command: tool
    env: ['A={TOKEN}', 'B=${{IT}}', 'C=hush']
  - name: four
    enabled: false
    url: https://h.example
    oauth: {{client_id: me, client_secret: hush, issuer: 'https://h.example'}}
a2a:
  - {{name: other, url: 'https://h.example/a?k={TOKEN}', headers: {{Cookie: 'a={TOKEN}'}}}}
approval:
  rules:
    - {{then: ask, tool: none, optional: true, arguments: {{password: hush, any: '{KEY}'}}}}
"""


async def test_no_secret_of_the_file_is_shown(configured: Any, tmp_path: Path) -> None:
    view = await view_of(configured(SECRETS, IT=TOKEN))
    (tmp_path / "agent.yaml").unlink()  # no test leaves secrets behind
    text = json.dumps(view)
    for secret in (KEY, TOKEN, "hush", "Bearer"):
        assert secret not in text
    for shown in ("X-Short", "SHORT", "client_id: me", "${IT}", "x.db", "THE_KEY", "h.example"):
        assert shown in view["config"]


def shown(text: str) -> str:
    return yaml_of(without_secrets(compose(text, "file")[0]))


def test_variable_stays_a_reference_with_harmless_default() -> None:
    assert shown("a: '${VAR:-offline:rules}'") == "a: ${VAR:-offline:rules}\n"
    assert shown("a: '${MY_TOKEN:-abc}'") == "a: ${MY_TOKEN}\n"
    assert shown("a: 'no $${VAR}'") == "a: no $${VAR}\n"


def test_rule_condition_on_a_secret_argument_is_masked() -> None:
    text = "arguments:\n  environment:\n    equals: production\n  headers:\n    in:\n      - a\n"
    assert shown(text) == text
    assert "hush" not in shown("arguments: {password: {equals: hush}}")


def test_what_is_no_secret_stays_as_it_is_written() -> None:
    text = (
        "prompt: |\n  A key: the name, a foreign-key constraint.\n\n  - key points\n  List *all* of it.\n"
        "agents:\n  - name: x\n    output_key: found\n"
    )
    assert shown(text) == text


def test_what_is_shown_of_it_again_is_the_same() -> None:
    once = shown(SECRETS)
    assert shown(once) == once
    assert KEY not in once
    assert TOKEN not in once
