"""What people do on the page, in its words."""

from __future__ import annotations

import re

from .browser import Tab, Where

MESSAGE = re.compile("message|say|done", re.I)
"""The one box for messages, on the first visit and in a conversation."""


def message_box(tab: Tab) -> Where:
    return tab.main.role("textbox", MESSAGE)


def say(tab: Tab, text: str) -> None:
    message_box(tab).fill(text)
    message_box(tab).press("Enter")


def approve(tab: Tab) -> Where:
    """The button of the only approval that is shown."""
    return tab.main.button("Approve")


def conversation_of(tab: Tab) -> str:
    """The id of the conversation that is shown, from its address."""
    found = re.search(r"#/conversations/([0-9a-f-]{36})", tab.address)
    assert found is not None, tab.address
    return found[1]


def tab_to(tab: Tab, where: Where, presses: int = 80) -> None:
    """Press the key Tab until this has the focus."""
    for _ in range(presses):
        if where.count == 1 and where.has_focus:
            return
        tab.press("Tab")
    raise AssertionError(f"Tab does not lead there; it ended at: {tab.focused()}")
