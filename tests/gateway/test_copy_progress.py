"""The progress of a copy, and the processes that prevent one."""

from __future__ import annotations

import io

import pytest

from stopgo.actors.common.fleet import Process, written
from stopgo.gateway.cli.commands.copy_progress import CopyProgress, lasting, progress_line
from stopgo.gateway.cli.commands.journal_command import member_line
from stopgo.runtime.journal.copied_rows import LivingMember
from stopgo.runtime.stores.transfer import CopyPhase


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0 s"),
        (0.2, "1 s"),
        (59.5, "1 min 0 s"),
        (61, "1 min 1 s"),
        (3600, "1 h 0 min"),
        (200_000, "2 d 7 h"),
    ],
)
def test_lengths_of_time(seconds: float, words: str) -> None:
    assert lasting(seconds) == words


def test_line_has_count_rate_and_time_left() -> None:
    assert (
        progress_line("copying", 500_000, 3_400_000, 10.0)
        == "copying: 500,000 of 3,400,000 rows (14 %), 50,000 a second, 58 s left"
    )


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (
            80,
            "\rcopying: 1 of 4 rows (25 %), 1 a second, 3 s left\x1b[K"
            "\rcopying: 3 of 4 rows (75 %), 0 a second, 4 s left\x1b[K"
            "\rcomparing: 2 of 4 rows (50 %), 1 a second, 2 s left\x1b[K\r\x1b[K",
        ),
        (20, "\rcopying: 1 of 4 row\x1b[K\rcopying: 3 of 4 row\x1b[K\rcomparing: 2 of 4 r\x1b[K\r\x1b[K"),
        (None, "copying: 3 of 4 rows (75 %), 0 a second, 4 s left\n"),
    ],
)
def test_lines_in_place_at_a_terminal_and_now_and_then_elsewhere(width: int | None, expected: str) -> None:
    stream, now = io.StringIO(), 0.0
    progress = CopyProgress(stream, width, lambda: now)
    told: list[tuple[CopyPhase, float, int]] = [
        ("copying", 0.0, 0),
        ("copying", 0.1, 1),
        ("copying", 1.0, 1),
        ("copying", 10.1, 3),
        ("comparing", 20.0, 1),
        ("comparing", 22.0, 2),
    ]
    for step, at, done in told:
        now = at
        progress.tell(step, done, 4)
    progress.end()
    assert stream.getvalue() == expected


@pytest.mark.parametrize(
    ("about", "process"),
    [
        (
            written(Process("host-1", 4711, "1.2.0", 400.0)),
            "process 4711 on host-1, version 1.2.0, started 10 min 0 s ago",
        ),
        (
            written(Process("h\x1b[2J", 4711, "1.2.0", 2000.0)),
            "process 4711 on h\\x1b[2J, version 1.2.0, started 0 s ago",
        ),
        ("", "a process that did not describe itself"),
    ],
)
def test_process_that_prevents_a_copy_is_named(about: str, process: str) -> None:
    """The other process has stated its host; its clock may be ahead."""
    assert member_line(LivingMember("n1", about, 7.2), 1000.0) == f"node n1: {process}; its lease ends in 8 s"
