"""Which tests a tier runs, and what a run says about itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.tiers import selection
from tests.tiers.families import Family
from tests.tiers.selection import encodable, selected
from tests.tiers.slices import Slice

ROOT = Path(__file__).parents[2]
FAMILIES = (Family("figures", 0), Family("crash", 4, ("crash/a.py::test_smoke",)), Family("agents", 2))


def item(id: str, *markers: str) -> Any:
    return SimpleNamespace(
        nodeid=f"tests/{id}", get_closest_marker=lambda name: name if name in markers else None
    )


ITEMS = [
    *(item(f"light.py::test_cases[{number}]") for number in range(3)),
    item("light.py::test_alone"),
    item("light.py::test_further"),
    item("light.py::test_beyond"),
    item("test_house.py::test_lines"),
    *(item(f"e2e/test_providers.py::test_the_story[{name}]") for name in "ab"),
    item("e2e/test_providers.py::test_at_work"),
    item("e2e/test_providers.py::test_at_the_end"),
    *(item(f"crash/a.py::test_kill[{number}]", "crash") for number in range(9)),
    item("crash/a.py::test_smoke[1]", "crash"),
    *(item(f"agents/{name}.py::test_x", "agents", "npm") for name in "abc"),
    item("bench.py::test_speed", "figures", "agents"),
]


def names(choice: str, part: str = "1/4") -> list[str]:
    chosen = selected(ITEMS, choice, Slice.parse(part), 7, {"crash/a.py": 1.0})
    return [each.nodeid.removeprefix("tests/") for each in chosen]


@pytest.fixture(autouse=True)
def families(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "MARKED", FAMILIES)
    monkeypatch.setattr(selection, "IN_PROOF", 3)


def test_the_proof_is_each_story_and_the_first_tests_of_other_files() -> None:
    assert names("proof") == [
        "light.py::test_cases[0]",
        "light.py::test_alone",
        "light.py::test_further",
        "e2e/test_providers.py::test_the_story[a]",
        "e2e/test_providers.py::test_the_story[b]",
        "e2e/test_providers.py::test_at_work",
        "e2e/test_providers.py::test_at_the_end",
    ]


def test_light_is_each_test_outside_of_the_families() -> None:
    assert names("light") == [each.nodeid.removeprefix("tests/") for each in ITEMS[:11]]


def test_a_run_has_a_slice_and_the_smoke_of_each_family() -> None:
    runs = [names("slices", f"{number}/4") for number in range(1, 5)]
    for run in runs:
        assert "crash/a.py::test_smoke[1]" in run
        assert "bench.py::test_speed" not in run
        assert 1 <= sum(name.startswith("crash/a.py::test_kill") for name in run) <= 3
    in_families = {name for run in runs for name in run}
    assert in_families == {each.nodeid.removeprefix("tests/") for each in ITEMS[11:-1]}


SAMPLE = """
import random
import pytest
import trio
from hypothesis import given, strategies as some

drawn = []

@given(some.integers())
def test_drawn(number):
    drawn.append(number)

def test_chance():
    drawn.append(random.random())

async def test_order():
    order = []
    async def one(number):
        order.append(number)
    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(one, number)
    drawn.append(order)

def test_told():
    print(drawn)
    print("lone surrogate: \\udc80")
    assert False
"""


def sampled(folder: Path, *options: str) -> tuple[str, str]:
    """The output of a run of the sample, and what its file of failures has."""
    (folder / "test_sample.py").write_text(SAMPLE)
    (folder / "pytest.ini").write_text("[pytest]\ntrio_mode = true\n")
    failures = folder / "failures"
    failures.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-p", "tests.tiers.selection", "-p", "no:cacheprovider"]
    options = (*options, f"--failures={failures}", f"--rootdir={folder}", f"-c={folder}/pytest.ini")
    done = subprocess.run(
        [*command, *options, folder / "test_sample.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout, failures.read_text()


def test_a_seed_repeats_all_chance(tmp_path: Path) -> None:
    def drawn(output: str) -> str:
        return next(line for line in output.splitlines() if line.startswith("["))

    (first, failures), (again, _), (other, _) = (sampled(tmp_path, f"--seed={seed}") for seed in (17, 17, 18))
    assert drawn(first) == drawn(again) != drawn(other)
    assert "seed: 17 (to repeat: --seed=17)" in first
    assert json.loads(failures) == {"test": "test_sample.py::test_told", "line": "assert False"}


def test_workers_report_texts_that_utf8_cannot_encode(tmp_path: Path) -> None:
    output, failures = sampled(tmp_path, "-n1", "--seed=17")
    assert "lone surrogate: \\udc80" in output
    assert json.loads(failures)["line"] == "assert False"
    assert encodable({"\udc80": [("\udc80", 1)]}) == {"\\udc80": [("\\udc80", 1)]}
