"""The processes of `make neighbours` end with it, and a failed installation is begun again."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

import pytest

from tests.neighbours.processes import fresh, limited, running
from tests.waiting import line_with

CHILD = "import signal; print('started', flush=True); signal.pause()"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}])"


def test_children_of_a_process_end_with_the_block_that_fails() -> None:
    outputs: list[IO[str]] = []

    def use() -> None:
        with running([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            outputs.append(process.stdout)
            line_with("started", process.stdout)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        use()
    # The child has the other end: the output ends when no process of the group is left.
    with outputs[0] as output:
        assert output.read() == ""


def test_a_block_without_end_is_left() -> None:
    with pytest.raises(TimeoutError, match="no end after 1 seconds"), limited(1):
        threading.Event().wait()


def test_failed_installation_is_begun_anew(tmp_path: Path) -> None:
    def install(half: str) -> None:
        with fresh(tmp_path / "sdk") as needed:
            found.append((needed, list((tmp_path / "sdk").glob("half*"))))
            (tmp_path / "sdk" / half).touch()
            if half == "half":
                raise RuntimeError

    found: list[tuple[bool, list[Path]]] = []
    with pytest.raises(RuntimeError):
        install("half")
    install("whole")
    install("again")
    assert found == [(True, []), (True, []), (False, [])]
