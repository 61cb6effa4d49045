"""Why a model named in the configuration cannot be used. Raised at start-up, never by a call."""

from __future__ import annotations

from typing import ClassVar


class ModelUnusable(Exception):
    """Base; the text is a sentence for whoever wrote the configuration."""

    code: ClassVar[str] = "model_unusable"


class UnknownProvider(ModelUnusable):
    """No model goes by this name here."""

    code: ClassVar[str] = "unknown_provider"


class UnreadableScript(ModelUnusable):
    """A script file that is not there, or cannot be read."""

    code: ClassVar[str] = "unreadable_script"


class InvalidScript(ModelUnusable):
    """A script file that holds mistakes."""

    code: ClassVar[str] = "invalid_script"

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
        """One `file:line:column: key: sentence` each, in the order of the file."""
