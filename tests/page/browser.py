"""Chromium, driven by `driver.mjs`. Elements are found as people find them: by role and name."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from tests.waiting import LIMIT

HERE = Path(__file__).parent
LOOKING = LIMIT / 2
"""Seconds until what should be seen counts as missed: before the whole test hangs, to show the page."""
Name = str | re.Pattern[str]

EXPECTED_OF_A_LOST_SERVER = (
    r"console: .*(WebSocket connection|ERR_CONNECTION|ERR_EMPTY_RESPONSE|ERR_INCOMPLETE|ERR_SOCKET|502|503)"
)
"""What Chromium itself logs when a connection is refused or breaks: no page can keep it from that."""
EXPECTED_OF_A_REFUSAL = r"console: .*the server responded with a status of (409|410|422|400|401)"


class Unseen(AssertionError):
    """The page does not show, or not let one do, what it should."""


@attrs.define(eq=False)
class Browser:
    _process: subprocess.Popen[str]
    _tabs: list[Tab] = attrs.field(factory=list)

    def ask(self, **order: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, "the driver of the browser has ended"
        answer = json.loads(line)
        if "error" in answer:
            error = re.sub(r"\x1b\[\d*m", "", answer["error"])
            raise Unseen(f"{error[:2000]}\n\n--- the page\n{answer['seen'][:8000]}")
        return answer["value"]

    def open(self, home: str, path: str = "/", *, beside: Tab | None = None, **options: Any) -> Tab:
        """A tab in a browser of its own; with `beside`, one that shares storage with that tab."""
        tab = Tab(self, f"tab{len(self._tabs)}", home)
        self._tabs.append(tab)
        options = {"viewport": {"width": 1440, "height": 900}, "reducedMotion": "reduce", **options}
        if beside is not None:
            options = {"beside": beside.id}
        self.ask(tab=tab.id, order="open", given=[{"home": home, **options}])
        tab.go(path)
        return tab

    def close_all(self) -> list[str]:
        """What the tabs have complained of."""
        complaints = [complaint for tab in self._tabs if tab.is_open for complaint in tab.close()]
        self._tabs.clear()
        return complaints


@attrs.define(eq=False)
class Tab:
    browser: Browser
    id: str
    home: str
    is_open: bool = True
    _allowed: list[str] = attrs.field(factory=list)

    def allow(self, *patterns: str) -> None:
        """Complaints that this test provokes."""
        self._allowed += patterns

    def close(self) -> list[str]:
        said: list[str] = self.order("complaints")
        self.order("close")
        self.is_open = False
        return [each for each in said if not any(re.match(known, each, re.S) for known in self._allowed)]

    def close_now(self) -> None:
        """Before what it talks to is gone."""
        assert self.close() == []

    def order(self, order: str, *given: Any) -> Any:
        return self.browser.ask(tab=self.id, order=order, given=given)

    def call(self, *chain: tuple[Any, ...]) -> Any:
        return self.browser.ask(tab=self.id, chain=chain)

    def go(self, path: str) -> None:
        self.call(("goto", self.home + path))

    def reload(self) -> None:
        self.call(("reload",))

    @property
    def address(self) -> str:
        found: str = self.call(("url",))
        return found.removeprefix(self.home)

    @property
    def title(self) -> str:
        found: str = self.call(("title",))
        return found

    def becomes_titled(self, pattern: str) -> None:
        self.settles(lambda: self.title, lambda title: re.search(pattern, title), f"a title with {pattern}")

    def settles(self, what: Callable[[], Any], fits: Callable[[Any], Any], wanted: object) -> None:
        """Look again and again, until what is there fits. Each look takes the driver some milliseconds."""
        deadline = time.monotonic() + LOOKING
        while not fits(found := what()):
            if time.monotonic() > deadline:
                raise Unseen(
                    f"it stays {found!r}; wanted: {wanted}\n\n--- the page\n{self.order('seen')[:8000]}"
                )

    def press(self, *keys: str) -> None:
        """Keys, sent to whatever has the focus."""
        for key in keys:
            self.call(("keyboard",), ("press", key))

    def type(self, text: str) -> None:
        self.call(("keyboard",), ("type", text))

    def focused(self) -> str:
        """Role and name of what has the focus, roughly, for messages."""
        tell = "e => `${e.localName} ${e.getAttribute('aria-label') ?? e.innerText ?? ''}`.trim()"
        found: str = self.order("measure", f"({tell})(document.activeElement)")
        return found

    def role(self, role: str, name: Name | None = None, **options: Any) -> Where:
        return Where(self).role(role, name, **options)

    def button(self, name: Name) -> Where:
        return self.role("button", name)

    def link(self, name: Name) -> Where:
        return self.role("link", name)

    def text(self, text: Name, *, exact: bool = False) -> Where:
        return Where(self).text(text, exact=exact)

    def label(self, label: Name) -> Where:
        return Where(self).label(label)

    @property
    def main(self) -> Where:
        return self.role("main")


@attrs.frozen
class Where:
    """Where on the page: what is called at last is done there."""

    tab: Tab
    chain: tuple[tuple[Any, ...], ...] = ()

    def _in(self, *call: Any) -> Where:
        return attrs.evolve(self, chain=(*self.chain, call))

    def role(self, role: str, name: Name | None = None, **options: Any) -> Where:
        if name is not None:
            options |= {"name": plain(name), **({"exact": True} if isinstance(name, str) else {})}
        return self._in("getByRole", role, options)

    def button(self, name: Name) -> Where:
        return self.role("button", name)

    def link(self, name: Name) -> Where:
        return self.role("link", name)

    def text(self, text: Name, *, exact: bool = False) -> Where:
        return self._in("getByText", plain(text), {"exact": exact})

    def label(self, label: Name) -> Where:
        return self._in("getByLabel", plain(label), {"exact": isinstance(label, str)})

    def with_text(self, text: Name) -> Where:
        return self._in("filter", {"hasText": plain(text)})

    @property
    def first(self) -> Where:
        return self._in("first")

    @property
    def last(self) -> Where:
        return self._in("last")

    def nth(self, number: int) -> Where:
        return self._in("nth", number)

    # ------------------------------------------------------------------ what is done

    def do(self, method: str, *given: Any) -> Any:
        return self.tab.call(*self.chain, (method, *given))

    def click(self) -> None:
        self.do("click")

    def fill(self, text: str) -> None:
        self.do("fill", text)

    def press(self, key: str) -> None:
        self.do("press", key)

    def check(self) -> None:
        self.do("check")

    def choose(self, option: str) -> None:
        self.do("selectOption", {"label": option})

    def see(self) -> Where:
        self._in("first").do("waitFor", {"state": "visible"})
        return self

    def gone(self) -> None:
        self._in("first").do("waitFor", {"state": "hidden"})

    # ---------------------------------------------------------------- what is there

    @property
    def count(self) -> int:
        found: int = self.do("count")
        return found

    @property
    def content(self) -> str:
        """The text as it is drawn."""
        found: str = self.do("innerText")
        return found

    @property
    def value(self) -> str:
        found: str = self.do("inputValue")
        return found

    @property
    def is_enabled(self) -> bool:
        found: bool = self.do("isEnabled")
        return found

    @property
    def has_focus(self) -> bool:
        found: bool = self.do("evaluate", {"function": "element => element === document.activeElement"})
        return found

    def counts(self, number: int) -> None:
        self.becomes(lambda where: where.count, number)

    def becomes(self, what: Callable[[Where], Any], wanted: Any) -> None:
        self.tab.settles(lambda: what(self), lambda found: found == wanted, wanted)

    def attribute(self, name: str) -> str | None:
        found: str | None = self.do("getAttribute", name)
        return found


def plain(name: Name) -> Any:
    if isinstance(name, str):
        return name
    return {"regex": name.pattern, "flags": "i" if name.flags & re.I else ""}


@contextmanager
def running_browser() -> Iterator[Browser]:
    home = Path(os.environ.get("STOPGO_NPM_DIR", ""))
    installed = home / "node_modules" / "playwright-core"
    assert installed.exists(), "playwright-core is not installed in STOPGO_NPM_DIR: run `make page`"
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    assert chromium, "there is no chromium: install the package of that name, or name one in CHROMIUM"
    # Proxies of this machine lead nowhere near the agent.
    env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    argv = ["node", str(HERE / "driver.mjs"), chromium]
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Browser(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait()
            except subprocess.TimeoutExpired:
                process.kill()
