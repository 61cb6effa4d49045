"""The wheel with every supported Python that this machine has: `make matrix`.

A fresh virtual environment gets the locked libraries and the wheel. In it, the story of README.md happens
(`tests/test_docs.py`), and every module is imported and every command prints its help with warnings as errors
(`tests/installed.py`). Then the extras are removed, and everything else still works.

`--all` also checks each platform that this machine is not, as far as another machine can: every locked
library has a wheel for it, and pyright finds nothing. It compares the results with the table of
`docs/reference/platforms.md`.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import attrs
from packaging.requirements import Requirement

from tests.tiers.slices import chosen

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "matrix"
PAGE = ROOT / "docs" / "reference" / "platforms.md"
LOCK = ROOT / "requirements.lock"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = [
    found[1]
    for classifier in PROJECT["classifiers"]
    if (found := re.search(r":: Python :: (3\.\d+)$", classifier))
]
NEEDS = {
    "azure": ("--model", "azure:m"),
    "bedrock": ("--model", "bedrock:m"),
    "metrics": ("--metrics", "0"),
    "postgres": ("--journal", "postgresql:///"),
    "traces": ("--traces",),
    "vertex": ("--model", "vertex:m"),
}
"""The options that need the extras."""
PLACES = {
    "AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com",
    "AWS_REGION": "eu-west-1",
    "GOOGLE_CLOUD_PROJECT": "p",
}
"""What the models of clouds need as well."""
EXTRAS = tuple(NEEDS)
"""The extras in the lock, each with an option of `stopgo serve`."""
TIMEOUT = 600.0
"""Seconds for one command."""
SHOWN_LINES = 40
"""Of the output of a command that fails."""


@attrs.frozen
class System:
    name: str
    kernel: str
    machine: str
    tags: tuple[str, ...]
    """The platforms of wheels that it can install."""

    @property
    def is_here(self) -> bool:
        return (platform.system(), platform.machine()) == (self.kernel, self.machine)


def _manylinux(machine: str) -> tuple[str, ...]:
    return tuple(f"manylinux{age}_{machine}" for age in ("_2_28", "_2_17", "2014"))


SYSTEMS = (
    System("Linux, x86-64", "Linux", "x86_64", _manylinux("x86_64")),
    System("Linux, ARM64", "Linux", "aarch64", _manylinux("aarch64")),
    System("macOS, ARM64", "Darwin", "arm64", ("macosx_11_0_arm64",)),
    System("macOS, x86-64", "Darwin", "x86_64", ("macosx_11_0_x86_64",)),
)


class Failed(Exception):
    """A command did not do what it should; the text has its output."""


def run(*command: str | Path, code: int = 0, cwd: Path = ROOT, **env: str) -> str:
    """Run a command and return its output. Raises `Failed` if it ends with another code."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**environment, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    if done.returncode != code:
        words = " ".join(map(str, command))
        shown = "\n".join(done.stdout.splitlines()[-SHOWN_LINES:])
        raise Failed(f"$ {words}\nexit code {done.returncode} instead of {code}\n{shown}")
    return done.stdout


# ----------------------------------------------------------------- this machine


def interpreter(version: str) -> str | None:
    """A Python of this version, from PATH or pyenv, that can make virtual environments."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    installed = sorted(map(str, pyenv.glob(f"versions/{version}.*/bin/python{version}")))
    for candidate in (f"python{version}", *installed):
        if (program := shutil.which(candidate)) is None:
            continue
        try:
            run(program, "-c", "import ensurepip, venv")
        except Failed:  # a shim of pyenv without a Python, or a Debian without python3-venv
            continue
        return program
    return None


def install(python: str, version: str, wheel: Path) -> Path:
    """Make a fresh environment with the locked libraries and the wheel. The folder of its commands."""
    folder = BUILD / version
    run(python, "-m", "venv", "--clear", folder)
    pip = (folder / "bin" / "python", "-m", "pip")
    # Without bytecode, because the import of every module compiles it, with warnings as errors.
    options = ("install", "--quiet", "--no-deps", "--no-compile")
    run(*pip, *options, "--require-hashes", "-r", LOCK)
    run(*pip, *options, wheel)
    run(*pip, "check")
    return folder / "bin"


def smoke(bin: Path, *missing: str) -> str:
    """Import every module, print every help, and run a turn; `missing`: libraries that are not installed."""
    counted = run(bin / "python", "-P", "-W", "error", ROOT / "tests" / "installed.py", "pytest", *missing)
    where = counted.split()[-1]
    if not Path(where).is_relative_to(bin.parent):
        raise Failed(f"{where} is not the installed package")
    with TemporaryDirectory() as empty:
        answer = run(bin / "stopgo", "run", "list all resources", cwd=Path(empty), PYTHONWARNINGS="error")
    if not answer.endswith("\nNo resources.\n"):
        raise Failed(f"`stopgo run` answered:\n{answer}")
    return counted


def tell_story(bin: Path) -> None:
    """Run the examples of README.md."""
    empty = ROOT / "build" / "empty"  # so that only the installed `stopgo` can be imported
    empty.mkdir(parents=True, exist_ok=True)
    pytest = (sys.executable, "-m", "pytest", "-q", "-c", ROOT / "pyproject.toml", "--rootdir", ROOT)
    page = "test_a_page_shows_what_really_happens[README.md]"
    run(*pytest, f"{ROOT}/tests/test_docs.py::{page}", cwd=empty, STOPGO_BIN=str(bin), PYTHONWARNINGS="error")


def do_without_extras(bin: Path) -> None:
    """Remove the extras: their options name the command that installs them, and everything else works."""
    libraries = [
        Requirement(text).name for extra in EXTRAS for text in PROJECT["optional-dependencies"][extra]
    ]
    run(bin / "python", "-m", "pip", "uninstall", "--quiet", "--yes", *libraries)
    smoke(bin, "prometheus_client", "psycopg", "opentelemetry")
    for extra in EXTRAS:
        option = NEEDS[extra]
        said = run(bin / "stopgo", "serve", "--port", "0", *option, code=2, cwd=ROOT, **PLACES)
        if f"pip install 'agent-stop-and-go[{extra}]'" not in said:
            raise Failed(f"`stopgo serve {' '.join(option)}` without the extra said:\n{said}")


def try_here(version: str, wheel: Path) -> str | None:
    """Whether the wheel works with this Python: None if the machine does not have it."""
    python = interpreter(version)
    if python is None:
        return None
    began = monotonic()
    bin = install(python, version, wheel)
    counted = smoke(bin)
    tell_story(bin)
    do_without_extras(bin)
    print(f"Python {version}: {counted.strip()}, {monotonic() - began:.0f} s", flush=True)
    return "run"


# --------------------------------------------------------------- other machines


def resolve(system: System, version: str, *wanted: str | Path) -> None:
    """See that there is a wheel of everything wanted. Raises `Failed`."""
    tags = [f"--platform={tag}" for tag in system.tags]
    options = (
        "--quiet",
        "--dry-run",
        "--ignore-installed",
        "--only-binary=:all:",
        "--target",
        BUILD / "none",
    )
    pip = (sys.executable, "-m", "pip", "install")
    run(*pip, *options, *tags, f"--python-version={version}", *wanted)


@cache
def check_types(kernel: str, version: str) -> None:
    run(sys.executable, "-m", "pyright", f"--pythonplatform={kernel}", f"--pythonversion={version}")


def look_from_afar(system: System, version: str, wheel: Path) -> str:
    """The facts about a platform that can be checked without it."""
    check_types(system.kernel, version)
    try:
        resolve(system, version, "--no-deps", "--require-hashes", "-r", LOCK)
    except Failed as failure:
        library = re.search(r"No matching distribution found for (\S+)", str(failure))
        if library is None:
            raise
        resolve(system, version, f"{wheel}[{','.join(EXTRAS)}]")
        return f"*not run*; {library[1]} has no wheel"
    return "*not run*; checked"


# -------------------------------------------------------------------- the table


def table(cells: Mapping[tuple[str, str], str]) -> str:
    head = "".join(f" Python {version} |" for version in PYTHONS)
    lines = [f"| |{head}", f"|---|{'---|' * len(PYTHONS)}"]
    for system in SYSTEMS:
        row = "".join(f" {cells[system.name, version]} |" for version in PYTHONS)
        lines.append(f"| {system.name} |{row}")
    return "\n".join(lines)


def results(
    wheel: Path, pythons: Sequence[str], *, everywhere: bool
) -> Iterator[tuple[System, str, str | None]]:
    here = next((system for system in SYSTEMS if system.is_here), None)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        tried = list(pool.map(lambda version: try_here(version, wheel), pythons))
    for version, result in zip(pythons, tried, strict=True):
        for system in SYSTEMS:
            if system is here and result is not None:
                yield system, version, result
            elif everywhere:
                yield system, version, look_from_afar(system, version, wheel)


def main() -> int:
    [wheel] = (ROOT / "dist").glob("*.whl")
    pythons, options = chosen([each for each in PYTHONS if interpreter(each)], sys.argv[1:])
    everywhere = options == ["--all"]
    try:
        cells = {
            (system.name, version): result
            for system, version, result in results(
                wheel, PYTHONS if everywhere else pythons, everywhere=everywhere
            )
            if result
        }
    except Failed as failure:
        print(failure, file=sys.stderr)
        return 1
    if not cells:
        print(f"this machine has none of Python {', '.join(PYTHONS)}", file=sys.stderr)
        return 1
    if everywhere and (shown := table(cells)) not in PAGE.read_text(encoding="utf-8"):
        print(f"{PAGE} has another table than:\n{shown}", file=sys.stderr)
        return 1
    print(f"{len(cells)} passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
