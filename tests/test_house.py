"""The rules of the house that a linter does not know."""

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PARTS = ("actors", "config", "gateway", "runtime")
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 70
MAX_LINE = 110
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX)\b")

SKIPS = {"skip", "skipif", "xfail", "importorskip"}


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def page_files() -> list[Path]:
    return [path for kind in ("js", "css") for path in (ROOT / "gateway/web/page").rglob(f"*.{kind}")]


def test_nothing_is_left_unfinished() -> None:
    assert [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in python_files(*PARTS)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if UNFINISHED.search(line)
    ] == []


def test_product_files_fit_on_a_few_screens() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in (*python_files(*PARTS), *page_files())}
    assert [
        f"{path.relative_to(ROOT)}: {length}" for path, length in lengths.items() if length > MAX_FILE_LINES
    ] == []


def test_lines_of_the_page_fit_as_those_of_python_do() -> None:
    assert [
        f"{path.relative_to(ROOT)}:{number}: {len(line)} characters"
        for path in page_files()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > MAX_LINE
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


def test_tests_neither_sleep_nor_look_away() -> None:
    assert [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path in python_files("tests")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute | ast.ImportFrom) and (sleeps(node) or skips(node))
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
