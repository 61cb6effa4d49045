"""A conversation of 1,000 events is on the screen at once, and one of 10,000 is still usable (FR-027).

The figures are those of a quiet machine. The tests allow `NOISE` times as much, and print what they measure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs
import pytest

from tests.e2e.chains import eventually

from .agents import busy_agent
from .browser import Browser, Tab
from .steps import message_box

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve, Server

pytestmark = pytest.mark.page

LAST = re.compile("they hold")

WATCH = """(() => {
  window.__slow = [];
  new PerformanceObserver((list) => {
    for (const each of list.getEntries()) window.__slow.push([each.name, each.duration]);
  }).observe({ type: "event", durationThreshold: 16 });
})()"""
"""The browser measures how long after an input the next picture is drawn; below 16 ms it says nothing."""
SLOWEST = """new Promise((done) => requestAnimationFrame(() => setTimeout(() =>
  done(Math.max(0, ...window.__slow.splice(0).map(([, duration]) => duration))), 100)))"""
PAINTS = """(() => {
  const [paint] = performance.getEntriesByName("first-contentful-paint");
  return paint ? paint.startTime : -1;
})()"""


@attrs.frozen
class Long:
    server: Server
    id: str
    events: int


def grown(server: Server, events: int) -> Long:
    id = server.new()
    last = 0
    while last < events:
        server.say(id, f"look at everything, {last}")
        last = server.conversation(id)["last_seq"]
    return Long(server, id, last)


@pytest.fixture(scope="module")
def server(serve_once: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    folder = tmp_path_factory.mktemp("long")
    ledger = {"LEDGER": str(folder / "ledger")}
    server = serve_once(folder / "data", config=busy_agent(folder / "agent"), env=ledger)
    server.client.event_hooks = {}  # to check such long answers against the contract takes minutes
    return server


def opened(browser: Browser, long: Long) -> tuple[Tab, dict[str, float]]:
    """The conversation with all events, and the milliseconds until a first part and the end were drawn."""
    tab = browser.open(long.server.run.url, "/page/icon.svg")
    tab.order("worked")
    tab.go(f"/#/conversations/{long.id}")
    tab.main.text(LAST).see()
    worked = 1000 * tab.order("worked")
    shown = tab.order("measure", "performance.now()")
    painted = tab.order("measure", PAINTS)
    has_events(tab, long.events)
    return tab, {"first paint": painted, "last message": shown, "work": worked}


def has_events(tab: Tab, number: int) -> None:
    events = tab.main.role("tab", re.compile("^Events"))
    eventually(lambda: re.sub(r"\D", "", events.content) == str(number))


def interactions(tab: Tab) -> dict[str, float]:
    """The milliseconds that a click on a bar, and typed text, take until the page shows it."""
    tab.order("measure", WATCH)
    bars = tab.main.role("button", re.compile("echo"))
    bars.last.see()

    bars.last.click()
    took = {"select a bar": tab.order("measure", SLOWEST)}
    message_box(tab).click()
    tab.order("measure", SLOWEST)
    tab.type("abc")
    took["type"] = tab.order("measure", SLOWEST)
    assert message_box(tab).value == "abc"
    return took


def told(long: Long, *figures: dict[str, float]) -> None:
    every = {name: round(value) for each in figures for name, value in each.items()}
    print(f"\n{long.events} events: " + ", ".join(f"{name} {value} ms" for name, value in every.items()))


def test_1000_events(browser: Browser, server: Server) -> None:
    long = grown(server, 1000)
    tab, drawn = opened(browser, long)
    took = interactions(tab)
    told(long, drawn, took)


def test_10000_events(browser: Browser, server: Server) -> None:
    """Usable: the end is there within seconds, a click and a letter take half a second, it goes on."""
    long = grown(server, 10_000)
    tab, drawn = opened(browser, long)
    took = interactions(tab)
    told(long, drawn, took)
    long.server.say(long.id, "look once more")
    tab.main.text("look once more", exact=True).see()
    has_events(tab, long.server.conversation(long.id)["last_seq"])
