"""The built files have the contents of the folders, and the locks hold what is declared."""

import ast
import os
import re
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
from collections.abc import Iterator
from configparser import ConfigParser
from email import message_from_string
from importlib.metadata import packages_distributions, requires
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.matrix import EXTRAS as LOCKED
from tests.matrix import PAGE, PYTHONS, SYSTEMS, System
from tests.wheel import EPOCH, FACE, PARTS, ROOT, build

LOCKS = ("requirements.lock", "requirements-dev.lock")
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("tree"))


@pytest.fixture(scope="module")
def wheel(built: Path) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(built) as opened:
        yield opened


def test_every_imported_library_is_declared() -> None:
    declared = {
        canonicalize_name(Requirement(each).name)
        for each in (*PROJECT["project"]["dependencies"], *chain.from_iterable(EXTRAS.values()))
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


def files(*folders: str) -> set[str]:
    """The paths of all files in folders of the repository."""
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    return {
        str(path.relative_to(ROOT)) for path in paths if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_has_every_file_of_the_folders_and_no_other(wheel: zipfile.ZipFile) -> None:
    in_folders = {f"stopgo/{name}" for name in {*FACE, *files(*PARTS)}}
    in_wheel = {path for path in wheel.namelist() if ".dist-info/" not in path}
    assert sorted(in_folders - in_wheel) == [], "forgotten: a package or its data is not in pyproject.toml"
    assert sorted(in_wheel - in_folders) == []


def test_sdist_has_the_sources_the_docs_and_the_deployment(built: Path) -> None:
    [path] = built.parent.glob("*.tar.gz")
    with tarfile.open(path) as opened:
        in_sdist = {member.name.partition("/")[2] for member in opened if member.isfile()}
    single = ("CHANGELOG.md", "LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "requirements.lock")
    made = {path for path in in_sdist if ".egg-info/" in path} | {"PKG-INFO", "setup.cfg"}
    assert in_sdist == {*single, *FACE, *files(*PARTS, "deploy", "docs"), *made}


def test_wheel_is_reproducible_and_runs_everywhere(built: Path, wheel: zipfile.ZipFile) -> None:
    assert built.name.endswith("-py3-none-any.whl")
    assert {member.date_time for member in wheel.infolist()} == {time.gmtime(EPOCH)[:6]}


def test_build_all_is_build() -> None:
    command = ["make", "--dry-run", "-o", ".venv/.setup", "build-all"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "-m build" in shown


def test_page_of_platforms_has_every_python_and_system() -> None:
    rows = [line.split(" |") for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    assert rows[0] == ["|", *(f" Python {version}" for version in PYTHONS), ""]
    assert [row[0] for row in rows[2 : 2 + len(SYSTEMS)]] == [f"| {system.name}" for system in SYSTEMS]


def test_no_module_stands_loose_in_the_root() -> None:
    """The build would take it into the wheel, for the root is the package."""
    assert {path.name for path in ROOT.glob("*.py")} == {"__init__.py"}


def test_the_metadata_is_right(wheel: zipfile.ZipFile) -> None:
    text = dist_info(wheel, "METADATA")
    Metadata.from_email(text, validate=True)
    metadata = message_from_string(text)
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata["Name"] == "agent-stop-and-go"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "MIT"
    assert dist_info(wheel, "licenses/LICENSE") == (ROOT / "LICENSE").read_text()
    declared = {str(Requirement(text)) for text in PROJECT["project"]["dependencies"]}
    for extra, texts in EXTRAS.items():
        declared |= {str(Requirement(f'{text}; extra == "{extra}"')) for text in texts}
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


def needed(requirements: list[Requirement], environment: dict[str, str]) -> set[str]:
    """The names of all packages that these requirements install in an environment."""
    found: set[tuple[str, str]] = set()
    left = list(requirements)
    while left:
        requirement = left.pop()
        for extra in {"", *requirement.extras} - {extra for name, extra in found if name == requirement.name}:
            found.add((requirement.name, extra))
            declared = map(Requirement, requires(requirement.name) or ())
            left += [
                each
                for each in declared
                if each.marker is None or each.marker.evaluate({**environment, "extra": extra})
            ]
    return {canonicalize_name(name) for name, _ in found}


@pytest.mark.parametrize("version", PYTHONS)
@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_lock_is_complete_on_every_platform(system: System, version: str) -> None:
    environment = {
        "python_version": version,
        "python_full_version": f"{version}.0",
        "sys_platform": system.kernel.lower(),
        "platform_system": system.kernel,
        "platform_machine": system.machine,
    }
    wanted = [*PROJECT["project"]["dependencies"], *(text for extra in LOCKED for text in EXTRAS[extra])]
    names = needed([Requirement(text) for text in wanted], environment)
    assert names - locked("requirements.lock").keys() == set()


def test_the_locks_agree() -> None:
    runtime, development = (locked(name) for name in LOCKS)
    shared = runtime.keys() & development.keys()
    assert {name: development[name] for name in shared} == {name: runtime[name] for name in shared}
