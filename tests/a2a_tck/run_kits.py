"""The official test kits of A2A against our server: `A2A_KITS=DIR make a2a-tck`.

DIR holds their archives. Each kit runs in an environment of its own, against an agent in this process that
does what the kit names in the ids of its messages (`testdata/a2a-tck`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

from stopgo.actors.agent.open_agent import open_agent
from stopgo.config.load import load_config
from stopgo.gateway.a2a.push import open_push
from stopgo.gateway.app import make_app
from stopgo.gateway.http.http_server import bind, open_server
from tests.tiers.slices import chosen

from .kit_reports import Outcome, outcomes
from .kit_settings import KNOWN_FAILURES, PLACEHOLDERS, SETTINGS, Kit, Setting

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "a2a-tck"
PYTHON = BUILD / "venv" / "bin" / "python"
AGENT = ROOT / "testdata" / "a2a-tck" / "kit-agent.yaml"
SHOWN = 300
"""Characters of what is said about a failure."""


def main(wanted: Sequence[str]) -> int:
    """`wanted`: words that the titles of settings have, or a slice; none: all settings."""
    kits = Path(os.environ["A2A_KITS"])
    part, words = chosen([each.title for each in SETTINGS], wanted)
    settings = [
        each
        for each in SETTINGS
        if each.title in part and (not words or any(word in each.title for word in words))
    ]
    found: dict[Setting, list[Outcome]] = {}
    for setting in settings:
        print(f"{setting.title} ...", flush=True)
        found[setting] = trio.run(run_kit, setting, unpacked(kits, setting.kit))
    print(table(found))
    problems = [problem for setting in settings for problem in wrong(setting, found[setting])]
    if len(settings) == len(SETTINGS):
        problems += [*never_run(found), *not_failing(found)]
    print(*problems, sep="\n")
    return bool(problems)


def unpacked(kits: Path, kit: Kit) -> Path:
    """The folder of a kit, fresh: a run leaves reports behind."""
    folder = BUILD / f"a2a-tck-{kit}"
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(kits / f"{folder.name}.tar.gz") as archive:
        archive.extractall(BUILD, filter="data")
    return folder


async def run_kit(setting: Setting, folder: Path) -> list[Outcome]:
    with (
        TemporaryDirectory() as data,
        (BUILD / f"{setting.title.replace(' ', '-')}.log").open("wb") as log,
    ):
        config = load_config(AGENT, environ={}, data_dir=Path(data))
        async with (
            open_agent(config) as agent,
            open_push(agent) as push,
            open_server(make_app(agent, setting.offered, push), bind("127.0.0.1", 0)) as server,
        ):
            await trio.run_process(
                [PYTHON, "run_tck.py", *setting.arguments(server.url)],
                cwd=folder,
                # Seconds for which the kit of 0.3 waits; the agent file has a delay of more than twice that.
                env={**os.environ, "TCK_STREAMING_TIMEOUT": "10.0"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,  # its reports tell
            )
    return outcomes(setting.kit, folder)


# ----------------------------------------------------------------------------- results


def table(found: Mapping[Setting, Sequence[Outcome]]) -> str:
    lines = [f"{'kit and setting':26}{'passed':>8}{'failed':>8}{'known':>8}{'xfailed':>9}{'skipped':>9}"]
    for setting, all_outcomes in found.items():
        count = Counter(each.verdict for each in all_outcomes)
        known = sum(each.verdict == "failed" and is_known(setting.kit, each) for each in all_outcomes)
        lines.append(
            f"{setting.title:26}{count['passed']:8}{count['failed'] - known:8}{known:8}"
            f"{count['xfailed']:9}{count['skipped']:9}"
        )
    return "\n".join(lines)


def is_known(kit: Kit, outcome: Outcome) -> bool:
    return any(of == kit and outcome.test.endswith(test) for of, test in KNOWN_FAILURES)


def wrong(setting: Setting, all_outcomes: Sequence[Outcome]) -> list[str]:
    problems = [
        f"FAILED {setting.title}: {each.test}: {' '.join(each.why.split())[:SHOWN]}"
        for each in all_outcomes
        if each.verdict == "failed" and not is_known(setting.kit, each)
    ]
    passed = sum(each.verdict == "passed" for each in all_outcomes)
    if passed < setting.fewest:
        problems.append(f"FEWER {setting.title}: {passed} tests passed, {setting.fewest} have to")
    return problems


def never_run(found: Mapping[Setting, Sequence[Outcome]]) -> list[str]:
    """Tests of 1.0 that are skipped in every setting."""
    of_v1 = [each for setting, some in found.items() if setting.kit == "1.0" for each in some]
    run = {each.test for each in of_v1 if each.verdict != "skipped"}
    skipped = {each.test: each.why for each in of_v1 if each.test not in run}
    return [f"NEVER RUN {test}: {why}" for test, why in skipped.items() if PLACEHOLDERS not in test]


def not_failing(found: Mapping[Setting, Sequence[Outcome]]) -> list[str]:
    """A reason that is not needed any more hides the next failure."""
    failed = {
        (setting.kit, each.test)
        for setting, some in found.items()
        for each in some
        if each.verdict == "failed"
    }
    return [
        f"NOT FAILING {kit} {test}"
        for kit, test in KNOWN_FAILURES
        if not any(of == kit and name.endswith(test) for of, name in failed)
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
