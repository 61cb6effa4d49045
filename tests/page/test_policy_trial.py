"""The box of the view Policy that tries other rules on recorded calls."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .browser import Browser, Tab
from .test_hostile_texts import BIDI, HOSTILE, stays_text

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve

pytestmark = pytest.mark.page

LOOKS = ({"colorScheme": "light"}, {"viewport": {"width": 390, "height": 844}})


def try_rules(tab: Tab, rules: str) -> None:
    tab.main.role("textbox", re.compile("Rules to try")).fill(rules)
    tab.main.button("Try").click()


def test_policy_of_pasted_rules(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    server = serve(tmp_path / "data")
    server.post(f"/approvals/{server.ask_for('add lamp with value 3')}", {"approved": True})
    server.post(f"/approvals/{server.ask_for('add safe with value 3000')}", {"approved": False})
    for look in LOOKS:
        tab = browser.open(server.run.url, "/#/agent/policy", **look)
        try_rules(tab, "rules: [{tol: x}]")
        tab.main.text(re.compile("rules:1:10: .*unknown key")).see()
        try_rules(tab, f"rules: [{{tool: resources_*, then: run, name: {HOSTILE.replace(BIDI, '')!r}}}]")
        tab.main.text(re.compile("^2 calls judged")).see()
        tab.main.text("A person refused 1 call that would run", exact=True).see()
        tab.main.text(re.compile('"name":"safe"')).see()
        tab.main.text(re.compile(re.escape("<script>alert(1)"))).first.see()
        stays_text(tab)
        width = tab.order("measure", "document.documentElement.clientWidth")
        assert tab.order("measure", "document.documentElement.scrollWidth") <= width
        assert all("status of 422" in each for each in tab.close())
