"""Writes the data directory of a version, and what that version says about it:

    python -m tests.e2e.write_upgrade 0.1

A word behind the version, as in `0.1-verdicts`, names the form of what it writes, if that changed within it.
The agent file, its script and the story lie in testdata/upgrade/VERSION; those of the last version will do.
Run it once, with the code that is released: what it writes is never written again.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import yaml

from tests.e2e.conftest import Servers
from tests.e2e.upgrade import UPGRADE, guarded, play, start, tell


def write(place: Path) -> None:
    story = yaml.safe_load((place / "story.yaml").read_text())
    servers = Servers()
    with tempfile.TemporaryDirectory() as folder:
        data_dir, kept = Path(folder, "data"), place / "data"
        try:
            with guarded(Path(folder, "guarded.jsonl")) as url:
                for life in story["lives"]:
                    server = start(servers, place, data_dir, url, life)
                    play(server, life["steps"])
                    server.run.kill()
            with closing(sqlite3.connect(data_dir / "journal.db")) as db:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            kept.mkdir(exist_ok=True)
            for name in ("journal.db", "journal.lock"):
                shutil.copyfile(data_dir / name, kept / name)
            told = tell(servers, place, shutil.copytree(kept, Path(folder, "copy")))
        finally:
            servers.stop_all()
    text = json.dumps(told, indent=1, ensure_ascii=False)
    (place / "transcript.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    if not version("agent-stop-and-go").startswith(f"{sys.argv[1].partition('-')[0]}."):
        sys.exit(f"this is version {version('agent-stop-and-go')}")
    write(UPGRADE / sys.argv[1])
