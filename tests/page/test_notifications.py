"""Browser notifications of approvals, for people who asked for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .browser import Browser
from .steps import approve

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve

pytestmark = pytest.mark.page

ELSEWHERE = """() => {
  document.hasFocus = () => false;
  window.notes = [];
  window.Notification = class extends Notification {
    constructor(title, options) {
      super(title, options);
      notes.push(this);
    }
  };
}"""
"""The person looks at something else; what is shown there is kept."""


def test_a_notification_leads_to_its_approval(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    server = serve(tmp_path / "data")
    tab = browser.open(server.run.url, "/page/icon.svg", permissions=["notifications"])
    tab.call(("addInitScript", {"function": ELSEWHERE}))
    tab.go("/#/agent")
    bell = tab.button("Notify me of new approvals")
    server.ask_for("add lamp with value 1")
    tab.becomes_titled(r"^\(1\)")
    bell.click()
    bell.becomes(lambda where: where.attribute("aria-pressed"), "true")

    def titles() -> Any:
        return tab.order("measure", "notes.map(({ title }) => title)")

    uuid = server.ask_for("add lamp with value 2")
    tab.settles(titles, bool, "a notification")
    server.ask_for("remove lamp")
    wanted = ["resources_add waits for you", "resources_remove waits for you"]
    tab.settles(titles, lambda found: found == wanted, f"only of what came after the wish: {wanted}")
    tab.order("measure", "notes[0].onclick()")
    approve(tab).see()
    assert tab.address == f"/#/approvals/{uuid}"
    tab.reload()
    bell.becomes(lambda where: where.attribute("aria-pressed"), "true")
