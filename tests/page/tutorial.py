"""What `docs/tutorial-page.md` has its reader do, for its test and for its pictures."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from .browser import EXPECTED_OF_A_LOST_SERVER, Browser, Tab
from .steps import approve, say

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve

WORDS = (
    "list all resources",
    "No resources.",
    "add server-1 with value 42",
    "Why it asks",
    "Approve with changes",
    "Send approval",
    "Added server-1 = 43",
    "remove server-1",
    "Reject",
    "it is still in use",
    "Send rejection",
    "Decided",
)
"""What the reader types, presses and sees, as the page and the tutorial have it."""


def follow(serve: Serve, data: Path, browser: Browser, picture: Callable[[Tab, str], object]) -> Tab:
    """The tutorial from its second step on. `picture` is called where it has one."""
    server = serve(data)
    tab = browser.open(server.run.url)
    tab.allow(EXPECTED_OF_A_LOST_SERVER)
    say(tab, "list all resources")
    tab.main.text("No resources.").see()
    tab.main.button(re.compile("resources_list")).first.see()

    say(tab, "add server-1 with value 42")
    approve(tab).see()
    picture(tab, "tutorial-approval")
    tab.main.text("Why it asks").click()
    tab.main.text(re.compile("then: run")).see()

    tab.main.button("Approve with changes").click()
    tab.main.label("value").fill("43")
    tab.main.button("Send approval").click()
    tab.main.text(re.compile("Added server-1 = 43")).see()
    picture(tab, "tutorial-approved")

    say(tab, "remove server-1")
    approve(tab).see()
    server.run.kill()
    tab.role("status").with_text(re.compile("connecting", re.I)).see()
    serve(data, port=urlsplit(server.run.url).port)
    tab.role("status").with_text(re.compile("connecting", re.I)).gone()

    tab.link(re.compile("^Inbox")).click()
    tab.main.button("Reject").see()
    picture(tab, "tutorial-inbox")
    tab.main.button("Reject").click()
    tab.main.label(re.compile("^Reason")).fill("it is still in use")
    tab.main.button("Send rejection").click()
    tab.becomes_titled(r"^(?!\()")
    tab.main.role("tab", re.compile("^Decided")).click()
    tab.main.link(re.compile("^resources_remove")).see()
    tab.main.link(re.compile("^resources_add")).see()
    return tab
