"""Each mutant of `make mutants` still fits the source. That its tests notice it takes minutes."""

from __future__ import annotations

from collections import Counter

from tests.crash.mutants import MUTANTS, Edit, Mutant, misfits


def test_each_mutant_fits_the_source_and_has_its_tests() -> None:
    assert misfits(MUTANTS) == []


def test_each_mutant_changes_something_and_has_a_name_of_its_own() -> None:
    assert [each.name for each in MUTANTS if any(edit.old == edit.new for edit in each.edits)] == []
    assert [name for name, count in Counter(each.name for each in MUTANTS).items() if count > 1] == []


def test_mutant_that_does_not_fit_is_reported() -> None:
    here = "tests/crash/test_mutants_fit.py"
    found = misfits(
        (
            Mutant("gone", (Edit("Makefile", "no such " + "text", ""),), (here,)),
            Mutant("twice", (Edit("Makefile", "make", ""),), (here,)),
            Mutant("tests", (), (f"{here}::test_gone", "tests/gone.py", f"{here}::test_mutant_that[1]")),
        )
    )
    assert [each.partition(":")[0] for each in found] == ["gone", "twice", "tests", "tests", "tests"]
