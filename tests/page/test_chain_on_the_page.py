"""TS-021 as meant: from the page to agent A to agent B, whose question is answered on the page. And the
same through `stopgo web`, a page for an agent elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.chains import Chain, decide, echo_server, start_chain, written
from tests.e2e.conftest import TESTDATA, StopgoProcess, clean_environment
from tests.forks import forks

from .browser import Browser
from .steps import approve, say

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve

pytestmark = pytest.mark.page

FILES = [TESTDATA / "e2e-chain-a.yaml", TESTDATA / "e2e-chain-b.yaml"]


@pytest.fixture(scope="module")
def chain(serve_once: Serve, tmp_path_factory: pytest.TempPathFactory) -> Chain:
    return start_chain(serve_once, tmp_path_factory.mktemp("chain"), FILES, {})


@pytest.fixture(scope="module")
def web(chain: Chain, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a page for the first agent that this agent does not serve itself."""
    folder = tmp_path_factory.mktemp("web")
    config = folder / "web.yaml"
    config.write_text(json.dumps({"agent_url": chain.first.run.url}))
    arguments = ["web", "--config", str(config), "--port", "0"]
    run = StopgoProcess(forks().start(*arguments, cwd=folder, env=clean_environment()))
    try:
        yield run.url
        run.interrupt()
    finally:
        run.close()


@pytest.mark.parametrize("served_by", ["the agent", "stopgo web"])
@pytest.mark.parametrize("button", ["Approve", "Reject", "Approve with changes"])
def test_ts_021_a_question_of_the_second_agent_is_answered_on_the_page(
    chain: Chain, browser: Browser, request: pytest.FixtureRequest, served_by: str, button: str
) -> None:
    home = chain.first.run.url if served_by == "the agent" else request.getfixturevalue("web")
    before = chain.last.resources()
    tab = browser.open(home)
    tab.role("heading", re.compile("chain-a")).see()
    say(tab, "add resource lamp with value 99")

    approve(tab).see()
    tab.main.text(re.compile("delegator")).see()
    assert chain.last.resources() == before
    tab.main.button(button).click()
    if button == "Reject":
        tab.main.label(re.compile("^Reason")).fill("not on Fridays")
        tab.main.button("Send rejection").click()
        tab.main.text(re.compile("cancelled by user")).see()
        added = {}
    elif button == "Approve":
        tab.main.text(re.compile("Added lamp = 99")).see()
        added = {("lamp", "99"): 1}
    else:
        tab.main.label("name").fill("table")
        tab.main.button("Send approval").click()
        tab.main.text(re.compile("Added table = 99")).see()
        added = {("table", "99"): 1}
    assert chain.last.resources() - before == added
    assert chain.first.get("/approvals")["approvals"] == []


def test_the_inbox_of_a_page_elsewhere_follows(chain: Chain, browser: Browser, web: str) -> None:
    tab = browser.open(web, "/#/inbox")
    turn = chain.first.post("/conversations", {"message": "add resource shelf with value 7"}, status=201)
    tab.main.role("heading", re.compile("resources_add")).see()
    tab.becomes_titled(r"^\(1\)")
    decide(chain.first, turn["result"]["approval"], approved=False)
    tab.becomes_titled(r"^(?!\()")


def test_a_question_that_is_not_shown_whole_cannot_be_approved(
    serve: Serve, browser: Browser, tmp_path: Path
) -> None:
    calls = [{"name": "wipe", "arguments": {"text": "safe " * 14_000 + "and rm -rf /"}}]
    replies: list[dict[str, Any]] = [{"when": {"call": 1}, "tool_calls": calls}, {"text": "done"}]
    config = {"llm": {"model": "script:replies.yaml"}, "mcp_servers": [echo_server("e")]}
    ledger = tmp_path / "ledger"
    files = [FILES[0], written(tmp_path / "b", config, replies)]
    long = start_chain(serve, tmp_path, files, {"LEDGER": str(ledger)})
    tab = browser.open(long.first.run.url)
    say(tab, "wipe it")
    tab.main.text(re.compile(r"This cannot be approved: it cannot be shown whole \(arguments\)")).see()
    assert tab.main.text(re.compile("without arguments", re.I)).count == 0
    assert not approve(tab).is_enabled
    assert not tab.main.button("Approve with changes").is_enabled
    tab.main.button("Reject").click()
    tab.main.button("Send rejection").click()
    tab.main.text(re.compile("cancelled by user")).see()
    assert not ledger.exists()
