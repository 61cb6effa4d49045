"""The values of references in configuration files: environment variables, and files (`${file:PATH}`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs

from .interpolate import FILE

MAX_BYTES = 65_536
"""Maximum size of a file that a reference names."""


class UnreadableFile(Exception):
    """A file that a reference names has no usable content. The text names the file and the reason."""


@attrs.frozen(eq=False)
class Variables:
    """Looks references up. A file is read once, so all references to it have one value."""

    environ: Mapping[str, str]
    folder: Path
    """Paths are relative to it."""
    _contents: dict[str, str | UnreadableFile] = attrs.field(factory=dict, repr=False)

    def get(self, name: str) -> str | None:
        """The value of a reference by name; None if it is a variable that is not set.

        Raises:
            UnreadableFile
        """
        if not name.startswith(FILE):
            return self.environ.get(name)
        path = name.removeprefix(FILE)
        if path not in self._contents:
            try:
                self._contents[path] = _read(self.folder / path)
            except _Unusable as error:
                self._contents[path] = UnreadableFile(f"cannot read {path}: {error}")
        content = self._contents[path]
        if isinstance(content, UnreadableFile):
            raise content
        return content


class _Unusable(Exception):
    """The text says why."""


def _read(path: Path) -> str:
    try:
        if not path.is_file():  # a device or a pipe may never end
            raise _Unusable("it is not a file" if path.exists() else "there is no such file")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: the path has a null character
        raise _Unusable(getattr(error, "strerror", None) or "the path is not valid") from None
    if len(content) > MAX_BYTES:
        raise _Unusable(f"it is larger than {MAX_BYTES} bytes")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise _Unusable("it is not UTF-8 text") from None
    text = text.removesuffix("\n").removesuffix("\r")
    if not text or "\0" in text:
        raise _Unusable("it contains a null character" if text else "it is empty")
    return text
