"""Names in credentials: subjects, API keys. Pure."""

from __future__ import annotations

import re

from ...actors.access.principal import KEY_PREFIX

KEY_MARK = "sg_"
"""Begins every API key."""
MAX_SUBJECT = 200
"""Characters."""
_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,64}")


def is_subject(text: str) -> bool:
    """Whether the text can be a subject: the name by which a credential names a person or a program."""
    return (
        0 < len(text) <= MAX_SUBJECT
        and text.isprintable()
        and text == text.strip()
        and not text.startswith(KEY_PREFIX)
    )


def is_key_name(text: str) -> bool:
    """Whether the text can be the name of an API key."""
    return _NAME.fullmatch(text) is not None
