"""What is built is what lies in the folders, and what is locked is what is declared."""

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from configparser import ConfigParser
from email import message_from_string
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.wheel import FACE, PARTS, ROOT, build

LOCKS = ("requirements.lock", "requirements-dev.lock")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    path = build(tmp_path_factory.mktemp("tree"))
    with zipfile.ZipFile(path) as opened:
        yield opened


def test_every_imported_library_is_declared() -> None:
    declared = {
        canonicalize_name(Requirement(each).name)
        for each in (*PROJECT["project"]["dependencies"], *EXTRAS["testing"])
    }
    nodes = (node for part in PARTS for path in (ROOT / part).rglob("*.py") for node in imports_of(path))
    libraries = {name.partition(".")[0] for name in nodes} - sys.stdlib_module_names
    homes = packages_distributions()
    undeclared = {
        name for name in libraries if not declared & {canonicalize_name(home) for home in homes[name]}
    }
    assert undeclared == set()


def test_pytest_is_imported_by_its_plugin_and_nothing_else() -> None:
    importers = {
        path.name
        for part in PARTS
        for path in (ROOT / part).rglob("*.py")
        for name in imports_of(path)
        if name.partition(".")[0] in ("pytest", "pytest_trio")
    }
    assert importers == {"pytest_plugin.py"}


def imports_of(path: Path) -> Iterator[str]:
    """Absolute names that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module


def dist_info(wheel: zipfile.ZipFile, name: str) -> str:
    [path] = [path for path in wheel.namelist() if path.endswith(f".dist-info/{name}")]
    return wheel.read(path).decode()


def test_the_wheel_has_every_file_of_the_folders_and_no_other(wheel: zipfile.ZipFile) -> None:
    paths = [path for part in PARTS for path in (ROOT / part).rglob("*")]
    in_folders = {f"stopgo/{name}" for name in FACE} | {
        f"stopgo/{path.relative_to(ROOT)}"
        for path in paths
        if path.is_file() and "__pycache__" not in path.parts
    }
    in_wheel = {path for path in wheel.namelist() if ".dist-info/" not in path}
    assert sorted(in_folders - in_wheel) == [], "forgotten: a package or its data is not in pyproject.toml"
    assert sorted(in_wheel - in_folders) == []


def test_no_module_stands_loose_in_the_root() -> None:
    """The build would take it into the wheel, for the root is the package."""
    assert {path.name for path in ROOT.glob("*.py")} == {"__init__.py"}


def test_the_metadata_is_right(wheel: zipfile.ZipFile) -> None:
    metadata = message_from_string(dist_info(wheel, "METADATA"))
    assert metadata["Name"] == "agent-stop-and-go"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "MIT"
    assert dist_info(wheel, "licenses/LICENSE") == (ROOT / "LICENSE").read_text()
    declared = {str(Requirement(text)) for text in PROJECT["project"]["dependencies"]}
    declared |= {str(Requirement(f'{text}; extra == "testing"')) for text in EXTRAS["testing"]}
    assert {str(Requirement(text)) for text in metadata.get_all("Requires-Dist", [])} == declared


def test_the_command_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    entry_points = ConfigParser()
    entry_points.read_string(dist_info(wheel, "entry_points.txt"))
    assert dict(entry_points["console_scripts"]) == {"stopgo": "stopgo.gateway.cli.main:main"}
    assert dict(entry_points["pytest11"]) == {"stopgo": "stopgo.gateway.testing.pytest_plugin"}
    assert "stopgo/gateway/cli/main.py" in wheel.namelist()


def test_every_module_of_the_wheel_can_be_imported(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path)
    modules = sorted(
        path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for path in wheel.namelist()
        if path.endswith(".py") and not path.endswith("__main__.py")
    )
    code = (
        "import importlib, sys\n"
        f"for name in {modules!r}:\n"
        "    print(importlib.import_module(name).__file__)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    elsewhere = [line for line in run.stdout.splitlines() if not Path(line).is_relative_to(tmp_path)]
    assert elsewhere == []


def locked(name: str) -> dict[str, str]:
    """Package to version in a lock file; every entry carries a hash."""
    versions: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", (ROOT / name).read_text()):
        if entry.startswith("#"):
            continue
        requirement = Requirement(entry.split("\\")[0])
        [pin] = requirement.specifier
        assert pin.operator == "==", entry
        assert "--hash=sha256:" in entry, f"{requirement.name} has no hash"
        versions[canonicalize_name(requirement.name)] = pin.version
    return versions


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_file_names_no_place(name: str) -> None:
    assert re.findall(r"^\s*-(?!-hash=).*|.*://.*", (ROOT / name).read_text(), re.MULTILINE) == []


@pytest.mark.parametrize(
    ("lock", "declared"),
    [
        ("requirements.lock", [*PROJECT["build-system"]["requires"], *PROJECT["project"]["dependencies"]]),
        ("requirements-dev.lock", PROJECT["dependency-groups"]["dev"]),
    ],
)
def test_the_locks_hold_what_is_declared(lock: str, declared: list[str]) -> None:
    versions = locked(lock)
    unmet = [
        text
        for requirement, text in ((Requirement(text), text) for text in declared)
        if not requirement.specifier.contains(versions.get(canonicalize_name(requirement.name), "0"))
    ]
    assert unmet == [], "run `make lock`"


def test_the_locks_agree() -> None:
    runtime, development = (locked(name) for name in LOCKS)
    shared = runtime.keys() & development.keys()
    assert {name: development[name] for name in shared} == {name: runtime[name] for name in shared}
