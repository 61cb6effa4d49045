"""The cost of authentication by API key."""

from __future__ import annotations

from pathlib import Path

import pytest

from stopgo.gateway.auth.key_changes import new_key
from stopgo.gateway.auth.key_file import KeyFile

from .compared import Setting, compare


@pytest.mark.bench
def test_authentication_by_key(tmp_path: Path) -> None:
    with KeyFile.in_directory(tmp_path / "on").changing() as stored:
        key, text = new_key(stored, "bench", ("operator",), "someone", now=0.0)
        stored.append(key)
    keys = Setting("auth: {api_keys: true}\n", headers={"X-API-Key": text})
    # A busy machine does not reach the bound: there, the ratios of single rounds differ by more than a tenth.
    compare("authentication by key", tmp_path, keys, target=1.03, bound=1.10)
