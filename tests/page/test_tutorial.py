from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .browser import Browser
from .tutorial import WORDS, follow

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve

pytestmark = pytest.mark.page

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial-page.md"


def test_the_tutorial_can_be_followed(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    pictures: list[str] = []
    tab = follow(serve, tmp_path / "data", browser, lambda tab, name: pictures.append(name))
    tab.link(re.compile("^Agent")).click()
    tab.main.role("heading", "Tools").see()
    text = " ".join(TUTORIAL.read_text(encoding="utf-8").split())
    assert [word for word in WORDS if word not in text] == []
    assert [name for name in pictures if f"images/{name}.png" not in text] == []
