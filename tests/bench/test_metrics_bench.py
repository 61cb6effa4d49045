"""The cost of metrics."""

from __future__ import annotations

from pathlib import Path

import pytest

from .compared import Setting, compare


@pytest.mark.bench
def test_metrics(tmp_path: Path) -> None:
    # A busy machine does not reach the bound: there, the ratios of single rounds differ by more than a tenth.
    compare("metrics", tmp_path, Setting(options=("--metrics", "127.0.0.1:0")), target=1.03, bound=1.10)
