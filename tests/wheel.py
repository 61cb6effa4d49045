"""The sdist and the wheel as a release makes them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PARTS = ("actors", "config", "gateway", "runtime")
FACE = ("__init__.py", "py.typed")
EPOCH = 1_700_000_000
"""Seconds: the time of every file in the wheel."""
LEFT_OUT = shutil.ignore_patterns(
    ".*",
    "__pycache__",
    "build",
    "canary.py",  # its secrets must not be in what tests leave behind
    "data",
    "dist",
    "*.egg-info",
)


def build(tree: Path) -> Path:
    """Build both from a copy of the repository in `tree`, for a build leaves files behind. The wheel."""
    shutil.copytree(ROOT, tree, ignore=LEFT_OUT, dirs_exist_ok=True)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", "."]
    run = subprocess.run(
        command,
        cwd=tree,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    [path] = (tree / "dist").glob("*.whl")
    return path
