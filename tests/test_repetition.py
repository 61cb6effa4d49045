"""A repeated test is one case, with fresh fixtures in each run, and its first failure counts."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SAMPLE = """
import pytest

runs, opened, of_module = [], [], []

@pytest.fixture(scope="module")
def module():
    of_module.append(1)
    yield
    of_module.append(-1)

@pytest.fixture
def fresh(module):
    opened.append(1)
    yield len(opened)
    if len(opened) == 10:
        raise RuntimeError("not closed")

@pytest.mark.repeat(4)
async def test_passes(fresh):
    runs.append(fresh)

def test_ran_four_times():
    assert runs == [1, 2, 3, 4]
    assert of_module == [1]

@pytest.mark.repeat(10)
async def test_fails(fresh):
    assert fresh != 7

def test_stopped_at_the_failure():
    assert len(opened) == 7
    assert of_module == [1]

@pytest.mark.repeat(10)
@pytest.mark.parametrize("number", [1, 2])
def test_breaks_at_its_end(fresh, number):
    pass
"""


def test_repeated_tests(tmp_path: Path) -> None:
    (tmp_path / "test_sample.py").write_text(SAMPLE)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntrio_mode = true\nmarkers = repeat(n)\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.repetition", "-p", "no:cacheprovider", "-v"]
    done = subprocess.run(
        [*command, f"--rootdir={tmp_path}", "-c", tmp_path / "pytest.ini", tmp_path / "test_sample.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    told = re.findall(r"test_sample.py::(\S+) (\w+) +\[", done.stdout)
    assert told == [
        ("test_passes", "PASSED"),
        ("test_ran_four_times", "PASSED"),
        ("test_fails", "FAILED"),
        ("test_stopped_at_the_failure", "PASSED"),
        ("test_breaks_at_its_end[1]", "PASSED"),
        ("test_breaks_at_its_end[1]", "ERROR"),
        ("test_breaks_at_its_end[2]", "PASSED"),
    ], done.stdout
    assert re.findall(r"- repetition -+\n(.*)", done.stdout) == ["3 of 10", "3 of 10"]
