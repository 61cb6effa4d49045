"""What people have asked for to work at ease: reading, deciding about many, finding their place again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.chains import begin_and_leave, echo_server, eventually, written

from .agents import keeper
from .browser import EXPECTED_OF_A_REFUSAL, Browser, Tab, Where
from .steps import approve

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve, Server

pytestmark = pytest.mark.page

MANY = 30
LOG = "first line\n" + "\n".join(f"{number}: all is well" for number in range(200)) + "\nlast \u202eline"


def adder(folder: Path) -> Path:
    """An agent that adds thirty lamps at once, one of them with another value."""
    lamps = [{"name": f"lamp-{number}", "value": 700 if number == 7 else 3} for number in range(MANY)]
    calls = [{"name": "resources_add", "arguments": lamp} for lamp in lamps]
    config = keeper(folder, llm={"model": "script:replies.yaml"})
    replies = {
        "replies": [{"when": {"call": 1}, "text": "I add them.", "tool_calls": calls}, {"text": "Done."}]
    }
    (config.parent / "replies.yaml").write_text(json.dumps(replies))
    return config


def width(where: Where) -> float:
    found: float = where.do("evaluate", {"function": "element => element.getBoundingClientRect().width"})
    return found


# ------------------------------------------------------------------------------------ divider


@pytest.fixture
def talk(serve: Serve, browser: Browser, tmp_path: Path) -> Tab:
    server = serve(tmp_path / "data")
    id = begin_and_leave(server, "list all resources")
    tab = browser.open(server.run.url, f"/#/conversations/{id}")
    tab.main.text("No resources.").see()
    return tab


def divider(tab: Tab) -> Where:
    return tab.main.role("separator", "Width of the chat")


def drag(tab: Tab, by: int) -> None:
    tell = "{ const { x, y } = document.querySelector('.divider').getBoundingClientRect(); [x, y + 200] }"
    x, y = tab.order("measure", tell)
    for order in (("move", x, y), ("down",), ("move", x + by, y, {"steps": 4}), ("up",)):
        tab.call(("mouse",), order)


def test_the_divider_moves_with_the_mouse_and_stays_over_a_reload(talk: Tab) -> None:
    chat = talk.main.role("region", "Chat")
    before = width(chat)
    drag(talk, 150)
    chat.becomes(lambda where: round(width(where)), round(before + 150))
    talk.reload()
    chat.becomes(lambda where: abs(width(where) - before - 150) < 3, True)
    divider(talk).do("dblclick")
    chat.becomes(lambda where: round(width(where)), round(before))
    drag(talk, -2000)
    assert width(chat) >= 358, "no pane disappears"
    assert divider(talk).attribute("aria-valuenow") == divider(talk).attribute("aria-valuemin")


def test_the_divider_moves_with_the_keys(talk: Tab) -> None:
    divider(talk).do("focus")
    before = int(divider(talk).attribute("aria-valuenow") or 0)
    talk.press("ArrowRight", "ArrowRight")
    divider(talk).becomes(lambda where: where.attribute("aria-valuenow"), str(before + 4))
    talk.press("End")
    most = divider(talk).attribute("aria-valuemax")
    divider(talk).becomes(lambda where: where.attribute("aria-valuenow"), most)
    talk.press("Enter")
    divider(talk).becomes(lambda where: where.attribute("aria-valuenow"), str(before))
    assert divider(talk).has_focus


def test_the_divider_moves_with_a_finger(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    """A browser sends pointer events of a finger; `touch-action` keeps them from scrolling."""
    server = serve(tmp_path / "data")
    tab = browser.open(server.run.url, f"/#/conversations/{server.new()}", hasTouch=True)
    chat = tab.main.role("region", "Chat")
    divider(tab).see()
    before = width(chat)
    move = """{
      const line = document.querySelector('.divider'), { x } = line.getBoundingClientRect();
      line.setPointerCapture = () => {};  // there is no such pointer
      for (const [type, clientX] of [['pointerdown', x], ['pointermove', x + 80], ['pointerup', x + 80]])
        line.dispatchEvent(new PointerEvent(type, { clientX, pointerType: 'touch', bubbles: true }));
      getComputedStyle(line).touchAction
    }"""
    assert tab.order("measure", move) == "none"
    chat.becomes(lambda where: round(width(where)), round(before + 80))


# ------------------------------------------------------------------------------------ reading


@pytest.fixture
def reading(serve: Serve, browser: Browser, tmp_path: Path) -> Tab:
    """A tool that answers with two hundred lines, and a reply with code in it."""
    calls = [{"name": "echo", "arguments": {"text": LOG}}]
    replies: list[dict[str, Any]] = [
        {"when": {"call": 1}, "tool_calls": calls},
        {"text": "Run this:\n\n```sh\nmake all\u200b && ./run\n```"},
    ]
    config = {"name": "reader", "llm": {"model": "script:replies.yaml"}, "mcp_servers": [echo_server("e")]}
    env = {"LEDGER": str(tmp_path / "ledger")}
    server = serve(tmp_path / "data", config=written(tmp_path / "agent", config, replies), env=env)
    id = begin_and_leave(server, "go")
    eventually(lambda: server.conversation(id).get("run", {}).get("state") == "finished")
    tab = browser.open(
        server.run.url, f"/#/conversations/{id}", permissions=["clipboard-read", "clipboard-write"]
    )
    tab.main.text(re.compile("make all")).see()
    return tab


def clipboard(tab: Tab) -> str:
    found: str = tab.order("measure", "navigator.clipboard.readText()")
    return found


def test_code_in_a_reply_is_copied_as_it_is_shown(reading: Tab) -> None:
    chat = reading.main.role("region", "Chat")
    chat.button("Copy").do("focus")
    reading.press("Enter")
    reading.settles(lambda: clipboard(reading), lambda text: text == "make all\\u{200b} && ./run", "the code")


def test_a_result_has_a_wide_view_with_a_search(reading: Tab) -> None:
    reading.main.button(re.compile("^echo")).click()
    result = reading.main.role("complementary", "Details")
    result.button("Wide view").last.do("focus")
    reading.press("Enter")
    wide = reading.role("dialog")
    wide.role("heading", "Result").see()
    assert "\n199: all is well\nlast \\u{202e}line" in wide.content
    wide.role("searchbox", "Find").fill("ALL IS WELL")
    wide.text("1 of 200").see()
    reading.press("Enter", "Enter", "Shift+Enter")
    wide.text("2 of 200").see()
    wide.role("searchbox", "Find").fill("nothing of that")
    wide.text("not found").see()
    wide.button("Copy").click()
    reading.settles(lambda: clipboard(reading), lambda text: text.count("\n") == 201, "202 lines")
    wide.button("Wrap lines").click()
    reading.press("Escape")
    wide.gone()
    assert result.button("Wide view").last.has_focus, "the focus returns to where it came from"
    reading.reload()
    reading.main.role("complementary", "Details").button("Wide view").last.do("click")
    assert reading.role("dialog").button("Wrap lines").attribute("aria-pressed") == "false"


# ------------------------------------------------------------------------------- many approvals


@pytest.fixture
def many(serve: Serve, tmp_path: Path) -> Server:
    server = serve(tmp_path / "data", config=adder(tmp_path / "agent"))
    server.post("/conversations", {"message": "go"}, status=201)
    return server


def row(tab: Tab, name: str) -> Where:
    return tab.main.role("row", re.compile(f"^{name} "))


def test_many_approvals_of_one_tool_are_one_card_in_the_chat(many: Server, browser: Browser) -> None:
    [conversation] = many.get("/conversations")["conversations"]
    tab = browser.open(many.run.url, f"/#/conversations/{conversation['id']}")
    tab.main.role("heading", re.compile("resources_add.*30 times")).see()
    rows = tab.main.role("row").with_text(re.compile("lamp-"))
    rows.counts(MANY)
    assert approve(tab).count == 0, "there is no other card"

    tab.main.button("Reject lamp-7, value 700").click()
    tab.main.label(re.compile("^Reason")).fill("too much")
    tab.main.button("Send rejection").click()
    row(tab, "lamp-7").with_text("Rejected").see()
    tab.main.button("Approve lamp-3, value 3").click()
    row(tab, "lamp-3").with_text("Approved").see()
    assert many.get("/conversations")["conversations"][0]["status"] == "waiting_approval"

    tab.reload()
    tab.main.text("2 of 30 decided").see()
    rows.counts(MANY)
    tab.main.button("Approve 28").click()
    eventually(lambda: many.resources().total() == MANY - 1)
    tab.main.text("All 30 are decided.").see()
    assert ("lamp-7", "700") not in many.resources()
    tab.reload()
    # A line that opens, or the table if the page saw one of them wait while it read the events.
    tab.main.text(re.compile("30 approvals of|30 of 30 decided")).see()
    assert tab.main.button(re.compile("^Approve")).count == 0


def test_many_approvals_of_one_tool_are_one_entry_of_the_inbox(many: Server, browser: Browser) -> None:
    tab = browser.open(many.run.url, "/#/inbox")
    entry = tab.main.role("listitem").with_text(re.compile("resources_add"))
    entry.counts(1)
    entry.with_text("30 ×").see()
    tab.main.link(re.compile("resources_add")).click()
    tab.main.button("Approve lamp-3, value 3").click()
    row(tab, "lamp-3").with_text("Approved").see()
    entry.with_text("29 ×").see()
    tab.reload()
    tab.main.button("Approve 29").see()
    # What another tab decides is told here.
    [first, *_] = many.get("/approvals?limit=1")["approvals"]
    many.post(f"/approvals/{first['uuid']}", {"approved": False, "decided_by": "Maria"})
    tab.main.role("row").with_text(re.compile("Rejected by Maria")).see()
    tab.main.button("Approve 28").see()


# ------------------------------------------------------------------------------- conversations


def test_conversations_are_in_order_of_activity_with_the_waiting_ones_first(
    serve: Serve, browser: Browser, tmp_path: Path
) -> None:
    server = serve(tmp_path / "data")
    server.ask_for("add lamp with value 3")
    older, _ = (begin_and_leave(server, message) for message in ("list old", "list new"))
    eventually(lambda: all(each["title"] for each in server.get("/conversations")["conversations"]))
    server.post(f"/conversations/{older}/messages", {"message": "list again"})
    tab = browser.open(server.run.url, "/#/inbox")
    links = tab.role("navigation", "Conversations").role("link")
    order = tab.role("combobox", "Order of conversations")

    def titles(where: Where) -> list[str]:
        found = [where.nth(number).content for number in range(where.count)]
        return [title.strip().split("\n")[0] for title in found]

    links.becomes(titles, ["add lamp with value 3", "list old", "list new"])
    order.choose("Newest first")
    links.becomes(titles, ["list new", "list old", "add lamp with value 3"])
    order.choose("Last active")
    tab.reload()
    assert tab.role("combobox", "Order of conversations").value == "activity"
    links.becomes(titles, ["list old", "list new", "add lamp with value 3"])


# ------------------------------------------------------------------------------- first visit, API


def test_the_first_visit_offers_the_examples_of_the_file(
    serve: Serve, browser: Browser, tmp_path: Path
) -> None:
    examples: Any = ["Add a lamp with value 3.", "<b>no markup</b>"]
    server = serve(tmp_path / "data", config=keeper(tmp_path / "agent", examples=examples))
    tab = browser.open(server.run.url)
    tab.main.button("<b>no markup</b>").see()
    tab.main.button("Add a lamp with value 3.").click()
    box = tab.main.role("textbox", "Message")
    assert box.value == "Add a lamp with value 3."
    assert box.has_focus
    tab.press("Enter")
    approve(tab).see()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_api_documentation_is_a_part_of_the_page(
    serve: Serve, browser: Browser, tmp_path: Path, scheme: str
) -> None:
    server = serve(tmp_path / "data")
    tab = browser.open(server.run.url, colorScheme=scheme)
    look = "getComputedStyle(document.body).backgroundColor + getComputedStyle(document.body).fontFamily"
    page = tab.order("measure", look)
    tab.link("API").click()
    tab.role("heading", "HTTP API").see()
    assert tab.order("measure", look) == page
    assert [each for each in tab.order("axe") if each["impact"] in ("serious", "critical")] == []
    tab.role("navigation", "Routes").link(re.compile("^GET /conversations$")).click()
    tab.role("navigation", "Places").link("Inbox").click()
    tab.main.role("heading", "Inbox").see()


# ------------------------------------------------------------------------------- arguments


def test_a_form_describes_its_values_and_says_a_mistake_once(
    serve: Serve, browser: Browser, tmp_path: Path
) -> None:
    server = serve(tmp_path / "data")
    uuid = server.ask_for("add lamp with value 3")
    tab = browser.open(server.run.url, f"/#/approvals/{uuid}")
    tab.allow(EXPECTED_OF_A_REFUSAL)
    approve(tab).see()
    # A value of two types, whose field has no type of its own.
    told = server.get(f"/approvals/{uuid}")["approval"]["input_schema"]["properties"]["value"]["description"]
    tab.main.button("Approve with changes").click()
    value = tab.main.label("value")
    tab.main.text(told).see()
    described = value.attribute("aria-describedby") or ""
    assert tab.order("measure", f"document.getElementById({json.dumps(described)}).textContent") == told
    value.fill("[1]")
    tab.main.button("Send approval").click()
    value.becomes(lambda field: field.attribute("aria-invalid"), "true")
    tab.main.text("Not accepted: still pending").see()
    tab.main.text(re.compile("is not of type")).counts(1)
    assert tab.main.role("alert").count == 0, "the value is wrong, and that is said at the value"
    tab.main.button("Edit as JSON").click()
    tab.main.text(told).see()
