"""The driver with which users crash their own agents at every step."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from stopgo import CrashReport, StartError, ToolStub, crash_at_every_step, load_config
from stopgo.actors.tools.tool import Hints

SCRIPT = """\
replies:
  - when: {node: look, call: 1}
    tool_calls: [{name: read, arguments: {name: lamp}}]
  - when: {node: look}
    text: seen
  - when: {node: act, call: 1}
    tool_calls:
      - {name: wipe, arguments: {name: lamp}}
      - {name: post, arguments: {name: lamp}}
      - {name: bump, arguments: {name: lamp}}
  - when: {node: act, last_tool: bump, tool_result: 'wiped (?P<what>\\w+)'}
    text: 'wiped ${what}'
  - when: {node: act}
    text: gave up
"""
AGENT = """\
llm: {model: anthropic:some-model}
mcp_servers: {things: {command: none}}
agent:
  type: sequential
  name: root
  agents:
    - {type: llm, name: look, prompt: Look.}
    - {type: llm, name: act, prompt: Act.}
"""


def stubs(**changes: Any) -> dict[str, Sequence[ToolStub]]:
    tools = {
        "read": ToolStub("read", read_only=True),
        "wipe": ToolStub("wipe", lambda arguments: f"wiped {arguments['name']}", destructive=True),
        "post": ToolStub("post", destructive=False),
        "bump": ToolStub("bump", idempotent=True, destructive=False),
    }
    return {"things": tuple({**tools, **changes}.values())}


def crash(
    tmp_path: Path, tools: Mapping[str, Sequence[ToolStub]], messages: Sequence[str] = ("go",), **more: Any
) -> CrashReport:
    path = tmp_path / "agent.yaml"
    path.write_text(AGENT + more.pop("rules", ""), encoding="utf-8")
    return crash_at_every_step(load_config(path), SCRIPT, messages, tools=tools, **more)


@pytest.mark.parametrize("kind", [str, Path])
def test_script_is_read_from_str_and_path(tmp_path: Path, kind: type) -> None:
    (tmp_path / "agent.yaml").write_text("llm: {model: openai:some-model}\n", encoding="utf-8")
    (tmp_path / "replies.yaml").write_text("replies: [{text: hello}]\n", encoding="utf-8")
    config = load_config(kind(tmp_path / "agent.yaml"))
    report = crash_at_every_step(config, kind(tmp_path / "replies.yaml"), ["hi"], tools={})
    assert report.conversation.turns[-1].answer == "hello"


@pytest.mark.parametrize(("script", "said"), [("nowhere.yaml", "nowhere.yaml"), ("replies: 7", "replies")])
def test_missing_or_invalid_script_is_a_start_error(tmp_path: Path, script: str, said: str) -> None:
    (tmp_path / "agent.yaml").write_text("llm: {model: openai:some-model}\n", encoding="utf-8")
    with pytest.raises(StartError, match=said):
        crash_at_every_step(load_config(tmp_path / "agent.yaml"), script, ["hi"], tools={})


ASK_ALL = "approval: {rules: [{tool: post, then: ask}]}\n"


def test_a_conversation_survives_a_crash_at_every_write(tmp_path: Path) -> None:
    tools = stubs()
    report = crash(tmp_path, tools, ("go", "again"), rules=ASK_ALL)
    assert [turn.answer for turn in report.conversation.turns] == ["wiped lamp"] * 2
    # There are at least three writes to each of the eight calls, and each is a crash point twice.
    assert len(report.crashes) == len(set(report.crashes)) > 2 * 3 * 8
    assert any(re.fullmatch(r"before write \d+, save of .*tool\.started.*", each) for each in report.crashes)
    assert report.lost == ()
    assert {stub.name: len(stub.calls) for stub in tools["things"]} == dict.fromkeys(
        ("read", "wipe", "post", "bump"), 2
    )


def test_lost_call_without_approval_is_reported(tmp_path: Path) -> None:
    report = crash(tmp_path, stubs())
    assert report.lost
    assert set(report.lost) < set(report.crashes)


def test_conversation_with_a_rejection_survives_crashes(tmp_path: Path) -> None:
    tools = stubs()
    report = crash(tmp_path, tools, decide=lambda approval: {"approved": False})
    assert [turn.answer for turn in report.conversation.turns] == ["Operation cancelled by user"]
    assert tools["things"][1].calls == []


def test_outcome_that_depends_on_the_crash_is_found(tmp_path: Path) -> None:
    numbers = itertools.count()
    with pytest.raises(AssertionError, match="the outcome differs") as caught:
        crash(tmp_path, stubs(read=ToolStub("read", lambda _: f"{next(numbers)}", read_only=True)))
    [note] = caught.value.__notes__
    assert re.match(r"after a crash before write \d+, \w+", note)


def test_repeated_destructive_call_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Hints, "effect", property(lambda hints: "read"))  # whatever is lost is sent again
    tools = stubs(post=ToolStub("post", read_only=True))
    with pytest.raises(AssertionError, match=r"wipe ran more often than without a crash: .*lamp"):
        crash(tmp_path, tools)


@pytest.mark.parametrize(
    ("tools", "agents", "said"),
    [
        ({}, "", 'server "things" has no stubs'),
        (stubs() | {"thing": ()}, "", 'stubs for "thing", which is not a server'),
        (stubs(), "a2a: {other: {url: 'http://127.0.0.1:1'}}\n", r"other agents \(other\)"),
    ],
)
def test_stubs_must_match_the_servers(
    tmp_path: Path, tools: Mapping[str, Sequence[ToolStub]], agents: str, said: str
) -> None:
    with pytest.raises(StartError, match=said):
        crash(tmp_path, tools, rules=agents)
