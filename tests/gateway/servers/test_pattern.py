from __future__ import annotations

import re
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.gateway.servers import pattern
from stopgo.gateway.servers.pattern import InvalidPattern, matching


@given(st.lists(st.text(alphabet="ab-1", max_size=6)), st.text(alphabet="ab.-|", max_size=4))
def test_pattern_matches_anywhere(names: list[str], text: str) -> None:
    assert matching(text, names) == [name for name in names if re.search(text, name)]


def test_anchored_pattern_matches_the_whole_name() -> None:
    assert matching("test-1", ["test-1", "test-10"]) == ["test-1", "test-10"]
    assert matching("^test-1$", ["test-1", "test-10"]) == ["test-1"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(", "missing ), unterminated subpattern"),
        ("a{99999999999}", "invalid pattern"),
        ("(" * 900 + ")" * 900, "longer than 1000 characters"),
        ("a" * 1001, "longer than 1000 characters"),
    ],
)
def test_invalid_pattern_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidPattern, match=re.escape(reason)):
        matching(text, ["a"])


def test_catastrophic_pattern_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pattern, "MAX_SECONDS", 0.2)
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(InvalidPattern, match=r"longer than 0\.2 s"):
        matching("(a+)+$", ["a" * 60 + "!"])
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert matching("a", ["a"]) == ["a"]
