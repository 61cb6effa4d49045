"""Takes the pictures of `docs/images`: `python -m tests.page.screenshots DIR`."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.e2e.chains import begin_and_leave, eventually
from tests.e2e.conftest import Servers

from .browser import Browser, Tab, Where, running_browser
from .shown_agent import release_manager
from .steps import approve, message_box
from .tutorial import follow

if TYPE_CHECKING:
    from tests.e2e.conftest import Server

MOST = 120_000  # bytes of a picture
WIDE: dict[str, Any] = {"viewport": {"width": 1440, "height": 900}}
NARROW: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "hasTouch": True}
CLOSED = {"EXP-4402": "fixed", "EXP-4410": "fixed", "EXP-4417": "duplicate", "EXP-4431": "fixed"}


def lived_in(server: Server) -> str:
    """Conversations of every state; the id of the one that ships the release."""
    server.post("/conversations", {"message": "fail: read the logs of nightly 8841"}, status=201)
    server.post("/conversations", {"message": "who approved the last rollout?"}, status=201)
    for ticket, resolution in CLOSED.items():
        uuid = server.ask_for(f"close {ticket} as {resolution}")
        if ticket == "EXP-4402":
            server.post(f"/approvals/{uuid}", {"approved": True, "decided_by": "Maria"})
    before = server.post("/conversations", {"message": "Ship 2.14.0 to staging"}, status=201)
    server.post(
        f"/approvals/{before['result']['approval']['uuid']}", {"approved": True, "decided_by": "Maria"}
    )
    id = begin_and_leave(server, "Ship 2.14.0 to production")
    eventually(lambda: server.conversation(id).get("run", {}).get("state") == "waiting")
    return id


def save(tab: Tab, file: Path) -> None:
    size = tab.order("picture", str(file))
    print(f"{file.name}: {size:,} bytes")
    assert size < MOST, f"{file} is too large"


def take(
    browser: Browser, home: str, path: str, file: Path, show: Callable[[Tab], None], **look: Any
) -> None:
    tab = browser.open(home, path, **look)
    show(tab)
    save(tab, file)
    complaints = tab.close()
    assert complaints == [], complaints


def visit(tab: Tab) -> None:
    tab.role("heading", re.compile("release-manager")).see()
    message_box(tab).see()


def bar(tab: Tab) -> Where:
    return tab.main.button(re.compile("tool call compare_commits")).first.see()


def conversation(tab: Tab) -> None:
    approve(tab).see()
    bar(tab).click()
    approve(tab).do("scrollIntoViewIfNeeded")


def on_a_phone(tab: Tab) -> None:
    approve(tab).see()
    approve(tab).do("scrollIntoViewIfNeeded")


def timeline_on_a_phone(tab: Tab) -> None:
    tab.main.role("tab", re.compile("^Timeline")).click()
    bar(tab).see()


def inbox(tab: Tab) -> None:
    boxes = tab.main.role("checkbox", re.compile("close_ticket"))
    boxes.first.see()
    for number in range(3):
        boxes.nth(number).check()
    tab.main.button("Approve 3").see()


def listed(tab: Tab) -> None:
    tab.main.role("checkbox", re.compile("close_ticket")).see()


def approval(tab: Tab) -> None:
    tab.main.button("Approve with changes").click()
    tab.main.button("Send approval").see()
    tab.main.label("pause_minutes").fill("30")


def agent(tab: Tab) -> None:
    tab.main.link(re.compile("nightly 8841")).see()
    tab.main.text("connected", exact=True).see()


def policy(tab: Tab) -> None:
    tab.main.text("fixed tickets close", exact=True).see()
    tab.main.text("never hit").first.see()


def decide(server: Server) -> None:
    """Decide some calls of one tool in all ways."""
    decisions = [{"approved": True}] * 5 + [{"approved": False, "reason": "it came back"}]
    for number, decision in enumerate(decisions):
        server.post(f"/approvals/{server.ask_for(f'close EXP-45{number} as fixed')}", decision)
    edited = {"ticket": "EXP-4599", "resolution": "fixed", "comment": "Fixed in 2.13.5"}
    uuid = server.ask_for("close EXP-4599 as duplicate")
    server.post(f"/approvals/{uuid}", {"approved": True, "arguments": edited})


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    servers = Servers()
    with tempfile.TemporaryDirectory() as temporary, running_browser() as browser:
        data = Path(temporary)
        config, env = release_manager(data / "agent")
        try:
            new, old = (
                servers(data / "new", config=config, env=env),
                servers(data / "old", config=config, env=env),
            )
            take(browser, new.run.url, "/", folder / "first-visit.png", visit, **WIDE)
            follow(servers, data / "tutorial", browser, lambda tab, name: save(tab, folder / f"{name}.png"))
            id = lived_in(old)
            [uuid] = [each["uuid"] for each in old.conversation(id)["pending_approvals"]]
            here = f"/#/conversations/{id}"
            for scheme in ("light", "dark"):
                look = {**WIDE, "colorScheme": scheme}
                for name, path, show in (
                    ("conversation", here, conversation),
                    ("inbox", "/#/inbox", inbox),
                    ("approval", f"/#/approvals/{uuid}", approval),
                    ("agent", "/#/agent", agent),
                ):
                    take(browser, old.run.url, path, folder / f"{name}-{scheme}.png", show, **look)
            take(browser, old.run.url, here, folder / "phone-conversation.png", on_a_phone, **NARROW)
            take(browser, old.run.url, here, folder / "phone-timeline.png", timeline_on_a_phone, **NARROW)
            take(browser, old.run.url, "/#/inbox", folder / "phone-inbox.png", listed, **NARROW)
            used = servers(data / "used", config=config, env=env)
            lived_in(used)
            decide(used)
            take(browser, used.run.url, "/#/agent/policy", folder / "policy-light.png", policy, **WIDE)
        finally:
            servers.stop_all()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
