"""Questions that are more than yes or no: nested arguments, forms, checkpoints, lost calls, tokens."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.actors.mcp.test_questions import asking_server
from tests.e2e.chains import SERVERS, TELL, calling, decide_and_leave, done, echo_server, eventually, written

from .agents import hostile_agent
from .browser import EXPECTED_OF_A_LOST_SERVER, Browser
from .shown_agent import ROLLOUT, release_manager
from .steps import approve, say

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve

pytestmark = pytest.mark.page

Json = dict[str, Any]


def only_approval(server: Any, **filters: str) -> Json:
    found: Json
    [found] = server.get("/approvals", **filters)["approvals"]
    return found


def test_nested_arguments_are_edited_in_a_form(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    config, env = release_manager(tmp_path / "agent")
    server = serve(tmp_path / "data", config=config, env=env)
    server.ask_for("Ship 2.14.0 to production")
    asked = only_approval(server)
    tab = browser.open(server.run.url, f"/#/approvals/{asked['uuid']}")
    tab.main.button("Approve with changes").click()
    tab.main.role("group", "strategy").label("pause_minutes").fill("30")
    tab.main.label("environment").choose("staging")
    tab.main.button("Send approval").click()
    approve(tab).gone()

    decided = eventually(lambda: server.get(f"/approvals/{asked['uuid']}")["approval"].get("decision"))
    assert decided["arguments"] == {
        **ROLLOUT,
        "environment": "staging",
        "strategy": {**ROLLOUT["strategy"], "pause_minutes": 30},
    }
    tab.main.text(re.compile("pause_minutes")).see()  # what was changed stays on record


def test_a_call_is_answered_with_a_text(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    config, env = release_manager(tmp_path / "agent")
    server = serve(tmp_path / "data", config=config, env=env)
    server.ask_for("Ship 2.14.0 to production")
    asked = only_approval(server)
    tab = browser.open(server.run.url, f"/#/approvals/{asked['uuid']}")
    tab.main.button("Answer").click()
    tab.main.button("Send answer").click()  # an empty one is not sent
    tab.main.label("Answer to the model").fill("use the staging cluster")
    tab.main.button("Send answer").click()
    approve(tab).gone()

    decided = eventually(lambda: server.get(f"/approvals/{asked['uuid']}")["approval"].get("decision"))
    assert (decided["action"], decided["result"]) == ("respond", "use the staging cluster")
    tab.main.text(re.compile("Answered")).see()


def test_untouched_values_go_back_byte_for_byte(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    odd = (
        '{"text":"x","id":9007199254740993,"ratio":1.0,"tiny":1e-7,"deep":{"list":[1.50,[],{}],"none":null}}'
    )
    reply = {"when": {"call": 1}, "tool_calls": [{"name": "wipe", "arguments": json.loads(odd)}]}
    ledger = tmp_path / "ledger"
    config = written(
        tmp_path / "agent",
        {"llm": {"model": "script:replies.yaml"}, "mcp_servers": [echo_server("e")]},
        [reply, TELL],
    )
    server = serve(tmp_path / "data", config=config, env={"LEDGER": str(ledger)})
    uuid = server.ask_for("go")
    [before] = re.findall(r'"tool_args":(\{.*?"none":null\}\})', server.client.get(f"/approvals/{uuid}").text)
    tab = browser.open(server.run.url, f"/#/approvals/{uuid}")
    tab.main.button("Approve with changes").click()
    tab.main.label("text").fill("y")
    tab.main.button("Send approval").click()
    approve(tab).gone()
    eventually(lambda: done(ledger) == ["wipe y"])
    [after] = re.findall(r'"arguments":(\{.*?"none":null\}\})', server.client.get(f"/approvals/{uuid}").text)
    assert after == before.replace('"text":"x"', '"text":"y"')


def test_a_form_of_a_tool_server(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    asker = {
        "name": "asker",
        "mode": "legacy",
        "command": sys.executable,
        "args": [str(SERVERS / "asking_server.py")],
    }
    config: Json = {"name": "asking", "llm": {"model": "script:replies.yaml"}, "mcp_servers": [asker]}
    server = serve(tmp_path / "data", config=written(tmp_path / "agent", config, [calling("ask"), TELL]))
    tab = browser.open(server.run.url)
    say(tab, "ask her")
    tab.main.text(re.compile(r"Who is her\?")).see()
    tab.main.label(re.compile("name", re.I)).first.fill("Ada")
    tab.main.label(re.compile("colour", re.I)).fill("red")
    tab.main.button("Answer").click()
    tab.main.text(re.compile("told: Ada likes red")).see()


def test_the_content_of_a_form_is_kept_if_somebody_else_answers_first(
    serve: Serve, browser: Browser, tmp_path: Path
) -> None:
    asker = {
        "name": "asker",
        "mode": "legacy",
        "command": sys.executable,
        "args": [str(SERVERS / "asking_server.py")],
    }
    config: Json = {"name": "asking", "llm": {"model": "script:replies.yaml"}, "mcp_servers": [asker]}
    server = serve(tmp_path / "data", config=written(tmp_path / "agent", config, [calling("ask"), TELL]))
    tab = browser.open(server.run.url)
    say(tab, "ask her")
    tab.main.label(re.compile("name", re.I)).first.fill("Ada")
    uuid = only_approval(server)["uuid"]
    server.post(f"/approvals/{uuid}", {"action": "decline", "decided_by": "Maria"})
    tab.main.text(re.compile("Declined by Maria")).see()
    tab.main.text(re.compile("What you had typed, which was not used")).see()
    tab.main.text(re.compile('"name": "Ada"')).see()


def test_a_checkpoint(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    agents = [{"type": "approval", "name": "gate", "message": "Go live?"}, {"type": "llm", "name": "worker"}]
    agent = {"type": "sequential", "name": "both", "agents": agents}
    config: Json = {"llm": {"model": "script:replies.yaml"}, "agent": agent}
    server = serve(tmp_path / "data", config=written(tmp_path / "agent", config, [{"text": "It is live."}]))
    tab = browser.open(server.run.url)
    say(tab, "release")
    tab.main.role("heading", re.compile(r"Go live\?")).see()
    assert tab.main.button("Approve with changes").count == 0
    approve(tab).click()
    tab.main.text("It is live.").see()


def test_an_unknown_outcome_explains_itself(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    env = {"LEDGER": str(ledger)}
    config = hostile_agent(tmp_path / "agent", "the shelf")
    slow = json.loads(config.read_text())
    slow["mcp_servers"] = [echo_server("echoes", DELAY="3600")]
    config.write_text(json.dumps(slow))
    server = serve(tmp_path / "data", config=config, env=env)
    server.ask_for("go")
    decide_and_leave(server, only_approval(server))
    eventually(lambda: done(ledger))
    server.run.kill()
    server = serve(tmp_path / "data", config=config, env=env)
    asked = eventually(lambda: server.get("/approvals", kind="outcome_unknown")["approvals"])[0]

    tab = browser.open(server.run.url, f"/#/approvals/{asked['uuid']}")
    tab.allow(EXPECTED_OF_A_LOST_SERVER)
    tab.main.text(re.compile("may or may not have happened")).see()
    tab.main.button("It is done").click()
    tab.main.label(re.compile("^Result")).fill("looked, it is wiped")
    tab.main.button("Send: it is done").click()
    decided = eventually(lambda: server.get(f"/approvals/{asked['uuid']}")["approval"].get("decision"))
    assert (decided["action"], decided["result"]) == ("done", "looked, it is wiped")
    assert len(done(ledger)) == 1, "it was not sent again"


def test_a_token_is_asked_for_and_kept_in_memory_only(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    secret = "good-0123456789"
    with asking_server("http", {**os.environ, "TOKENS": "+", "LEDGER": str(ledger)}) as url:
        guarded = {"name": "guarded", "url": url}
        config: Json = {"llm": {"model": "script:replies.yaml"}, "mcp_servers": [guarded]}
        server = serve(tmp_path / "data", config=written(tmp_path / "agent", config, [calling("look"), TELL]))
        tab = browser.open(server.run.url)
        say(tab, "look here")
        tab.main.label(re.compile("^Bearer token")).fill(secret)
        tab.main.button("Continue").click()
        tab.main.text("told: here").see()
        kept = tab.order(
            "measure", "JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])"
        )
        assert secret not in kept
        assert secret not in tab.main.content
        tab.close_now()
