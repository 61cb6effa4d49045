"""The inbox over hundreds of approvals: counts, filters, order, several of one tool at once (FR-027)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import pytest

from tests.e2e.chains import eventually, pending

from .browser import Browser, Tab, Where
from .steps import approve

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve, Server

pytestmark = pytest.mark.page

ADDS, REMOVES = 150, 50
"""More than one page of `GET /approvals` together."""


@attrs.frozen
class Full:
    server: Server
    tab: Tab

    @property
    def rows(self) -> Where:
        return self.tab.main.role("listitem").with_text(re.compile("resources_"))

    def counts(self, number: int) -> None:
        """So many fit the filters, and the list has them all for those who scroll down."""
        self.tab.main.role("region", "Approvals").text(re.compile(rf"^{number}( of \d+)?$")).see()

        def scrolled() -> int:
            self.rows.last.do("scrollIntoViewIfNeeded")
            return self.rows.count

        self.tab.settles(scrolled, lambda found: found == number, number)

    @property
    def pending(self) -> int:
        found: int = self.server.get("/conversations")["summary"]["waiting_approval"]
        return found

    def box(self, tool: str) -> Where:
        return self.tab.main.role("checkbox", re.compile(tool))


@pytest.fixture(scope="module")
def server(serve_once: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    server = serve_once(tmp_path_factory.mktemp("inbox"))
    for number in range(ADDS):
        server.ask_for(f"add lamp-{number} with value {number}")
        if number % (ADDS // REMOVES) == 0:
            server.ask_for(f"remove lamp-{number}")
    return server


@pytest.fixture
def full(server: Server, browser: Browser) -> Full:
    tab = browser.open(server.run.url, "/#/inbox")
    full = Full(server, tab)
    full.rows.see()
    return full


def test_it_shows_and_counts_all(full: Full) -> None:
    waiting = full.pending
    assert waiting >= 190
    full.tab.becomes_titled(rf"^\({waiting}\)")
    full.tab.link(re.compile(rf"^Inbox.*{waiting}", re.S)).see()
    full.counts(waiting)


def test_filters_and_their_address(full: Full) -> None:
    tool = full.tab.main.role("combobox", re.compile("tool", re.I))
    tool.choose("resources_remove")
    full.counts(REMOVES)
    assert "tool=resources_remove" in full.tab.address
    full.tab.reload()
    full.rows.see()
    full.counts(REMOVES)
    assert full.box("resources_add").count == 0


def test_the_newest_first(full: Full) -> None:
    full.rows.first.with_text("lamp-0").see()
    full.tab.main.role("combobox", re.compile("sort|order", re.I)).choose("Newest first")
    full.rows.first.with_text(f"lamp-{ADDS - 1}").see()
    assert "sort=newest" in full.tab.address


def test_several_of_one_tool_at_once_and_of_no_other(full: Full) -> None:
    before, waiting = full.server.resources(), full.pending
    for number in range(3):
        full.box("resources_add").nth(number).check()
    full.tab.main.button("Approve 3").see()
    other = full.box("resources_remove").first
    assert not other.is_enabled, "only of the same tool"
    full.tab.main.role("region", "Selected approval").text("lamp-0", exact=True).see()  # what differs

    full.tab.main.button("Approve 3").click()

    full.counts(waiting - 3)
    eventually(lambda: (full.server.resources() - before).total() == 3)
    full.tab.becomes_titled(rf"^\({waiting - 3}\)")


def test_one_has_an_address_and_the_list_goes_on_without_it(full: Full) -> None:
    asked = pending(full.server)[-1]
    waiting = full.pending
    full.tab.go(f"/#/approvals/{asked['uuid']}")
    approve(full.tab).see()
    full.tab.main.button("Reject").click()
    full.tab.main.button("Send rejection").click()
    full.tab.becomes_titled(rf"^\({waiting - 1}\)")
    full.tab.go("/#/inbox?state=decided")
    full.tab.main.text(re.compile("rejected", re.I)).see()


def test_what_was_decided_is_shown_as_it_ran(full: Full) -> None:
    uuid = full.server.ask_for("add divan with value 1")
    edits = {"name": "ottoman", "value": 1}
    full.server.post(f"/approvals/{uuid}", {"approved": True, "arguments": edits, "decided_by": "Maria"})
    full.tab.go("/#/inbox?state=decided")
    row = full.tab.main.role("listitem").with_text("ottoman")
    row.see()
    assert row.with_text("Approved with 1 change").count == 1
    assert full.tab.main.role("listitem").with_text("divan, value 1").count == 0
    full.tab.go(f"/#/approvals/{uuid}?state=decided")
    full.tab.main.text("Arguments that were approved").see()
    full.tab.main.role("group").text("ottoman", exact=True).see()
    full.tab.main.text("divan", exact=True).see()  # the change


def test_it_follows_what_others_ask_and_decide(full: Full) -> None:
    waiting = full.pending
    uuid = full.server.ask_for("add sofa with value 1")
    full.tab.becomes_titled(rf"^\({waiting + 1}\)")
    full.server.post(f"/approvals/{uuid}", {"approved": False})
    full.tab.becomes_titled(rf"^\({waiting}\)")


def test_keys_move_and_open(full: Full) -> None:
    full.tab.press("j", "j", "k", "Enter")
    approve(full.tab).see()
    full.tab.press("r")
    reject = full.tab.main.button("Reject")
    holds: Callable[[Where], bool] = lambda where: where.has_focus  # noqa: E731
    reject.becomes(holds, True)
    waiting = full.pending
    full.tab.press("Escape")
    assert full.pending == waiting
