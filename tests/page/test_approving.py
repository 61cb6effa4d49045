"""From the first visit to a call that was approved, changed or rejected (FR-027)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.chains import done, echo_server, eventually, written
from tests.expiring import EXPIRING, expire_all

from .agents import keeper, known_as
from .browser import EXPECTED_OF_A_REFUSAL, Browser, Tab
from .cutting_proxy import cutting_proxy
from .steps import approve, conversation_of, message_box, say, tab_to

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve, Server

pytestmark = pytest.mark.page

BIG = 9007199254740993
"""2^53 + 1: what JavaScript cannot count to."""


@pytest.fixture
def server(serve: Serve, tmp_path: Path) -> Server:
    """The agent that comes with the package."""
    return serve(tmp_path / "data")


def decision_of(server: Server, uuid: str) -> dict[str, Any]:
    def decided() -> Any:
        return server.get(f"/approvals/{uuid}")["approval"].get("decision")

    found: dict[str, Any] = eventually(decided)
    return found


def asked(server: Server, browser: Browser, message: str) -> tuple[str, Tab]:
    """An approval that waits, and the tab that shows its conversation."""
    uuid = server.ask_for(message)
    id = server.get(f"/approvals/{uuid}")["approval"]["conversation_id"]
    tab = browser.open(server.run.url, f"/#/conversations/{id}")
    approve(tab).see()
    return uuid, tab


def test_from_the_first_visit_to_an_approved_call(server: Server, browser: Browser) -> None:
    tab = browser.open(server.run.url)
    tab.role("heading", re.compile("resource-manager")).see()
    say(tab, "add lamp with value 3")

    approve(tab).see()
    tab.main.role("heading", re.compile("resources_add")).see()
    tab.becomes_titled(r"^\(1\)")
    assert server.resources() == {}
    approve(tab).click()

    tab.main.text(re.compile("Added lamp = 3")).see()
    approve(tab).gone()
    tab.becomes_titled(r"^(?!\()")
    assert server.resources() == {("lamp", "3"): 1}
    [conversation] = server.get("/conversations")["conversations"]
    assert conversation["id"] == conversation_of(tab)
    [approval] = conversation["approvals"]
    assert "arguments" not in approval["decision"], "what was not changed is not sent"
    tab.link(re.compile("add lamp with value 3")).see()


def test_the_address_of_a_conversation_leads_back_to_it(server: Server, browser: Browser) -> None:
    tab = browser.open(server.run.url)
    say(tab, "list all resources")
    tab.main.text("No resources.").see()
    again = browser.open(server.run.url, tab.address)
    again.main.text("No resources.").see()
    again.reload()
    again.main.text("No resources.").see()
    say(again, "add chair with value 4")
    approve(tab).see()
    assert approve(again).see().count == 1


def test_a_first_message_is_sent_though_its_reader_leaves(server: Server, browser: Browser) -> None:
    tab = browser.open(server.run.url)
    message_box(tab).fill("list all resources")
    tab.order("measure", "document.querySelector('main form').requestSubmit(); location.hash = '#/inbox'")
    eventually(lambda: any(each["title"] for each in server.get("/conversations")["conversations"]))
    assert tab.address.endswith("#/inbox")


def test_a_step_of_an_earlier_turn_names_its_turn(server: Server, browser: Browser) -> None:
    tab = browser.open(server.run.url)
    say(tab, "list all resources")
    tab.main.text("No resources.").see()
    say(tab, "list all resources")
    turns = tab.main.role("combobox", "Turn")
    turns.see().becomes(lambda where: where.value, "")
    tab.main.button(re.compile("resources_list")).first.click()
    turns.becomes(lambda where: where.value, "1")


@pytest.mark.parametrize("keys", [True, False], ids=["keys", "Tab alone"])
def test_with_the_keyboard_only(server: Server, browser: Browser, keys: bool) -> None:
    tab = browser.open(server.run.url)
    message_box(tab).see()
    tab_to(tab, message_box(tab))
    tab.type("add lamp with value 3")
    tab.press("Enter")
    approve(tab).see()
    if keys:
        # No key acts while a text field has the focus.
        tab_to(tab, message_box(tab))
        tab.press("a")
        assert message_box(tab).has_focus
        tab.press("Escape", "a")
        approve(tab).becomes(lambda where: where.has_focus, True)
        assert server.resources() == {}, "a single key must not decide"
    else:
        tab_to(tab, approve(tab))
    tab.press("Enter")
    tab.main.text(re.compile("Added lamp = 3")).see()
    assert server.resources() == {("lamp", "3"): 1}
    # The focus is not lost with the button that had it: the next Tab does not begin at the top.
    assert tab.focused() != "body"


def test_a_number_beyond_javascript_survives_a_change_beside_it(server: Server, browser: Browser) -> None:
    uuid, tab = asked(server, browser, f"add lamp with value {BIG}")
    tab.main.text(str(BIG)).see()
    tab.main.button("Approve with changes").click()
    tab.main.label("name").fill("table")
    tab.main.button("Send approval").click()

    tab.main.text(re.compile(f"Added table = {BIG}")).see()
    assert server.resources() == {("table", str(BIG)): 1}
    assert decision_of(server, uuid)["arguments"] == {"name": "table", "value": BIG}


def test_a_change_that_does_not_fit_is_refused_and_can_be_mended(server: Server, browser: Browser) -> None:
    uuid, tab = asked(server, browser, "add lamp with value 3")
    tab.allow(EXPECTED_OF_A_REFUSAL)
    tab.main.button("Approve with changes").click()
    tab.main.label("value").fill("many")
    tab.main.button("Send approval").click()
    tab.main.label("value").becomes(lambda field: field.attribute("aria-invalid"), "true")
    tab.main.label("value").fill("4")
    tab.main.button("Edit as JSON").click()
    tab.main.label("Arguments as JSON").fill('{"name": 5}')
    tab.main.button("Send approval").click()
    tab.main.text(re.compile("value.*required")).see()
    assert server.get(f"/approvals/{uuid}")["approval"]["state"] == "pending"
    tab.main.label("Arguments as JSON").fill('{"name": "shelf", "value": 4}')
    tab.main.button("Send approval").click()
    tab.main.text(re.compile("Added shelf = 4")).see()


@pytest.mark.parametrize("key", [False, True], ids=["Cancel", "Escape"])
def test_changes_can_be_given_up(server: Server, browser: Browser, key: bool) -> None:
    uuid, tab = asked(server, browser, "add lamp with value 3")
    tab.main.button("Approve with changes").click()
    tab.main.label("name").fill("table")
    if key:
        tab.press("Escape")
    else:
        tab.main.button("Cancel").click()
    approve(tab).click()
    tab.main.text(re.compile("Added lamp = 3")).see()
    assert "arguments" not in decision_of(server, uuid)


def test_one_that_expires_while_it_is_changed(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"approval": {"expires_after": 3600}}
    config = keeper(tmp_path / "agent", **settings)
    server = serve(tmp_path / "data", config=config, program=EXPIRING)
    tab = browser.open(server.run.url)
    say(tab, "add lamp with value 3")
    tab.main.button("Approve with changes").click()
    tab.main.label("name").fill("table")
    expire_all(server.data_dir)
    tab.main.text(re.compile("Expired: no decision was made in time")).see()
    tab.main.button("Send approval").gone()
    assert re.match("h2 resources_add", tab.focused())


def test_a_no_with_a_reason(server: Server, browser: Browser) -> None:
    uuid, tab = asked(server, browser, "add lamp with value 3")
    tab.main.button("Reject").click()
    tab.main.label(re.compile("^Reason")).fill("not on Fridays")
    tab.main.button("Send rejection").click()
    tab.main.text(re.compile("not on Fridays")).see()
    decision = decision_of(server, uuid)
    assert (decision["approved"], decision["reason"]) == (False, "not on Fridays")
    approve(tab).gone()
    assert server.resources() == {}


def test_tabs_agree(server: Server, browser: Browser) -> None:
    uuid, tab = asked(server, browser, "add lamp with value 3")
    other = browser.open(server.run.url, f"/#/approvals/{uuid}", beside=tab)
    approve(other).see()
    approve(tab).click()
    approve(other).gone()
    other.main.text(re.compile("approved", re.I)).see()
    tab.main.text(re.compile("Added lamp = 3")).see()
    assert server.resources() == {("lamp", "3"): 1}


@pytest.mark.parametrize("second", ["Approve", "Reject"])
def test_of_two_who_decide_at_once_the_second_hears_who_was_first(
    serve: Serve, browser: Browser, tmp_path: Path, second: str
) -> None:
    with cutting_proxy() as proxy:
        server = serve(tmp_path / "data", config=keeper(tmp_path / "agent", **known_as(proxy.url)))
        proxy.stand_before(server.run.url)
        uuid, tab = asked(server, browser, "add lamp with value 3")
        late = browser.open(proxy.url, f"/#/approvals/{uuid}")
        late.allow(EXPECTED_OF_A_REFUSAL)
        approve(late).see()
        proxy.hold()  # so the late one has not heard yet
        tab.main.label("Decide as").fill("Maria")
        approve(tab).click()
        decision_of(server, uuid)
        late.main.button(second).click()
        if second == "Reject":
            late.main.label(re.compile("^Reason")).fill("not on Fridays")
            late.main.button("Send rejection").click()
        proxy.release()
        late.main.text(re.compile("Maria.*(first|already|before)|(first|already|before).*Maria", re.S)).see()
        assert late.main.text("not on Fridays", exact=True).count == (second == "Reject")
        approve(late).gone()
        late.close_now()
        tab.main.text(re.compile("Added lamp = 3")).see()
        assert server.resources() == {("lamp", "3"): 1}
        assert decision_of(server, uuid)["approved"] is True


@pytest.mark.parametrize("button", ["Reject", "Approve with changes"])
def test_what_was_typed_is_kept_if_somebody_else_decides_first(
    server: Server, browser: Browser, button: str
) -> None:
    uuid, tab = asked(server, browser, "add lamp with value 3")
    tab.main.button(button).click()
    if button == "Reject":
        tab.main.label(re.compile("^Reason")).fill("not on Fridays")
    else:
        tab.main.label("name").fill("not on Fridays")
    edits = {"name": "lamp", "value": 4}
    server.post(f"/approvals/{uuid}", {"approved": True, "arguments": edits, "decided_by": "Maria"})
    tab.main.text(re.compile("Approved with 1 change by Maria")).see()
    tab.main.text(re.compile("What you had typed, which was not used")).see()
    tab.main.text(re.compile("not on Fridays")).see()
    tab.main.button("Send rejection").gone()


def test_nothing_is_kept_of_what_was_sent(server: Server, browser: Browser) -> None:
    _, tab = asked(server, browser, "add lamp with value 3")
    tab.main.button("Reject").click()
    tab.main.label(re.compile("^Reason")).fill("not on Fridays")
    tab.main.button("Send rejection").click()
    tab.main.text(re.compile("not on Fridays")).see()
    assert tab.main.text(re.compile("What you had typed")).count == 0


def test_the_second_click_of_a_double_click_decides_nothing(
    serve: Serve, browser: Browser, tmp_path: Path
) -> None:
    """It may hit the card that has moved to where the first one was."""
    calls = [{"name": "wipe", "arguments": {"text": name}} for name in ("shelf", "house")]
    replies: list[dict[str, Any]] = [{"when": {"call": 1}, "tool_calls": calls}, {"text": "done"}]
    config = {"llm": {"model": "script:replies.yaml"}, "mcp_servers": [echo_server("e")]}
    ledger = tmp_path / "ledger"
    server = serve(
        tmp_path / "data", config=written(tmp_path / "a", config, replies), env={"LEDGER": str(ledger)}
    )
    tab = browser.open(server.run.url)
    say(tab, "go")
    approve(tab).counts(2)
    approve(tab).first.click()
    approve(tab).counts(1)
    approve(tab).do("hover")
    for order in ("down", "up"):
        tab.call(("mouse",), (order, {"clickCount": 2}))
    eventually(lambda: done(ledger) == ["wipe shelf"])
    tab.main.button("Reject").do("dblclick")
    tab.main.button("Send rejection").see()
    assert len(server.get("/approvals")["approvals"]) == 1
    tab.main.button("Cancel").click()
    approve(tab).click()
    eventually(lambda: done(ledger) == ["wipe shelf", "wipe house"])
