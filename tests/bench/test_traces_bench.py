"""The cost of traces that are exported to a receiver in another process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.telemetry.receiver import receiving

from .compared import Setting, compare


@pytest.mark.bench
def test_traces_with_export(tmp_path: Path) -> None:
    with receiving() as receiver:
        traces = Setting(options=["--traces", receiver.url])
        # The encoder of the SDK takes half of it. A busy machine does not reach the bound.
        compare("traces with export", tmp_path, traces, target=1.15, bound=1.45)
    assert receiver.violations == []
    assert receiver.spans
