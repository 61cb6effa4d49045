"""Logins at a real provider, sessions, and attacks on them from other pages in the same browser."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from tests.e2e.chains import written
from tests.e2e.conftest import BIN, free_port

from .browser import EXPECTED_OF_A_LOST_SERVER, EXPECTED_OF_A_REFUSAL, Browser, Tab
from .other_site import other_site
from .provider import AUDIENCE, OidcProvider, oidc_provider
from .steps import message_box, say

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve, Server

pytestmark = pytest.mark.page

AT_THE_PROVIDER = r"(request|console): .*"
"""The tab leaves the agent for the provider, whose page loads a font."""
ANSWER = re.compile("only rules for simple sentences")
EXPECTED_WITHOUT_A_SESSION = (EXPECTED_OF_A_REFUSAL, EXPECTED_OF_A_LOST_SERVER)


@attrs.define(eq=False)
class Site:
    server: Server
    provider: OidcProvider

    config: Path

    @property
    def url(self) -> str:
        return self.server.run.url

    def key(self, name: str) -> str:
        """The text of a new API key."""
        return self._keys("add", name, "--role", "operator", "--for", name).split()[-1]

    def revoke(self, name: str) -> None:
        self._keys("revoke", name)

    def _keys(self, *args: str) -> str:
        place = ("--config", str(self.config), "--data-dir", str(self.server.data_dir))
        return subprocess.run(
            [BIN / "stopgo", "keys", *args, *place], capture_output=True, text=True, check=True
        ).stdout


@pytest.fixture(scope="module")
def site(serve_once: Serve, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One agent and one provider for the whole file: tabs have cookies of their own."""
    folder, port = tmp_path_factory.mktemp("site"), free_port()
    with oidc_provider(f"http://127.0.0.1:{port}/login/callback") as provider:
        config = agent_of(folder, provider)
        yield Site(serve_once(folder / "data", config=config, port=port), provider, config)


def agent_of(folder: Path, provider: OidcProvider) -> Path:
    oidc = {"issuer": provider.url, "audience": AUDIENCE, "login": {"client_id": "page"}}
    settings: dict[str, Any] = {"llm": {"model": "offline:rules"}, "auth": {"api_keys": True, "oidc": oidc}}
    return written(folder, {"name": "guarded", **settings})


def opened(browser: Browser, site: Site, path: str = "/") -> Tab:
    tab = browser.open(site.url, path)
    tab.allow(AT_THE_PROVIDER, *EXPECTED_WITHOUT_A_SESSION)
    return tab


def log_in(tab: Tab, name: str) -> None:
    tab.main.link("Log in").click()
    tab.call(("getByPlaceholder", "Enter any login"), ("fill", name))
    tab.call(("getByPlaceholder", "and password"), ("fill", "x"))
    tab.button("Sign-in").click()
    tab.button("Continue").click()


def logged_in(browser: Browser, site: Site, name: str = "alice", path: str = "/") -> Tab:
    tab = opened(browser, site, path)
    log_in(tab, name)
    tab.text(f"Signed in as {name}").see()
    return tab


def cookies(tab: Tab) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in tab.call(("context",), ("cookies",))}


def test_a_login_through_the_page(browser: Browser, site: Site) -> None:
    tab = opened(browser, site, "/#/inbox")
    tab.main.text("Sign in to use this agent").see()
    assert tab.order("axe") == []
    assert tab.role("navigation", "Places").count == 0
    log_in(tab, "alice")
    tab.text("Signed in as alice").see()
    assert tab.address == "/#/inbox"
    session = cookies(tab)["__Host-stopgo"]
    assert (session["httpOnly"], session["secure"], session["sameSite"]) == (True, True, "Strict")
    assert tab.order("measure", "document.cookie") == ""

    tab.go("/#/")
    say(tab, "list all resources")
    tab.main.text(ANSWER).see()
    tab.reload()
    tab.text("Signed in as alice").see()
    tab.close_now()


def test_a_logout_ends_the_session_in_every_tab(browser: Browser, site: Site) -> None:
    tab = logged_in(browser, site)
    beside = browser.open(site.url, beside=tab)
    beside.allow(*EXPECTED_WITHOUT_A_SESSION)
    beside.text("Signed in as alice").see()
    tab.button("Sign out").click()
    tab.main.link("Log in").see()
    assert "__Host-stopgo" not in cookies(tab)
    beside.main.link("Log in").see()
    tab.close()
    beside.close()


def test_a_person_without_a_role(browser: Browser, site: Site) -> None:
    tab = opened(browser, site)
    log_in(tab, "carol")
    tab.main.text("You have no role in this agent").see()
    tab.button("Sign out").click()
    tab.main.link("Log in").see()


def test_an_api_key_in_the_page(browser: Browser, site: Site) -> None:
    """Requests carry the key, and websockets tickets, for a browser can set no headers on them."""
    key = site.key("robin")
    tab = opened(browser, site, "/#/inbox")
    tab.label("API key").see()
    assert tab.order("axe") == []
    for wrong, why in (("two words", "only letters"), (f"{key}x", "not valid")):
        tab.label("API key").fill(wrong)
        tab.button("Continue").click()
        tab.role("alert").with_text(why).see()
    tab.label("API key").fill(key)
    tab.button("Continue").click()
    tab.text("Signed in as robin").see()
    tab.go("/#/")
    say(tab, "list all resources")
    tab.main.text(ANSWER).see()
    tab.reload()
    tab.text("Signed in as robin").see()
    assert cookies(tab) == {}

    log = site.server.log
    assert "POST /ticket 200" in log
    assert "GET /events/ws 101" in log
    assert key not in log
    assert "ticket=" not in log

    site.revoke("robin")
    tab.main.text("Sign in to use this agent").see()
    tab.reload()
    tab.main.text("Sign in to use this agent").see()


def test_a_new_key_of_the_provider(browser: Browser, site: Site) -> None:
    """Sessions live on, old tokens verify as long as their key is published, and new ones at once."""
    tab, token = logged_in(browser, site), site.provider.token()
    assert status(site, token) == 200
    site.provider.rotate()
    assert status(site, token) == 200
    assert message_box(tab).is_enabled
    tab.reload()
    tab.text("Signed in as alice").see()
    second = logged_in(browser, site, "bob")  # with the new key
    second.close()
    assert status(site, site.provider.token()) == 200


def status(site: Site, token: str) -> int:
    answer = site.server.client.get("/session", headers={"Authorization": f"Bearer {token}"})
    return answer.status_code


def test_a_callback_is_not_valid_twice_or_in_another_browser(browser: Browser, site: Site) -> None:
    tab = opened(browser, site)
    tab.order("keep", "/login/callback")
    log_in(tab, "alice")
    tab.text("Signed in as alice").see()
    [callback] = tab.order("kept")
    other = opened(browser, site)
    for each in (tab, other):
        each.go(callback.removeprefix(site.url))
        each.main.text("Not logged in").see()
    assert "__Host-stopgo" not in cookies(other)


def test_a_session_that_was_planted_is_not_adopted(browser: Browser, site: Site) -> None:
    tab = opened(browser, site)
    planted = {
        "name": "__Host-stopgo",
        "value": "a" * 43,
        "url": site.url.replace("http", "https"),
        "secure": True,
    }
    tab.call(("context",), ("addCookies", [planted]))
    tab.reload()
    log_in(tab, "alice")
    tab.text("Signed in as alice").see()
    assert cookies(tab)["__Host-stopgo"]["value"] != planted["value"]


def test_pages_of_other_sites_get_nothing(browser: Browser, site: Site) -> None:
    """Another port of the same host counts as the same site: its requests have the cookie."""
    tab = logged_in(browser, site)
    with other_site(site.url) as port:
        for host in ("127.0.0.1", "evil.test"):
            before = len(site.server.log)
            tab.call(("goto", f"http://{host}:{port}/"))
            done = tab.call(("locator", "#done:not(:empty)"), ("innerText",))
            assert done == "opaque failed failed opaque opaque failed"
            changes = re.findall(r"POST (\S+) (\d+)", site.server.log[before:])
            assert set(changes) == {("/conversations", "403"), ("/ticket", "403"), ("/logout", "403")}
    tab.go("/")
    tab.text("Signed in as alice").see()


def test_a_session_outlasts_a_restart(browser: Browser, site: Site, serve_once: Serve) -> None:
    tab, port = logged_in(browser, site), site.server.client.base_url.port
    tab.go("/#/")
    message_box(tab).fill("not sent yet")
    site.server.run.interrupt()
    site.server = serve_once(site.server.data_dir, config=site.config, port=port or 0)
    tab.text("Signed in as alice").see()
    message_box(tab).becomes(lambda box: box.value, "not sent yet")
