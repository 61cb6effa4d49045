"""Why a process could not begin or go on, for people."""

from __future__ import annotations


def sentences(error: BaseException) -> list[str]:
    """Everything that is wrong, a line each, out of any groups."""
    if isinstance(error, BaseExceptionGroup):
        return [sentence for inner in error.exceptions for sentence in sentences(inner)]
    return str(error).splitlines() or [type(error).__name__]
