"""The report of a run names what failed, and how to repeat it; no failure hides another stage."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tiers import run
from tests.tiers.families import EACH_CASE, FIGURES, MARKED, NO_PROOF, PROGRAMS, SLICES
from tests.tiers.run import LONGEST_REPORT, Choice, Stage, main, phases
from tests.tiers.slices import Slice

ROOT = Path(__file__).parents[2]
CHOICE = Choice(Slice(3, 8), 7)


@pytest.fixture(autouse=True)
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(run, "BUILD", tmp_path)
    monkeypatch.setenv("SLICE", "3/8")
    monkeypatch.setenv("SEED", "7")
    return tmp_path


def stages_are(monkeypatch: pytest.MonkeyPatch, *codes: str) -> None:
    stages = [Stage(f"stage-{number}", (sys.executable, "-c", code)) for number, code in enumerate(codes)]

    def only_these(*_: object) -> Iterator[tuple[int, list[Stage]]]:
        yield 1, stages[:1]
        yield 2, stages[1:]

    monkeypatch.setattr(run, "phases", only_these)


FAILING_TEST = """
import json, os
for number in range({number}):
    line = {{"test": f"tests/x/test_y.py::test_{{number}}[a b]", "line": "assert 1 == 2"}}
    open(os.environ["FAILURES"], "a").write(json.dumps(line) + "\\n")
raise SystemExit(1)
"""


def test_stages_after_a_failure_run_and_are_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], build: Path
) -> None:
    stages_are(
        monkeypatch, FAILING_TEST.format(number=1), "print('fine')", "raise SystemExit('no such thing')"
    )
    assert main(["gate"]) == 1
    report = capsys.readouterr().out.partition("=== report\n")[2].splitlines()
    assert [line.split()[:2] for line in report[:3]] == [
        ["stage-0", "failed"],
        ["stage-1", "passed"],
        ["stage-2", "failed"],
    ]
    assert "SLICE=3/8 SEED=7" in report[3]
    assert report[4:8] == [
        "stage-0 failed:",
        "  tests/x/test_y.py::test_0[a b]",
        "    assert 1 == 2",
        """    to repeat: make test ARGS=''"'"'tests/x/test_y.py::test_0[a b]'"'"' --seed=7'""",
    ]
    assert "  no such thing" in report[8:]
    assert report[-1] == "1 passed, 2 failed"
    assert (build / "stage-1.log").read_text() == "fine\n"


def test_a_report_of_many_failures_fits_on_a_screen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stages_are(monkeypatch, FAILING_TEST.format(number=100))
    main(["gate"])
    report = capsys.readouterr().out.partition("=== report\n")[2].splitlines()
    assert len(report) <= LONGEST_REPORT
    assert report[-2:] == ["the whole run again: SLICE=3/8 SEED=7 .ci/run", "0 passed, 1 failed"]


def test_a_run_begins_at_the_named_stage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stages_are(monkeypatch, "raise SystemExit(1)", "raise SystemExit(1)", "")
    assert main(["all", "stage-2"]) == 0
    assert "1 passed, 0 failed" in capsys.readouterr().out


def test_an_unknown_stage_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stages_are(monkeypatch, "", "")
    assert main(["all", "stage-9"]) == 2
    assert "no stage stage-9; there are: stage-0, stage-1" in capsys.readouterr().err


def test_each_stage_has_a_target_and_each_family_runs_somewhere() -> None:
    targets = set(re.findall(r"^([\w -]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    known = {word for target in targets for word in target.split()}
    for tier in ("check", "gate", "all"):
        for _, stages in phases(tier, CHOICE):
            assert {stage.command[2] for stage in stages if stage.command[0] == "make"} <= known
    named = {stage.name for _, stages in phases("all", CHOICE) for stage in stages}
    assert {family.name for family in (*MARKED, *PROGRAMS)} | set(FIGURES) <= named
    assert {family.slices for family in (*MARKED, *PROGRAMS)} <= {0, *range(1, SLICES + 1)}


def test_families_name_markers_and_tests_that_exist() -> None:
    declared = (ROOT / "pyproject.toml").read_text()
    assert [family.name for family in MARKED if f'    "{family.name}: ' not in declared] == []
    beginnings = [each for family in MARKED for each in family.smoke]
    for beginning in (*beginnings, *EACH_CASE, *NO_PROOF):
        path, _, name = beginning.partition("::")
        file = ROOT / "tests" / path
        assert file.exists(), beginning
        if name:
            assert f"def {name}" in file.read_text(), beginning


def test_the_commit_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLICE")
    monkeypatch.delenv("SEED")
    assert Choice.of("gate") == Choice.of("check")
    assert Choice.of("gate").part.of == SLICES
    assert Choice.of("all") != Choice.of("all")
