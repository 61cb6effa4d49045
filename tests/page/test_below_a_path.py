"""The page below the path of `public_url`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .agents import keeper
from .browser import Browser
from .steps import say

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve

pytestmark = pytest.mark.page


def test_a_turn_with_an_approval_below_a_path(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    """Its files, requests and websockets are found there."""
    settings: dict[str, Any] = {"server": {"public_url": "https://agents.example/desk/one"}}
    server = serve(tmp_path / "data", config=keeper(tmp_path / "agent", **settings))
    tab = browser.open(server.run.url, "/desk/one/")
    say(tab, "add lamp with value 3")
    tab.main.button("Approve").click()
    tab.main.text(re.compile("Added lamp = 3")).see()
