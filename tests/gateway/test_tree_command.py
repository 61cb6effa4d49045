import socket
import subprocess
import sys
from pathlib import Path

import pytest

from stopgo.gateway.cli.client import agent_contacts
from stopgo.gateway.cli.main import main
from tests.canary import KEY
from tests.gateway.card_server import CARD, card_server
from tests.waiting import LIMIT

FILE = """
name: desk
llm: {model: offline:rules}
mcp_servers:
  - {name: files, command: f}
  - {name: db, command: d}
limits: {max_turns: 20, timeout: 60}
approval:
  expires_after: 3600
  rules:
    - {name: no production, then: deny, server: db, arguments: {target: {matches: "^prod"}}}
agent:
  type: sequential
  name: root
  agents:
    - {type: llm, name: analyzer, output_key: analysis, mcp_servers: []}
    - type: parallel
      name: both
      max_concurrency: 2
      agents:
        - type: llm
          name: left
          tools: ["a_*", b]
          timeout: 30
          approval: {in_parallel: ask, on_expiry: fail, rules: [{then: ask, tool: a_x}]}
        - type: loop
          name: again
          agents: [{type: llm, name: worker, can_exit_loop: true}]
    - type: router
      name: pick
      routes: [{when: {analysis: x, user_message: y}, agent: ok}]
      agents: [{type: approval, name: ok, message: "go?"}]
"""

PICTURE = """\
desk ({file})
  servers: files, db
  limits: max_turns: 20; timeout: 60 s
  approval.rules[0] "no production" (server: db; arguments: target): deny
  an approval without an answer for 3600 s counts as rejected

root  [sequential]
├─ analyzer  [llm]  offline:rules
│     output_key: analysis; mcp_servers: none; max_turns: 10
│     no tools
├─ both  [parallel]
│  │  max_concurrency: 2
│  ├─ left  [llm]  offline:rules
│  │     tools: a_*, b; timeout: 30 s; max_turns: 10
│  │     destructive tools ask, unannotated tools run
│  │     node "left" approval.rules[0] (tool: a_x): ask
│  │     an approval without an answer for 3600 s fails the run
│  └─ again  [loop]
│     │  max_iterations: 10
│     └─ worker  [llm]  offline:rules
│           max_turns: 10; can_exit_loop: yes
│           destructive tools run (approval.in_parallel: run and approval.in_loop: run), unannotated tools run
└─ pick  [router]
   │  when analysis equals "x" and user_message equals "y": ok
   └─ ok  [approval]
         asks a person
"""


def tree(*words: str | Path) -> int:
    return main(["tree", *map(str, words)])


def test_a_tree_is_drawn_with_all_that_holds_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(FILE)
    assert tree("--config", path) == 0
    assert capsys.readouterr() == (PICTURE.format(file=path), "")


def test_an_agent_without_a_tree_is_one_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("approval: {unannotated: ask}\nprompt: '{x}'")
    assert tree("--config", path) == 0
    out, err = capsys.readouterr()
    assert out == (
        f"agent ({path})\n  servers: none\n\nagent  [llm]  google:gemini-2.5-flash\n   max_turns: 10\n"
        "   destructive tools ask, unannotated tools ask\n"
    )
    assert err.startswith("stopgo tree: warning: agent.prompt: {x} stays as it is")


def test_a_router_says_which_model_picks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(
        "agent: {type: router, name: r, prompt: p, agents: [{type: llm, name: a, model: 'openai:n'}]}"
    )
    assert tree("--config", path) == 0
    assert "r  [router]  google:gemini-2.5-flash\n└─ a  [llm]  openai:n\n" in capsys.readouterr().out


def test_the_default_is_the_shipped_agent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert tree() == 0
    assert "servers: resources" in capsys.readouterr().out


def test_a_file_that_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tree("--config", tmp_path / "no.yaml") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "there is no such file" in err


def test_dollars_are_no_seconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(
        "llm: {model: offline:rules}\n"
        "limits: {max_cost_usd: 0.5, conversation: {max_input_tokens: 10, max_cost_usd: 3}}\n"
        'agent: {type: approval, name: ok, message: "go?", approval: {on_expiry: fail}}\n'
    )
    assert tree("--config", file) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "  limits: max_cost_usd: 0.5; conversation: (max_input_tokens: 10; max_cost_usd: 3)",
        "",
        "ok  [approval]",
        "   asks a person",
    ]


# ------------------------------------------------------------------------ other agents

AGENTS = """
name: desk
llm: {model: offline:rules}
a2a:
  books: {url: "${BOOKS}/a2a", headers: {X-Key: "${KEY}"}, destructiveHint: true}
  gone: {url: "http://127.0.0.1:1"}
  wrong: {url: "http://127.0.0.1:99999"}
approval: {rules: [{name: careful, then: ask, server: "a2a:maps", arguments: {message: {matches: x}}}]}
agent:
  type: sequential
  name: root
  agents:
    - {type: llm, name: all, mcp_servers: []}
    - {type: llm, name: none, a2a: [], mcp_servers: []}
    - type: parallel
      name: both
      a2a: [gone, {name: maps, url: "${MAPS}"}]
      agents:
        - {type: llm, name: two}
        - {type: llm, name: one, tools: [a2a_maps]}
    - {type: a2a, name: ask-books, agent: books, output_key: found}
    - {type: a2a, name: silent, url: "${SILENT}", approval: {rules: [{then: deny, tool: a2a_silent}]}}
"""

WITH_AGENTS = """\
desk ({file})
  servers: none
  agents: books, gone, wrong, maps, silent
    books at ${{BOOKS}}/a2a{books}
    gone at http://127.0.0.1:1{gone}
    wrong at http://127.0.0.1:99999{wrong}
    maps at ${{MAPS}}{maps}
    silent at ${{SILENT}}{silent}
  approval.rules[0] "careful" (server: a2a:maps; arguments: message): ask

root  [sequential]
├─ all  [llm]  offline:rules
│     mcp_servers: none; max_turns: 10
│     no tools of servers
│     may delegate with a2a_books: ask (destructiveHint: true)
│     may delegate with a2a_gone: run (destructiveHint: false)
│     may delegate with a2a_wrong: run (destructiveHint: false)
├─ none  [llm]  offline:rules
│     mcp_servers: none; a2a: none; max_turns: 10
│     no tools
├─ both  [parallel]
│  │  a2a: gone, maps
│  ├─ two  [llm]  offline:rules
│  │     max_turns: 10
│  │     destructive tools run (approval.in_parallel: run), unannotated tools run
│  │     may delegate with a2a_gone: run (destructiveHint: false)
│  │     may delegate with a2a_maps: run (destructiveHint: false); {but}
│  └─ one  [llm]  offline:rules
│        tools: a2a_maps; max_turns: 10
│        destructive tools run (approval.in_parallel: run), unannotated tools run
│        may delegate with a2a_maps: run (destructiveHint: false); {but}
├─ ask-books  [a2a]
│     output_key: found
│     delegates to books: ask (destructiveHint: true)
└─ silent  [a2a]
      delegates to silent: deny (node "silent" approval.rules[0] (tool: a2a_silent): deny)
      node "silent" approval.rules[0] (tool: a2a_silent): deny
"""

BUT = "a rule about its message may decide otherwise"


def test_tree_shows_whether_agents_are_reached(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(AGENTS)
    monkeypatch.setenv("KEY", KEY)
    card = {"name": "b", "protocolVersion": "0.3.0", "url": "{here}/a2a", "preferredTransport": "HTTP+JSON"}
    elsewhere = {**card, "preferredTransport": "GRPC"}
    with (
        card_server({CARD: (200, card)}) as (books, seen),
        card_server({CARD: (200, elsewhere)}) as (maps, _),
    ):
        monkeypatch.setenv("BOOKS", books)
        monkeypatch.setenv("MAPS", maps)
        monkeypatch.setenv("SILENT", f"{maps}/without-a-card.json")
        monkeypatch.setattr(agent_contacts, "SECONDS", LIMIT)
        assert tree("--config", file) == 0
        assert [each["x-key"] for each in seen] == [KEY]
        assert capsys.readouterr().out == WITH_AGENTS.format(
            file=file,
            but=BUT,
            books=": reached, A2A 0.3 over HTTP+JSON",
            gone=": not reached: connection refused",
            wrong=": not reached: its address cannot be used: "
            "not a URL that begins with http:// or https:// and a host",
            maps=": not reached: it has no interface for JSON-RPC or HTTP+JSON in version 1.0 or 0.3",
            silent=": not reached: there is no card at its address",
        )
        assert tree("--config", file, "--offline") == 0
        assert len(seen) == 1
    nothing = dict.fromkeys(("books", "gone", "wrong", "maps", "silent"), "")
    assert capsys.readouterr().out == WITH_AGENTS.format(file=file, but=BUT, **nothing)


def test_tree_does_not_wait_for_a_silent_agent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_contacts, "SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        file = tmp_path / "agent.yaml"
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        file.write_text(f"llm: {{model: offline:rules}}\nagent: {{type: a2a, name: silent, url: '{url}'}}\n")
        assert tree("--config", file) == 0
    assert f"{url}: not reached: no answer in 0.1 s\n" in capsys.readouterr().out


def test_nothing_is_contacted_where_there_are_no_agents(tmp_path: Path) -> None:
    (tmp_path / "agent.yaml").write_text("llm: {model: offline:rules}")
    program = """
import sys
from stopgo.gateway.cli.main import main
assert main(["tree", "--config", "agent.yaml"]) == 0
assert not {"httpx2", "stopgo.gateway.cli.client.agent_contacts"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True)
