"""The rules of the house that a linter does not know."""

import ast
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PARTS = ("actors", "config", "gateway", "runtime")
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 70
NOT_OURS = {".git", ".venv", "build", "dist", "data", ".hypothesis", "__pycache__"}

# One letter of each stands in brackets, so that a pattern does not find itself.
UNFINISHED = r"\b(?:TO[D]O|FIX[M]E|XX[X])\b"
MACHINE_PATHS = r"(?<![\w.~-])/(?:wor[k]|roo[t])/"
REGISTRIES = r"pyp[i]\.org|pythonhoste[d]|npmj[s]\.|deb\.debia[n]|crate[s]\.io|proxy\.golan[g]"
ELSEWHERE = r"\.\./share[d]\b|\bDESIG[N]\.md\b|\breferenc[e]/(?:prototype|snippets)\b"

SKIPS = {"skip", "skipif", "xfail", "importorskip"}


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def texts() -> Iterator[tuple[Path, str]]:
    """Every text file of the project, by its path in it."""
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(
            name for name in folders if name not in NOT_OURS and not name.endswith(("_cache", ".egg-info"))
        )
        for path in (Path(folder, name) for name in sorted(files) if name not in NOT_OURS):
            try:
                yield path.relative_to(ROOT), path.read_text()
            except UnicodeDecodeError:
                continue


@pytest.mark.parametrize("pattern", [UNFINISHED, MACHINE_PATHS, REGISTRIES, ELSEWHERE])
def test_the_tree_holds_nothing_unfinished_and_stands_alone(pattern: str) -> None:
    found = [
        f"{path}:{number}: {line.strip()[:100]}"
        for path, text in texts()
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(pattern, line)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (UNFINISHED, "# TO" + "DO: later"),
        (MACHINE_PATHS, "open('/wor" + "k/main/x')"),
        (MACHINE_PATHS, "HOME=/roo" + "t/.cache"),
        (REGISTRIES, "https://pyp" + "i.org/simple"),
        (ELSEWHERE, "see ../share" + "d/API.md"),
        (ELSEWHERE, "as DESIG" + "N.md says"),
    ],
)
def test_the_patterns_find_what_they_are_for(pattern: str, text: str) -> None:
    assert re.search(pattern, text)


def test_product_files_fit_on_a_few_screens() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in python_files(*PARTS)}
    assert [
        f"{path.relative_to(ROOT)}: {length}" for path, length in lengths.items() if length > MAX_FILE_LINES
    ] == []


def test_functions_fit_on_a_screen() -> None:
    assert [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name} has {length} lines"
        for path in python_files(*PARTS)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    ] == []


def sleeps(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="time"), attr="sleep"):
            return True
        case ast.ImportFrom(module="time", names=names):
            return any(name.name == "sleep" for name in names)
    return False


def skips(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in SKIPS and ast.unparse(node).startswith("pytest.")


@pytest.mark.parametrize("banned", [sleeps, skips])
def test_tests_neither_sleep_nor_look_away(banned: Callable[[ast.AST], bool]) -> None:
    assert [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path in python_files("tests")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute | ast.ImportFrom) and banned(node)
    ] == []


@pytest.mark.parametrize(
    ("banned", "code"),
    [
        (sleeps, "time.sleep(1)"),
        (sleeps, "from time import monotonic, sleep"),
        (skips, "pytest.skip('no')"),
        (skips, "pytest.mark.skipif(True)"),
        (skips, "pytest.param(1, marks=pytest.mark.xfail)"),
        (skips, "pytest.importorskip('x')"),
    ],
)
def test_sleeps_and_skips_are_seen(banned: Callable[[ast.AST], bool], code: str) -> None:
    assert any(banned(node) for node in ast.walk(ast.parse(code)))
