"""The page shows that the agent is halted, as soon as it is, and what that means for approvals."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.chains import eventually

from .browser import EXPECTED_OF_A_REFUSAL, Browser
from .steps import approve

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve

pytestmark = pytest.mark.page

BANNER = re.compile(r"The agent is halted: <b>wrong</b> database \(since")


def test_banner_of_a_halted_agent(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    server = serve(tmp_path / "data")
    server.ask_for("add lamp with value 3")
    tab = browser.open(server.run.url, "/#/inbox")
    tab.allow(EXPECTED_OF_A_REFUSAL)
    approve(tab).see()
    assert tab.text(BANNER).count == 0

    server.post("/halt", {"reason": "<b>wrong</b> database"})
    tab.text(BANNER).see()
    approve(tab).click()
    tab.main.text(re.compile("Reject it, or decide after the halt")).see()
    assert server.resources() == {}

    other = browser.open(server.run.url)  # a page that is opened during the halt
    other.text(BANNER).see()
    server.post("/unhalt")
    for each in (tab, other):
        each.text(BANNER).gone()
    approve(tab).click()
    approve(tab).gone()
    assert eventually(server.resources) == {("lamp", "3"): 1}
