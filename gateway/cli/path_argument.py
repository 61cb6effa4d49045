"""Paths on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path


def path(text: str) -> Path:
    """The type of an argument that is a path. An empty one, as of a shell variable that is not set, would
    be the working directory."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty")
    return Path(text)
