"""Imports point one way and never in a circle; nothing is loaded before it is needed, or under two names."""

import ast
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PARTS = ["actors", "config", "gateway", "runtime"]
# The packages from the top down, each with the packages directly below it: it may import these and all
# below them. "" stands for the root file.
DIRECTLY_BELOW: dict[str, set[str]] = {
    "": {"gateway/testing", "actors/bridge"},
    "gateway/testing": {"actors/agent", "runtime/journal/memory"},
    "gateway/cli": {"gateway/cli/commands"},
    "gateway/cli/commands": {"gateway/cli/chat", "gateway/servers", "gateway/proxy"},
    "gateway/cli/chat": {"gateway/cli/client"},
    "gateway/cli/client": {"gateway/cli/terminal", "gateway/cli/process"},
    "gateway/cli/terminal": {"actors/log/fold"},
    "gateway/cli/process": {"gateway"},
    "gateway/proxy": {"gateway"},
    "gateway/servers": {"gateway"},
    "gateway": {"gateway/agui", "gateway/fleet", "gateway/telemetry", "gateway/web"},
    "gateway/agui": {"gateway/rest"},
    "gateway/fleet": {"gateway/rest"},
    "gateway/web": {"gateway/rest"},
    "gateway/rest": {"gateway/a2a"},
    "gateway/a2a": {"gateway/auth"},
    "gateway/auth": {"gateway/contract", "actors/agent"},
    "gateway/telemetry": {"gateway/http", "actors/agent"},
    "gateway/contract": {"gateway/http", "actors/notify"},
    "gateway/http": {"actors/access"},
    "actors/bridge": {"actors/agent"},
    "actors/agent": {
        "actors/conversation",
        "actors/workers",
        "actors/mcp",
        "actors/a2a",
        "actors/replay",
        "runtime/stores",
    },
    "actors/conversation": {"actors/nodes"},
    "actors/nodes": {"actors/calls"},
    "actors/calls": {"actors/run"},
    "actors/workers": {"actors/run"},
    "actors/run": {"actors/notify", "actors/models"},
    "actors/notify": {"actors/gate", "actors/log/writer", "actors/servers"},
    "actors/replay": {"actors/gate", "actors/log/words", "actors/servers"},
    "actors/log/writer": {"actors/log/fold"},
    "actors/log/fold": {"actors/log/words"},
    "actors/log/words": {"actors/approvals", "actors/models/messages"},
    "actors/log": set(),
    "actors/models": {"actors/models/offline", "actors/models/providers"},
    "actors/models/offline": {"actors/models/messages", "config"},
    "actors/models/providers": {"actors/models/codecs", "actors/servers"},
    "actors/models/codecs": {"actors/models/messages"},
    "actors/models/messages": {"actors/arguments", "actors/common"},
    "actors/gate": {"actors/approvals", "config/checks"},
    "actors/approvals": {"actors/arguments", "actors/access"},
    "actors/mcp": {"actors/mcp/transports"},
    "actors/mcp/transports": {"actors/mcp/wire", "actors/servers"},
    "actors/mcp/wire": {"actors/arguments", "actors/common"},
    "actors/a2a": {"actors/a2a/wire", "actors/servers", "actors/common"},
    "actors/a2a/wire": {"runtime"},
    "actors/servers": {"actors/tools"},
    "actors/arguments": {"actors/tools"},
    "actors/tools": {"config/sections", "runtime/journal/sqlite"},
    "actors/access": {"actors/common", "config/sections"},
    "actors/common": {"config/described", "runtime/journal"},
    "actors": set(),
    "runtime/stores": {"runtime/journal/postgres", "runtime/journal/sqlite"},
    "runtime/journal/postgres": {"runtime/journal"},
    "runtime/journal/sqlite": {"runtime/journal"},
    "runtime/journal/memory": {"runtime/journal"},
    "runtime/journal": {"runtime"},
    "runtime": set(),
    "config": {"config/checks"},
    "config/checks": {"config/reading"},
    "config/reading": {"config/sections"},
    "config/sections": {"config/described"},
    "config/described": {"config/text"},
    "config/text": set(),
}
# Where programs on asyncio are served, and their tests.
ASYNCIO = ("actors/bridge/for_asyncio.py", "actors/bridge/caller_loop.py", "tests/actors/bridge")
# Names that stand for the same thing in several packages.
SHARED_NAMES = {"__init__.py", "errors.py"}
RUNTIME_LIBRARIES = {"attrs", "trio"}
# Each takes longer to import than everything else that a start needs.
HEAVY = {"anthropic", "cryptography", "jwt", "mcp"}
OF_EXTRAS = {"azure", "botocore", "google", "prometheus_client", "opentelemetry", "psycopg"}
# Loaded with the first tool server, schema, text of the page, login or request of a kind.
AT_FIRST_USE = {
    *HEAVY,
    *("jsonschema", "markdown_it", "mcp_types", "prompt_toolkit", "pydantic", "rich", "starlette"),
    *("stopgo.gateway.agui.thread_run", "stopgo.gateway.web.markdown_tokens"),
}
MCP_NAMES = {"mcp", "mcp_types"}
MCP_SDK = ROOT / "actors/mcp/wire/sdk.py"
# Other packages import these at any time.
MCP_WITHOUT_SDK = ("__init__.py", "server.py", "transports/environment.py", "transports/lines.py")


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


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def all_imports(path: Path) -> list[str]:
    return list(imports(ast.walk(parsed(path)), path))


@cache
def imports_at_import_time(path: Path) -> list[str]:
    return list(imports(at_import_time(parsed(path)), path))


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


PRODUCT = [ROOT / "__init__.py", *files(*PARTS)]
MODULES = {module_of(path): path for path in PRODUCT}


def package_of(path: Path) -> str:
    folder = path.parent.relative_to(ROOT).as_posix()
    return "" if folder == "." else folder


@cache
def imported(path: Path) -> frozenset[Path]:
    """The product files that a product file imports, wherever in it the import stands."""
    found = set()
    for name in all_imports(path):
        if first(name) == "stopgo":
            module = name if name in MODULES else name.rpartition(".")[0]
            assert module in MODULES, f"{path.relative_to(ROOT)} imports {name}, which there is not"
            found.add(MODULES[module])
    return frozenset(found - {path})


def below(package: str) -> set[str]:
    return DIRECTLY_BELOW[package].union(*(below(each) for each in DIRECTLY_BELOW[package]))


def circle(imports: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return [str(each) for each in error.args[1]]
    return []


def test_every_folder_is_a_known_package() -> None:
    folders = {package_of(path) for path in PRODUCT}
    assert folders == set(DIRECTLY_BELOW)


@pytest.mark.parametrize("package", DIRECTLY_BELOW)
def test_package_imports_only_packages_below_it(package: str) -> None:
    allowed = below(package) | {package}
    assert [
        f"{path.relative_to(ROOT)} imports {other.relative_to(ROOT)}"
        for path in PRODUCT
        if package_of(path) == package
        for other in imported(path)
        if package_of(other) not in allowed
    ] == []


def test_imports_have_no_circle() -> None:
    assert circle(DIRECTLY_BELOW) == []
    assert circle({str(path): {str(other) for other in imported(path)} for path in PRODUCT}) == []
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})


def test_no_two_files_have_one_name() -> None:
    names = Counter(path.name for path in PRODUCT if path.name not in SHARED_NAMES)
    assert [name for name, count in names.items() if count > 1] == []


def test_imports_inside_the_package_are_relative() -> None:
    assert [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path in PRODUCT
        for node in ast.walk(parsed(path))
        if (isinstance(node, ast.ImportFrom) and not node.level and first(node.module or "") == "stopgo")
        or (isinstance(node, ast.Import) and any(first(name.name) == "stopgo" for name in node.names))
    ] == []


def test_the_kernel_needs_only_trio_attrs_and_orjson_for_json() -> None:
    known = RUNTIME_LIBRARIES | {"stopgo"} | sys.stdlib_module_names
    assert [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files("runtime")
        for name in all_imports(path)
        if first(name) not in known
        and (path.name, name) != ("json_text.py", "orjson")
        and (path.parent.name, first(name)) != ("postgres", "psycopg")
    ] == []


def test_nobody_loads_a_second_copy_or_another_event_loop() -> None:
    banned = {*PARTS, "asyncio"}
    assert [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files(*PARTS, "tests", "testdata")
        for name in all_imports(path)
        if first(name) in banned and not (name == "asyncio" and _may_know_asyncio(path))
    ] == []


def _may_know_asyncio(path: Path) -> bool:
    return any(path.is_relative_to(ROOT / each) for each in ASYNCIO)


def test_heavy_libraries_are_imported_where_they_are_first_needed() -> None:
    assert [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files(*PARTS)
        for name in imports_at_import_time(path)
        if first(name) in HEAVY and path != MCP_SDK
    ] == []


def test_mypy_checks_every_package_when_it_is_called_without_arguments() -> None:
    files = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["files"]
    assert sorted(files) == sorted([*(f".dev/stopgo/{part}" for part in ("__init__.py", *PARTS)), "tests"])


def test_one_file_imports_the_mcp_sdk() -> None:
    assert {path for path in PRODUCT for name in all_imports(path) if first(name) in MCP_NAMES} == {MCP_SDK}


def test_mcp_sdk_is_loaded_with_the_first_server() -> None:
    """Only files that a server needs import `wire/sdk.py` when they are imported, even indirectly."""
    loads = {path: _loaded_with(path) for path in PRODUCT}
    needing, more = set[Path](), {MCP_SDK}
    while more:
        needing |= more
        more = {path for path in PRODUCT if loads[path] & more} - needing
    allowed = {path for path in PRODUCT if package_of(path).startswith(("actors/mcp", "gateway/servers"))}
    assert needing - allowed == set()
    assert needing & {ROOT / "actors/mcp" / name for name in MCP_WITHOUT_SDK} == set()


def _loaded_with(path: Path) -> set[Path]:
    names = imports_at_import_time(path)
    found = {MODULES.get(name) or MODULES.get(name.rpartition(".")[0]) for name in names}
    return {each for each in found if each is not None}


def loaded(tmp_path: Path, code: str) -> set[str]:
    """What a program loads beside the standard library: modules of the product, and libraries."""
    code = f"import sys\n{code}\nprint(*sys.modules, file=sys.stderr)"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    names = [name for name in run.stderr.split() if first(name) not in sys.stdlib_module_names]
    return {name if first(name) == "stopgo" else first(name) for name in names}


def test_the_package_is_loaded_lazily(tmp_path: Path) -> None:
    before = loaded(tmp_path, "")
    assert loaded(tmp_path, "import stopgo.runtime") - before == {"stopgo", "stopgo.runtime"}


def test_serving_loads_nothing_before_its_first_use(tmp_path: Path) -> None:
    found = loaded(tmp_path, "import stopgo.gateway.serve_process")
    assert "stopgo.gateway.telemetry.observation" in found
    assert found & {*OF_EXTRAS, *AT_FIRST_USE} == set()


def test_help_loads_commands_and_nothing_else(tmp_path: Path) -> None:
    code = (
        "from stopgo.gateway.cli.main import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass"
    )
    found = loaded(tmp_path, code) - loaded(tmp_path, "")
    assert {name for name in found if not name.startswith("stopgo.gateway.cli")} == {
        "stopgo",
        "stopgo.gateway",
        "stopgo.actors",
        "stopgo.actors.common",
        "stopgo.actors.common.loopback",
        "stopgo.runtime",
        "stopgo.runtime.journal",
        "stopgo.runtime.journal.store_address",
    }


def test_every_name_of_the_interface_is_there() -> None:
    import stopgo

    source = ast.parse((ROOT / "__init__.py").read_text())
    typed = {
        (name.name, node.module)
        for node in ast.walk(source)
        if isinstance(node, ast.ImportFrom) and node.level
        for name in node.names
    }
    for name in stopgo._HOME_OF:
        assert getattr(stopgo, name)
    assert {(name, home) for home, names in stopgo._HOMES.items() for name in names} == typed
    assert getattr(stopgo, "__all__") == sorted(name for name, _ in typed)  # noqa: B009 - not typed
    assert set(stopgo._HOME_OF) <= set(dir(stopgo))
    assert not hasattr(stopgo, "nothing")


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
        ("actors/agent/agent.py", "from ...gateway import app", "stopgo.gateway.app"),
    ],
)
def test_relative_imports_count_by_what_they_mean(file: str, statement: str, name: str) -> None:
    assert list(imports(ast.walk(ast.parse(statement)), ROOT / file)) == [name]
