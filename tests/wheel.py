"""The wheel as a release makes it, through the sdist."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PARTS = ("actors", "config", "gateway", "runtime")
FACE = ("__init__.py", "py.typed")
SOURCES = (*FACE, "pyproject.toml", "README.md", "LICENSE")


def build(tree: Path) -> Path:
    """Build it from a copy in the empty folder `tree`, for a build leaves files behind."""
    for part in PARTS:
        shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
    for source in SOURCES:
        shutil.copy(ROOT / source, tree)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", "."]
    run = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert len(list((tree / "dist").glob("*.tar.gz"))) == 1
    [path] = (tree / "dist").glob("*.whl")
    return path
