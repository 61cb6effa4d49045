"""Edits a text in the person's editor."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Mapping

import trio


class EditorFailed(Exception):
    """The text is a sentence with the reason."""


def editor_of(environ: Mapping[str, str]) -> str:
    """The command of the editor."""
    return environ.get("EDITOR") or environ.get("VISUAL") or "vi"


async def edited_text(text: str, name: str) -> str:
    """The edited text. `name` is the name of the file, which only its owner can read.

    Raises:
        EditorFailed
    """
    editor = editor_of(os.environ)
    with tempfile.TemporaryDirectory(prefix="stopgo-") as folder:
        file = trio.Path(folder, name)
        await file.write_text(text, encoding="utf-8")
        try:
            ended = await trio.run_process([*shlex.split(editor), str(file)], stdin=None, check=False)
            if ended.returncode:
                raise EditorFailed(f"the editor {editor!r} ended with exit code {ended.returncode}")
            return await file.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            hint = "set the environment variable EDITOR to another editor"
            raise EditorFailed(f"the editor {editor!r} cannot be used: {error}; {hint}") from error
