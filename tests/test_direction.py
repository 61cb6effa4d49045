"""Imports point one way, nothing is loaded before it is needed, and no module is loaded twice."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "gateway": {"gateway", "actors", "config", "runtime"},
    "actors": {"actors", "config", "runtime"},
    "config": {"config"},
    "runtime": {"runtime"},
}
PARTS = sorted(MAY_IMPORT)
# The folders of actors/. Modules in actors/ itself belong to nobody: who imports one reaches what it imports.
WITHIN_ACTORS: dict[str, set[str]] = {
    "conversation": {"nodes", "log", "models", "gate", "tools"},
    "nodes": {"log", "models", "gate", "tools"},
    "log": {"models", "gate", "tools"},
    "models": {"gate", "tools"},
    "gate": {"tools"},
    "mcp": {"tools"},
    "tools": set(),
}
RUNTIME_LIBRARIES = {"attrs", "trio"}
JOURNAL_LIBRARIES = {"orjson"}
# Each takes longer to import than everything else that a start needs.
HEAVY = {"anthropic", "mcp"}


def files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def module_of(path: Path) -> str:
    """The import name of a product file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("stopgo", *(part for part in parts if part != "__init__")))


def imports(nodes: Iterator[ast.AST], path: Path) -> Iterator[str]:
    """Absolute names of what the nodes import; of `from a import b` it is `a.b`, for b may be a module."""
    for node in nodes:
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = module_of(path).split(".") if level else []
                up = level - 1 if path.name == "__init__.py" else level
                prefix = [*base[: len(base) - up], *([module] if module else [])]
                yield from (".".join((*prefix, name.name)) for name in names)


def all_imports(path: Path) -> list[str]:
    return list(imports(ast.walk(ast.parse(path.read_text())), path))


def at_import_time(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when a module is imported: neither function bodies nor `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                continue
            case ast.If(test=test, orelse=orelse) if ast.unparse(test).endswith("TYPE_CHECKING"):
                yield from orelse
                yield from (descendant for statement in orelse for descendant in at_import_time(statement))
            case _:
                yield child
                yield from at_import_time(child)


def first(name: str) -> str:
    return name.partition(".")[0]


def part_of(name: str) -> str:
    """The part of the product an absolute name belongs to, or ''."""
    return name.split(".")[1] if name.startswith("stopgo.") else ""


@pytest.mark.parametrize("part", PARTS)
def test_a_part_imports_only_what_lies_below_it(part: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files(part)
        for name in all_imports(path)
        if first(name) == "stopgo" and part_of(name) not in MAY_IMPORT[part]
    ]
    assert wrong == []


def test_every_folder_of_actors_has_its_place() -> None:
    assert {path.parent.name for path in (ROOT / "actors").glob("*/__init__.py")} == set(WITHIN_ACTORS)


def reached(path: Path) -> Iterator[str]:
    """Folders of actors/ that a file imports from, itself or by what lies beside the folders."""
    for name in all_imports(path):
        if name.startswith("stopgo.actors."):
            place = name.split(".")[2]
            beside = ROOT / "actors" / f"{place}.py"
            yield from reached(beside) if beside.is_file() else [place]


@pytest.mark.parametrize("folder", WITHIN_ACTORS)
def test_a_folder_of_actors_reaches_only_what_lies_below_it(folder: str) -> None:
    allowed = WITHIN_ACTORS[folder] | {folder}
    found = {path: set(reached(path)) - allowed for path in files(f"actors/{folder}")}
    assert [f"{path.relative_to(ROOT)}: {sorted(wrong)}" for path, wrong in found.items() if wrong] == []


def test_the_kernel_needs_trio_and_attrs_and_nothing_else() -> None:
    known = RUNTIME_LIBRARIES | {"stopgo"} | sys.stdlib_module_names
    journal = ROOT / "runtime" / "journal"
    assert [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files("runtime")
        for name in all_imports(path)
        if first(name) not in known | (JOURNAL_LIBRARIES if journal in path.parents else set())
    ] == []


def test_nobody_loads_a_second_copy_or_another_event_loop() -> None:
    banned = {*PARTS, "asyncio"}
    assert [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files(*PARTS, "tests", "testdata")
        for name in all_imports(path)
        if first(name) in banned
    ] == []


def test_heavy_libraries_are_imported_where_they_are_first_needed() -> None:
    assert [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files(*PARTS)
        for name in imports(at_import_time(ast.parse(path.read_text())), path)
        if first(name) in HEAVY
    ] == []


def test_the_command_starts_without_heavy_libraries(tmp_path: Path) -> None:
    code = (
        "import sys, stopgo.gateway.cli.main as command; command._parser(); "
        f"print(*sorted({HEAVY!r} & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.returncode, run.stdout.strip()) == (0, ""), run.stderr


def test_imports_are_found_however_they_are_written(tmp_path: Path) -> None:
    source = ast.parse(
        "import a.b, c as d\n"
        "from e import f\n"
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import typed\n"
        "else:\n    import live\n"
        "try:\n    import tried\nexcept ImportError:\n    pass\n"
        "class C:\n    import inside\n    def m(self): import later\n"
    )
    outside = {"a.b", "c", "e.f", "typing.TYPE_CHECKING", "tried", "inside", "live"}
    assert set(imports(ast.walk(source), tmp_path)) == outside | {"typed", "later"}
    assert set(imports(at_import_time(source), tmp_path)) == outside


@pytest.mark.parametrize(
    ("file", "statement", "name"),
    [
        ("actors/mcp/server.py", "from . import codec", "stopgo.actors.mcp.codec"),
        ("actors/mcp/server.py", "from ..gate import ask", "stopgo.actors.gate.ask"),
        ("actors/mcp/__init__.py", "from . import codec", "stopgo.actors.mcp.codec"),
        ("actors/agent.py", "from ..gateway import app", "stopgo.gateway.app"),
    ],
)
def test_relative_imports_count_by_what_they_mean(file: str, statement: str, name: str) -> None:
    assert list(imports(ast.walk(ast.parse(statement)), ROOT / file)) == [name]
