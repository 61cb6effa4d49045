"""Each mutant of `make mutants` still fits the source. That its tests notice it takes minutes."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from tests.crash.edits import Edit, Words
from tests.crash.mutants import MUTANTS, Mutant, misfits


def test_each_mutant_fits_the_source_and_has_its_tests() -> None:
    assert misfits(MUTANTS) == []


def test_each_mutant_changes_something_and_has_a_name_of_its_own() -> None:
    assert [each.name for each in MUTANTS if any(edit.old == edit.new for edit in each.edits)] == []
    assert [name for name, count in Counter(each.name for each in MUTANTS).items() if count > 1] == []


def test_mutant_that_does_not_fit_is_reported() -> None:
    here = "tests/crash/test_mutants_fit.py"
    found = misfits(
        (
            Mutant("gone", (Edit("runtime.clock:WallClock", "no_such.name", "1"),), (here,)),
            Mutant("gone, its symbol", (Edit("runtime.clock:NoClock", "self", "1"),), (here,)),
            Mutant("gone, its file", (Edit("runtime.no_clock:WallClock", "self", "1"),), (here,)),
            Mutant("twice", (Edit("tests.crash.edits:_span", "first", "last"),), (here,)),
            Mutant("tests", (), (f"{here}::test_gone", "tests/gone.py", f"{here}::test_mutant_that[1]")),
        )
    )
    names = ["gone", "gone, its symbol", "gone, its file", "twice", "tests", "tests", "tests"]
    assert [each.partition(":")[0] for each in found] == names


SOURCE = """\
LIMIT: int = 3


class Door:
    @property
    def is_open(self) -> bool:
        # why
        return (self.lock is None
                and not self.kept_shut)

    async def close(self) -> None:
        async with self.moving:
            await self.push(f"{self.name} closes")
            self.count += 1
        log("closed")
"""


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (Edit("m:Door.is_open", "not self.kept_shut", "True"), "                and (True))"),
        (
            Edit("m:Door.is_open", "self.lock is None and not self.kept_shut", "False"),
            "        return ((False))",
        ),
        (Edit("m:Door.close", "self.count += 1", ""), "            pass"),
        (
            Edit("m:Door.close", "await self.push(f'{self.name} closes')\nself.count += 1", "pass"),
            "            pass",
        ),
        (Edit("m:LIMIT", "3", "4"), "LIMIT: int = (4)"),
        (Edit("m:Door.close", "log('closed')", "if self:\n    log('shut')"), "            log('shut')"),
        (Words("m:Door.close", "} closes", "} opens"), '            await self.push(f"{self.name} opens")'),
    ],
)
def test_edit_finds_its_pattern_however_it_is_laid_out(edit: Edit, line: str) -> None:
    changed = edit.edited(SOURCE)
    ast.parse(changed)
    assert line in changed.splitlines()
    assert line not in SOURCE.splitlines()
