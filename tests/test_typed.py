"""The types that programs see: the documented ones pass `mypy --strict` with the wheel that is released."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.test_docs import PAGES, Block, blocks
from tests.wheel import build

PROGRAMS = [block for page in PAGES for block in blocks(page) if block.language == "python"]

MISTAKES = """\
from stopgo import Agent, ToolQuestion


async def mistaken(agent: Agent) -> float | None:
    turn = await agent.start_conversation("go")
    later = await agent.post(turn.conversation.id, "more")
    later.result.response
    turn.result.used
    for approval in turn.result.approvals:
        await agent.decide(approval.tool_args, {"approved": True})
        match approval.asked:
            case ToolQuestion(input_schema=schema):
                schema.nothing
    return turn.conversation.usage.cost_usd
"""
"""A mistake in the seventh line and in three after it: what is `Any` would have none."""
CODES = {7: "union-attr", 8: "attr-defined", 10: "arg-type", 13: "attr-defined"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a program, with an environment in which the wheel is installed."""
    folder = tmp_path_factory.mktemp("project")
    venv.create(folder / "venv", with_pip=False)
    [packages] = (folder / "venv").glob("lib/python*/site-packages")
    with zipfile.ZipFile(build(tmp_path_factory.mktemp("tree"))) as wheel:
        wheel.extractall(packages)
    # What the package depends on is not installed a second time.
    [libraries] = Path(sys.prefix).glob("lib/python*/site-packages")
    (packages / "libraries.pth").write_text(f"{libraries}\n")
    return folder


def mypy(project: Path, *programs: Path) -> str:
    python = str(project / "venv" / "bin" / "python")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--scripts-are-modules",
        "--python-executable",
        python,
    ]
    run = subprocess.run(
        [*command, *map(str, programs)], cwd=project, capture_output=True, text=True, timeout=300, check=False
    )
    return run.stdout + run.stderr


@pytest.mark.docs
def test_documented_programs_pass_the_strict_check(project: Path) -> None:
    def write(number: int, block: Block) -> Path:
        path = project / f"page{number}" / block.name  # two pages may have programs of one name
        path.parent.mkdir()
        path.write_text(block.text, encoding="utf-8")
        return path

    programs = [write(number, block) for number, block in enumerate(PROGRAMS)]
    assert mypy(project, *programs) == f"Success: no issues found in {len(programs)} source files\n"
    assert any("open_agent" in block.text for block in PROGRAMS)


@pytest.mark.docs
def test_mistakes_are_found(project: Path) -> None:
    program = project / "mistakes.py"
    program.write_text(MISTAKES, encoding="utf-8")
    *lines, _ = mypy(project, program).splitlines()
    errors = [line for line in lines if ": error: " in line]
    found = {int(line.split(":")[1]): line.rpartition("[")[2].rstrip("]") for line in errors}
    assert found == CODES, lines
