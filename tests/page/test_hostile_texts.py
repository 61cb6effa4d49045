"""What models and tools say is text, whatever it looks like (FR-027)."""

from __future__ import annotations

import json
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
    .filter((e) => !e.matches("script[src='page/main.js']"))
    .filter((e) => [...e.attributes].some(bad) || kind.test(e.localName))
    .map((e) => e.outerHTML.slice(0, 200));
})()"""
"""Elements that no text should have become."""
SPOILT = """async (route) => {
  const text = %s;
  const named = (value) => typeof value === "string" ? value + text : value;
  const answer = await route.fetch();
  const body = await answer.json();
  const spoil = (each, names) => { for (const name of names) each[name] = named(each[name] ?? ""); };
  for (const each of [body.approval, ...(body.approvals ?? [])].filter(Boolean)) {
    spoil(each, ["tool_name", "server", "node", "description", "rule"]);
    const entries = Object.entries(each.tool_args);
    each.tool_args = Object.fromEntries(entries.map(([name, value]) => [name + text, value]));
  }
  for (const each of body.conversations ?? []) spoil(each, ["title"]);
  if (body.history) {
    body.rule = { name: text, yaml: text, file: text, line: 1 };
    spoil(body, ["suggestion", "conversation_title"]);
    for (const each of body.history) spoil(each, ["decided_by"]);
  }
  await route.fulfill({ response: answer, json: body });
}"""
"""A route that puts a text into all names that an agent gives in its answers about approvals."""

OVERRIDE = "\u2069\u202e\u05e9\u05dc\u05d5\u05dd abc"
"""It ends the isolation that it stands in, and would reverse what follows; with a legitimate word."""
REORDERED = """((text) => {
  const found = [], range = new Range();
  const left = (node, at) => (range.setStart(node, at), range.setEnd(node, at + 1),
    range.getBoundingClientRect());
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode, { data } = node;
    if (!data.trim() || !node.parentElement.checkVisibility()) continue;
    if (/[\\u202a-\\u202e\\u2066-\\u2069]/.test(data)) {
      if (data.trim() !== text) found.push(data);
      continue;
    }
    for (const { index } of data.matchAll(/[a-z]{2}/gi)) {
      const one = left(node, index), next = left(node, index + 1);
      if (one.width && next.width && one.top === next.top && one.left > next.left) found.push(data);
    }
  }
  return found;
})(%s)"""
"""Texts of the page that are drawn backwards, and texts with marks beside words of the page."""
NAMED = """async (route) => {
  const answer = await route.fetch();
  const json = { ...(await answer.json()), name: %s, description: %s };
  await route.fulfill({ response: answer, json });
}"""


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


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)], ids=["wide", "phone"])
def test_hostile_names_stay_texts(
    serve: Serve, browser: Browser, tmp_path: Path, size: tuple[int, int]
) -> None:
    server = serve(tmp_path / "data")
    before = server.ask_for("add lamp with value 3")
    server.post(f"/approvals/{before}", {"approved": True, "decided_by": "Maria"})
    uuid = server.ask_for("add lamp with value 4")
    width, height = size
    tab = browser.open(server.run.url, "/page/icon.svg", viewport={"width": width, "height": height})
    text = f"{HOSTILE} \u05e9\u05dc\u05d5\u05dd \u200b{'W' * 200}"
    for path in ("approvals?*", "approvals/*", "page/approvals/*", "conversations?*"):
        tab.call(("route", f"**/{path}", {"function": SPOILT % json.dumps(text)}))
    for place in ("/#/inbox?state=decided", "/#/inbox"):
        tab.go(place)
        tab.main.role("listitem").with_text(re.compile("resources_add<script>")).see()
        stays_text(tab)
    tab.go(f"/#/approvals/{uuid}")
    approve(tab).see()
    tab.main.text(re.compile("^Why it asks")).click()
    tab.main.text(re.compile("^The last times")).click()
    tab.main.text("done", exact=True).see()
    for mark in (BIDI, "\u200b"):
        assert mark not in tab.main.content
    stays_text(tab)
    assert tab.order("measure", "document.documentElement.scrollWidth") <= width, "nothing scrolls sideways"


def test_marks_of_direction_reorder_no_other_text(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    server = serve(tmp_path / "data")
    tab = browser.open(server.run.url, "/page/icon.svg")
    text = json.dumps(OVERRIDE)
    tab.call(("route", "**/page/agent", {"function": NAMED % (text, text)}))
    tab.go("/")
    tab.main.text(re.compile("^What should .*\u05e9\u05dc\u05d5\u05dd abc do")).see()
    assert tab.order("measure", REORDERED % text) == []
    say(tab, OVERRIDE)
    tab.main.text(re.compile("not a language model")).see()
    tab.main.button("More").click()
    tab.main.button("Delete").click()
    tab.main.text(re.compile("^Delete .*\u05e9\u05dc\u05d5\u05dd abc")).see()
    assert tab.order("measure", REORDERED % text) == []
    for place in ("agent", "inbox"):
        tab.go(f"/#/{place}")
        tab.main.role("heading").see()
        assert tab.order("measure", REORDERED % text) == []
