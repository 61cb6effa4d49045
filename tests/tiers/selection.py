"""A plugin of pytest: which tests a tier runs, in which order, and from which seed.

* `--tests proof` runs the proof for users, `--tests light` all tests outside of the families, `--tests
  slices` a slice of each family, `--family NAME` all tests of a family. Without any of these, all tests that
  were named run.
* Files come in the order of their times, the longest first, so that two workers end
  together.
* All chance comes from `--seed`: hypothesis, `random`, and the order in which trio runs tasks. Without the
  option it is drawn. It is printed in any case, because it repeats a failure.
* The time limit of a test (`faulthandler_timeout` in pyproject.toml) ends one that hangs, and nothing else.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import trio._core._run as trio_run

from tests.repetition import REPETITION
from tests.tiers.failures import first_difference
from tests.tiers.families import EACH_CASE, IN_PROOF, MARKED, NO_PROOF, STORIES
from tests.tiers.slices import Slice, deal, file_of, times, units_of, weights_of

SECONDS = Path(__file__).with_name("seconds.json")
"""The mean time of a case of each file, written by `--times`."""
CHOICES = ("proof", "light", "slices")

# Tasks that are ready at the same time run in an order that trio draws; without this, the order before the
# draw is that of addresses in memory.
trio_run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]  # a switch for tests


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption("--tests", choices=CHOICES, help="which tests run")
    group.addoption("--family", choices=[family.name for family in MARKED], help="the tests of a family")
    group.addoption("--slice", default="1/8", help="the part of each family, such as 3/8")
    group.addoption("--seed", type=int, help="the seed of all chance")
    group.addoption("--failures", help="a file for what failed, a JSON text for each line")
    group.addoption("--times", help="a table like seconds.json, which gets the times of this run")


@pytest.hookimpl(tryfirst=True)  # before hypothesis reads its seed
def pytest_configure(config: pytest.Config) -> None:
    if config.option.seed is None:
        config.option.seed = random.SystemRandom().randrange(1 << 32)
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(config.option.seed)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reporter(config))


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed: {config.option.seed} (to repeat: --seed={config.option.seed})"


def pytest_runtest_setup(item: pytest.Item) -> None:
    seed = crc32(f"{item.nodeid} {item.stash.get(REPETITION, 1)} {item.config.option.seed}".encode())
    random.seed(seed)
    trio_run._r.seed(seed)


# ------------------------------------------------------------------ which tests, and in which order


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    choice: str | None = config.option.tests
    family: str | None = config.option.family
    seconds: dict[str, float] = json.loads(SECONDS.read_text())
    if choice is not None:
        found = selected(items, choice, Slice.parse(config.option.slice), config.option.seed, seconds)
    elif family is not None:
        found = [item for item in items if family_of(item) == family]
    else:
        return
    lasting = times(map(name_of, found), seconds)
    kept = set(found)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = sorted(found, key=lambda item: -lasting[file_of(name_of(item))])


def selected(
    items: Sequence[pytest.Item], choice: str, part: Slice, seed: int, seconds: Mapping[str, float]
) -> list[pytest.Item]:
    """In the order of the items."""
    families: dict[str, dict[str, pytest.Item]] = {}
    for item in items:
        families.setdefault(family_of(item), {})[name_of(item)] = item
    light = list(families.pop("", {}))
    found = set(proof(light) if choice == "proof" else light if choice == "light" else ())
    for family in MARKED:
        cases = list(families.get(family.name, {}))
        if choice == "slices" and cases and family.slices:
            units = units_of(cases, seconds, family.slices)
            dealt = deal(weights_of(units, seconds), family.slices, seed)
            mine = part.within(family.slices).number
            found.update(
                case
                for case in cases
                if dealt[units[case]] == mine or case.startswith(family.smoke or ("\0",))
            )
    return [item for item in items if name_of(item) in found]


def family_of(item: pytest.Item) -> str:
    """The name of the first family whose marker the test has, or ""."""
    return next((family.name for family in MARKED if item.get_closest_marker(family.name)), "")


def proof(cases: Iterable[str]) -> Iterable[str]:
    """What `make test` runs: each story, and the first tests of each other file, with their first cases."""
    tests: dict[str, str] = {}
    taken = Counter[str]()
    for case in cases:
        test = case if case.startswith(EACH_CASE) else case.partition("[")[0]
        if case.startswith(NO_PROOF) or test in tests:
            continue
        file = file_of(case)
        if taken[file] < IN_PROOF or case.startswith((*STORIES, *EACH_CASE)):
            taken[file] += 1
            tests[test] = case
    return tests.values()


def name_of(item: pytest.Item) -> str:
    return item.nodeid.removeprefix("tests/")


# ------------------------------------------------------------------ reports


class Reporter:
    """Of the controlling process: says how long the run will take, and keeps failures and times in files."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.seconds: dict[str, float] = {}
        self.cases: dict[str, set[str]] = {}
        self.announced = False

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        if self.announced:
            return
        self.announced = True
        seconds: dict[str, float] = json.loads(SECONDS.read_text())
        names = [id.removeprefix("tests/") for id in ids]
        workers = self.config.option.numprocesses
        about = sum(times(names, seconds).values()) / workers
        self.config.get_terminal_writer().line(
            f"\n{len(ids):,} tests, about {about:.0f} s on {workers} idle cores"
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = file_of(report.nodeid.removeprefix("tests/"))
        self.seconds[file] = self.seconds.get(file, 0.0) + report.duration
        self.cases.setdefault(file, set()).add(report.nodeid)
        self.pytest_collectreport(report)

    def pytest_collectreport(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed and self.config.option.failures:
            with open(self.config.option.failures, "a") as file:
                line = {"test": report.nodeid, "line": first_difference(report.longreprtext)}
                file.write(json.dumps(line) + "\n")

    def pytest_sessionfinish(self) -> None:
        if self.config.option.times:
            path = Path(self.config.option.times)
            table = json.loads(path.read_text()) if path.exists() else {}
            for file, seconds in self.seconds.items():
                table[file] = round(seconds / len(self.cases[file]), 3)
            path.write_text(json.dumps(table, indent=0, sort_keys=True) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable(report: object) -> Generator[None, Any, Any]:
    """What tests print may have lone surrogates, which a worker cannot send."""
    return encodable((yield))


def encodable(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case list() | tuple():
            return type(value)(map(encodable, value))
        case dict():
            return {encodable(name): encodable(each) for name, each in value.items()}
    return value
