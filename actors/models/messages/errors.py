"""Errors of models that the configuration names. They are raised at startup, never by a call."""

from __future__ import annotations

from typing import ClassVar


class ModelUnusable(Exception):
    """Base of these errors. The text is for the author of the configuration."""

    code: ClassVar[str] = "model_unusable"


class UnknownProvider(ModelUnusable):
    """There is no model of this name."""

    code: ClassVar[str] = "unknown_provider"


class UnreadableScript(ModelUnusable):
    """A script file does not exist or cannot be read."""

    code: ClassVar[str] = "unreadable_script"


class InvalidScript(ModelUnusable):
    """A script file has mistakes."""

    code: ClassVar[str] = "invalid_script"

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
        """The mistakes in the order of the file, each as `file:line:column: key: sentence`."""


class UnacceptedSetting(ModelUnusable):
    """The family of the model does not accept a setting."""

    code: ClassVar[str] = "unaccepted_setting"
