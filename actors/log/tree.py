"""The name of a tree's text: what `run.started` refers to once a conversation holds the text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping


def tree_id(tree: Mapping[str, object]) -> str:
    """Equal texts have equal ids, on every machine."""
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
