"""axe-core finds nothing serious on any view, light or dark, wide or narrow (FR-027)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest

from .browser import Browser, Tab
from .steps import approve, message_box

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve, Server

pytestmark = pytest.mark.page

SERIOUS = {"serious", "critical"}
WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 844}


@attrs.frozen
class Shown:
    server: Server
    asked: str
    """The approval that waits."""
    waiting: str
    """Its conversation."""
    done: str
    """A conversation with a call that was approved."""


@pytest.fixture(scope="module")
def shown(serve_once: Serve, tmp_path_factory: pytest.TempPathFactory) -> Shown:
    server = serve_once(tmp_path_factory.mktemp("seen"))
    done = server.ask_for("add lamp with value 3")
    turn = server.post(f"/approvals/{done}", {"approved": True, "decided_by": "Maria"})
    rejected = server.ask_for("add sofa with value 3")
    server.post(f"/approvals/{rejected}", {"approved": False, "reason": "no room"})
    asked = server.ask_for("add chair with value 4")
    server.ask_for("add table with value 5")
    waiting = server.get(f"/approvals/{asked}")["approval"]["conversation_id"]
    return Shown(server, asked, waiting, turn["conversation"]["id"])


def first_visit(tab: Tab, shown: Shown) -> None:
    message_box(tab).see()


def waiting(tab: Tab, shown: Shown) -> None:
    tab.go(f"/#/conversations/{shown.waiting}")
    approve(tab).see()


def editing(tab: Tab, shown: Shown) -> None:
    waiting(tab, shown)
    tab.main.button("Approve with changes").click()
    tab.main.button("Send approval").see()


def rejecting(tab: Tab, shown: Shown) -> None:
    waiting(tab, shown)
    tab.main.button("Reject").click()
    tab.main.button("Send rejection").see()


def done(tab: Tab, shown: Shown) -> None:
    tab.go(f"/#/conversations/{shown.done}")
    tab.main.text(re.compile("Added lamp")).see()


def panel(name: str) -> Callable[[Tab, Shown], None]:
    def see(tab: Tab, shown: Shown) -> None:
        done(tab, shown)
        tab.main.role("tab", re.compile(f"^{name}")).click()
        tab.main.role("tabpanel").see()

    return see


def inbox(tab: Tab, shown: Shown) -> None:
    tab.go("/#/inbox")
    tab.main.role("checkbox", re.compile("resources_add")).see()


def decided(tab: Tab, shown: Shown) -> None:
    tab.go("/#/inbox?state=decided")
    tab.main.text(re.compile("rejected", re.I)).see()


def approval(tab: Tab, shown: Shown) -> None:
    tab.go(f"/#/approvals/{shown.asked}")
    approve(tab).see()


def agent(tab: Tab, shown: Shown) -> None:
    tab.go("/#/agent")
    tab.main.text(re.compile("resources_remove")).see()


def policy(tab: Tab, shown: Shown) -> None:
    tab.go("/#/agent/policy")
    tab.main.text("destructiveHint: true").see()


def reasons(tab: Tab, shown: Shown) -> None:
    approval(tab, shown)
    tab.main.text("Why it asks").click()
    tab.main.text(re.compile("would have run")).see()


VIEWS = {
    "first visit": first_visit,
    "waiting": waiting,
    "editing": editing,
    "rejecting": rejecting,
    "done": done,
    "timeline": panel("Timeline"),
    "events": panel("Events"),
    "state": panel("State"),
    "usage": panel("Usage"),
    "inbox": inbox,
    "decided": decided,
    "approval": approval,
    "agent": agent,
    "policy": policy,
    "reasons": reasons,
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_axe_finds_nothing_serious(
    browser: Browser, shown: Shown, view: Callable[[Tab, Shown], None], scheme: str
) -> None:
    tab = browser.open(shown.server.run.url, viewport=WIDE, colorScheme=scheme)
    view(tab, shown)
    assert violations(tab) == []


PHONE = ("first visit", "waiting", "inbox", "approval", "agent", "policy", "reasons")


@pytest.mark.parametrize("view", [VIEWS[name] for name in PHONE], ids=PHONE)
def test_on_a_phone(browser: Browser, shown: Shown, view: Callable[[Tab, Shown], None]) -> None:
    tab = browser.open(shown.server.run.url, viewport=NARROW, hasTouch=True)
    view(tab, shown)
    assert violations(tab) == []
    width = tab.order("measure", "document.documentElement.scrollWidth")
    assert width <= NARROW["width"], "nothing scrolls sideways"


def test_load_more_leads_on_to_what_it_loaded(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    server = serve(tmp_path / "data")
    for _ in range(35):
        server.new()
    tab = browser.open(server.run.url)
    tab.role("combobox", "Order of conversations").choose("Newest first")
    tab.button("Load more").press("Enter")
    rows = tab.role("navigation", "Conversations").role("link", re.compile("^Untitled"))
    rows.counts(35)
    rows.nth(30).becomes(lambda row: row.has_focus, True)
    tab.button("Load more").gone()


def violations(tab: Tab) -> list[str]:
    return [
        f"{each['id']} ({each['impact']}): {each['help']}: {each['nodes'][:3]}"
        for each in tab.order("axe")
        if each["impact"] in SERIOUS
    ]
