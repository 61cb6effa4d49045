"""Which part of a family a run takes: pure functions.

A family is dealt into n slices of about the same weight, anew for each seed. The seed comes from the commit,
so a run of the same commit with the same slice is the same run, and the slices 1/n to n/n of one commit are
the whole family.

1. The heaviest units are dealt first, each to the slice with the least weight so far.
2. The seed decides between slices of equal weight, and the order of units of equal weight.
3. A unit is a file of tests. A file with more than its slice's share of the family is dealt by its cases.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from zlib import crc32

import attrs

MOST_SLICES = 1000
USUAL = 0.02
"""Seconds of a case that is not in the table."""


@attrs.frozen
class Slice:
    """Slice `number` of `of`, counted from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Slice:
        """Raises ValueError for a text that is not `K/N` with 1 <= K <= N."""
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]) <= MOST_SLICES:
            raise ValueError(f"a slice is K/N, such as 3/8, with K from 1 to N: {text!r}")
        return cls(int(match[1]), int(match[2]))

    def within(self, slices: int) -> Slice:
        """The slice of a family that has this many: 5/8 is 1/2."""
        return Slice((self.number - 1) % slices + 1, slices)

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def deal(units: Mapping[str, float], slices: int, seed: int) -> dict[str, int]:
    """The number of the slice of each unit. `units` has the weight of each."""

    def chance(*words: object) -> int:
        return crc32(" ".join(map(str, (*words, seed))).encode())

    weights = [0.0] * slices
    numbers = [0] * slices
    dealt: dict[str, int] = {}
    for unit in sorted(units, key=lambda unit: (-units[unit], chance(unit))):
        lightest = min(range(slices), key=lambda n: (weights[n], numbers[n], chance(unit, n)))
        dealt[unit] = lightest + 1
        weights[lightest] += units[unit]
        numbers[lightest] += 1
    return dealt


def units_of(cases: Sequence[str], seconds: Mapping[str, float], slices: int) -> dict[str, str]:
    """The unit of each case, which is the path of its file or, in a heavy file, the case itself.

    `cases` are ids of pytest; `seconds` has the mean time of a case of each file.
    """
    lasting = times(cases, seconds)
    share = sum(lasting.values()) / slices
    return {case: case if lasting[file_of(case)] > share else file_of(case) for case in cases}


def weights_of(units: Mapping[str, str], seconds: Mapping[str, float]) -> dict[str, float]:
    """The weight of each unit, from the mean time of a case of each file."""
    weights: dict[str, float] = {}
    for case, unit in units.items():
        weights[unit] = weights.get(unit, 0.0) + seconds.get(file_of(case), USUAL)
    return weights


def times(cases: Iterable[str], seconds: Mapping[str, float]) -> dict[str, float]:
    """The time of each file, of which these cases run."""
    return weights_of({case: file_of(case) for case in cases}, seconds)


def file_of(case: str) -> str:
    return case.partition("::")[0]


def chosen(units: Sequence[str], arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The units of a program that its arguments select, and the other arguments.

    `--slice=K/N` and `--seed=NUMBER` select a part of units of the same weight. Raises ValueError for a wrong
    slice.
    """
    options = dict(
        word.removeprefix("--").split("=", 1)
        for word in arguments
        if word.startswith(("--slice=", "--seed="))
    )
    others = [word for word in arguments if not word.startswith(("--slice=", "--seed="))]
    if "slice" not in options:
        return list(units), others
    part = Slice.parse(options["slice"])
    part = part.within(min(part.of, len(units)))
    dealt = deal(dict.fromkeys(units, 1.0), part.of, int(options.get("seed", "0")))
    return [unit for unit in units if dealt[unit] == part.number], others
