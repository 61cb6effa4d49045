"""What models and tools say is text, whatever it looks like (FR-027)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .agents import hostile_agent
from .browser import Browser, Tab
from .steps import approve, say

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve

pytestmark = pytest.mark.page

BIDI = "\u202e"
HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)> [press](javascript:alert(3)) "
    "![see](http://192.0.2.1/pixel.png) <a href='javascript:alert(4)'>anchor</a> "
    "[data](data:text/html,<script>alert(5)</script>) <svg onload=alert(6)> "
    f"<style>body{{display:none}}</style> report{BIDI}fdp.exe"
)
MADE = """(() => {
  const bad = ({ name, value }) => name.startsWith("on") || /^\\s*(javascript|data):/i.test(value);
  const kind = /^(script|img|iframe|object|embed|style)$/i;
  return [...document.querySelectorAll("*")]
    .filter((e) => !e.matches("script[src='/page/main.js']"))
    .filter((e) => [...e.attributes].some(bad) || kind.test(e.localName))
    .map((e) => e.outerHTML.slice(0, 200));
})()"""
"""Elements that no text should have become."""


def stays_text(tab: Tab) -> None:
    assert tab.order("measure", MADE) == []
    assert tab.address.startswith("/#/")


def test_hostile_texts_stay_texts(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    server = serve(
        tmp_path / "data", config=hostile_agent(tmp_path, HOSTILE), env={"LEDGER": str(tmp_path / "l")}
    )
    tab = browser.open(server.run.url)
    say(tab, HOSTILE)
    approve(tab).see()
    tab.main.text(re.compile(re.escape("<script>alert(1)</script>"))).see()
    stays_text(tab)
    # In what a person approves, nothing hides or reorders: the mark is spelt out.
    tab.main.text(re.compile(re.escape(r"report\u{202e}fdp.exe"))).see()

    uuid = server.get("/approvals")["approvals"][0]["uuid"]
    inbox = browser.open(server.run.url, f"/#/approvals/{uuid}")
    approve(inbox).see()
    inbox.main.text(re.compile(re.escape(r"report\u{202e}fdp.exe"))).see()
    assert BIDI not in inbox.main.content
    stays_text(inbox)

    approve(tab).click()
    tab.main.text(re.compile("After: ")).see()
    stays_text(tab)
    assert tab.role("link", re.compile("^(press|anchor|data|see)$")).count == 0
    for name in ("Events", "State", "Usage", "Timeline"):
        tab.main.role("tab", re.compile(f"^{name}")).click()
        stays_text(tab)

    agent = browser.open(server.run.url, "/#/agent")
    agent.main.text(re.compile("wipe")).see()
    stays_text(agent)
    tab.becomes_titled("hostile|script")
