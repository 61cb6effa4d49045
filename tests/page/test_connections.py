"""Reloads, lost connections and restarts in the middle lose nothing and double nothing (FR-027)."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.e2e.chains import ended, eventually

from .agents import keeper, known_as
from .browser import EXPECTED_OF_A_LOST_SERVER, Browser, Tab
from .cutting_proxy import cutting_proxy
from .paused_model import paused_model
from .steps import approve, conversation_of, message_box, say

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve, Server

pytestmark = pytest.mark.page

FIRST, SECOND = "The light was green, ", "and so I went."
LOST = re.compile("connecting|no agent", re.I)


def shows_the_whole_story(tab: Tab, server: Server) -> None:
    """Its chat has everything once, and its events are those of the journal."""
    tab.main.text(FIRST + SECOND).see()
    assert tab.main.text(re.compile(re.escape(FIRST))).count == 1
    last = server.conversation(conversation_of(tab))["last_seq"]
    events = tab.main.role("tab", re.compile("^Events"))
    events.becomes(lambda where: re.sub(r"\D", "", where.content), str(last))


def test_a_reload_in_the_middle_of_a_reply(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    with paused_model(tmp_path, FIRST, SECOND) as model:
        server = serve(tmp_path / "data", config=model.config)
        tab = browser.open(server.run.url)
        say(tab, "tell me")
        tab.main.text(re.compile(re.escape(FIRST.strip()))).see()

        tab.reload()

        tab.main.text("tell me", exact=True).see()
        tab.main.button(re.compile("^Stop")).see()  # it says that the run goes on
        model.go_on()
        shows_the_whole_story(tab, server)
        assert tab.main.text("tell me", exact=True).count >= 1
        tab.reload()
        shows_the_whole_story(tab, server)


def test_a_connection_that_is_cut_in_the_middle(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    with cutting_proxy() as proxy:
        with paused_model(tmp_path, FIRST, SECOND, **known_as(proxy.url)) as model:
            server = serve(tmp_path / "data", config=model.config)
            proxy.stand_before(server.run.url)
            tab = browser.open(proxy.url)
            tab.allow(EXPECTED_OF_A_LOST_SERVER)
            say(tab, "tell me")
            tab.main.text(re.compile(re.escape(FIRST.strip()))).see()

            proxy.cut()
            tab.role("status").with_text(LOST).see()
            model.go_on()
            ended(server, conversation_of(tab))
            proxy.mend()

            shows_the_whole_story(tab, server)
            tab.role("status").with_text(LOST).gone()
            say(tab, "again")
            eventually(lambda: tab.main.text(FIRST + SECOND).count == 2)
            tab.close_now()


def test_a_question_outlives_the_server_and_is_answered_after(
    serve: Serve, browser: Browser, tmp_path: Path
) -> None:
    server = serve(tmp_path / "data")
    tab = browser.open(server.run.url)
    tab.allow(EXPECTED_OF_A_LOST_SERVER)
    say(tab, "add lamp with value 3")
    approve(tab).see()
    server.run.interrupt()
    tab.role("status").with_text(LOST).see()
    approve(tab).see()

    server = serve(tmp_path / "data", port=urlsplit(server.run.url).port)

    tab.role("status").with_text(LOST).gone()
    assert approve(tab).count == 1
    approve(tab).click()
    tab.main.text(re.compile("Added lamp = 3")).see()
    assert server.resources() == {("lamp", "3"): 1}


def test_a_decision_whose_answer_is_lost_counts_once(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    with cutting_proxy() as proxy:
        server = serve(tmp_path / "data", config=keeper(tmp_path / "agent", **known_as(proxy.url)))
        proxy.stand_before(server.run.url)
        uuid = server.ask_for("add lamp with value 3")
        tab = browser.open(proxy.url, f"/#/approvals/{uuid}")
        tab.allow(EXPECTED_OF_A_LOST_SERVER)
        approve(tab).see()
        proxy.hold()
        approve(tab).click()
        eventually(lambda: server.get(f"/approvals/{uuid}")["approval"]["state"] == "decided")
        proxy.cut()
        proxy.release()
        proxy.mend()
        tab.main.text(re.compile("approved", re.I)).see()
        assert tab.main.text(re.compile("was first|already", re.I)).count == 0, "its own decision came first"
        tab.close_now()
        eventually(lambda: server.resources() == {("lamp", "3"): 1})


def test_a_card_follows_what_was_decided_while_it_heard_nothing(
    serve: Serve, browser: Browser, tmp_path: Path
) -> None:
    with cutting_proxy() as proxy:
        server = serve(tmp_path / "data", config=keeper(tmp_path / "agent", **known_as(proxy.url)))
        proxy.stand_before(server.run.url)
        uuid = server.ask_for("add lamp with value 3")
        tab = browser.open(proxy.url, "/#/inbox")
        tab.allow(EXPECTED_OF_A_LOST_SERVER)
        approve(tab).see()
        proxy.cut()
        tab.role("status").with_text(LOST).see()
        server.post(f"/approvals/{uuid}", {"approved": True, "decided_by": "Maria"})
        proxy.mend()
        tab.main.text(re.compile("Approved by Maria")).see()
        approve(tab).gone()
        tab.close_now()


def test_an_older_copy_of_the_data_and_none_at_all(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    server = serve(data)
    port = urlsplit(server.run.url).port
    uuid = server.ask_for("add lamp with value 3")
    conversation = server.get(f"/approvals/{uuid}")["approval"]["conversation_id"]
    server.run.interrupt()
    shutil.copytree(data, copy)
    server = serve(data, port=port)
    later = server.ask_for("add chair with value 4")
    chat = browser.open(server.run.url, f"/#/conversations/{conversation}")
    card = browser.open(server.run.url, f"/#/approvals/{uuid}")
    newer = browser.open(server.run.url, f"/#/approvals/{later}")
    for tab in (chat, card, newer):
        tab.allow(EXPECTED_OF_A_LOST_SERVER, r"console: .*(status of 404|Unexpected response code: 40[04])")
        approve(tab).see()
    approve(card).click()
    chat.main.text("Added lamp = 3").see()

    server.run.interrupt()
    shutil.rmtree(data)
    shutil.copytree(copy, data)
    server = serve(data, port=port)

    for tab in (chat, card):
        approve(tab).see()
        tab.becomes_titled(r"^\(1\)")
    chat.main.text("Added lamp = 3").gone()
    newer.main.text("There is no such approval").see()
    approve(newer).gone()

    server.run.interrupt()
    shutil.rmtree(data)
    server = serve(data, port=port)

    chat.main.text("Nothing of it is kept.").see()
    card.main.text("There is no such approval").see()
    for tab in (chat, card, newer):
        tab.becomes_titled(r"^[^(]")
        tab.text("No conversations yet").see()
        tab.close_now()


def test_a_page_by_plain_http_from_another_machine(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    """There the browser withholds what it keeps for secure pages, such as `crypto.randomUUID`."""
    with cutting_proxy() as proxy:
        address = proxy.url.replace("127.0.0.1", "agent.test")
        settings = {"allowed_hosts": ["agent.test"], "allowed_origins": [address]}
        server = serve(tmp_path / "data", config=keeper(tmp_path / "agent", server=settings))
        proxy.stand_before(server.run.url)
        tab = browser.open(address)
        tab.allow(r"console: .*Cross-Origin-Opener-Policy header has been ignored")
        assert tab.order("measure", "isSecureContext") is False
        say(tab, "add lamp with value 3")
        approve(tab).click()
        tab.main.text("Added lamp = 3").see()
        tab.close_now()


LOST_THEN_REFUSED = """(() => {
  let requests = 0;
  return async (route) => {
    requests += 1;
    if (requests === 2) return route.fulfill({ status: 429, json: { code: "queue_full", error: "Wait." } });
    await route.fetch();
    await route.abort();
  };
})()"""
"""A message whose first answer is lost, and which is refused when it is repeated."""


def test_a_message_that_arrived_does_not_become_a_draft_again(
    serve: Serve, browser: Browser, tmp_path: Path
) -> None:
    server = serve(tmp_path / "data")
    id = server.new()
    tab = browser.open(server.run.url, f"/#/conversations/{id}")
    tab.allow(r"console: .*(ERR_FAILED|status of 429)")
    tab.call(("route", "**/messages", {"function": LOST_THEN_REFUSED}))
    say(tab, "list all resources")
    tab.main.text("No resources.").see()
    tab.main.text("list all resources", exact=True).becomes(lambda where: where.count >= 1, True)
    requests = (
        "performance.getEntriesByType('resource').filter(({ name }) => name.endsWith('/messages')).length"
    )
    tab.settles(lambda: tab.order("measure", requests), lambda found: found >= 2, "the refusal")
    assert message_box(tab).value == ""
    assert messages_of(server, id) == ["list all resources"]


SLOW_FIRST = """(() => {
  let requests = 0;
  return async (route) => {
    requests += 1;
    if (requests === 1) await new Promise((resolve) => setTimeout(resolve, 500));
    await route.continue();
  };
})()"""


def test_message_does_not_overtake_an_earlier_one(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    server = serve(tmp_path / "data")
    id = server.new()
    tab = browser.open(server.run.url, f"/#/conversations/{id}")
    tab.call(("route", "**/messages", {"function": SLOW_FIRST}))
    say(tab, "list all resources")
    say(tab, "hello")
    tab.main.text("hello", exact=True).see()
    tab.settles(lambda: messages_of(server, id), lambda found: len(found) == 2, "both messages")
    assert messages_of(server, id) == ["list all resources", "hello"]


def messages_of(server: Server, id: str) -> list[str]:
    return [each["content"] for each in server.conversation(id)["messages"] if each["role"] == "user"]
