"""What the kits report of their tests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias
from xml.etree import ElementTree

import attrs

from .kit_settings import Kit

Json: TypeAlias = dict[str, Any]
Verdict: TypeAlias = Literal["passed", "failed", "skipped", "xfailed"]
"""`xfailed`: what the kit asks for, but does not insist on, is not there."""

_VERDICTS: Mapping[str, Verdict] = {
    "passed": "passed",
    "xpassed": "passed",
    "failed": "failed",
    "error": "failed",
    "skipped": "skipped",
    "xfailed": "xfailed",
}


@attrs.frozen
class Outcome:
    test: str
    verdict: Verdict
    why: str = ""


def outcomes(kit: Kit, folder: Path) -> list[Outcome]:
    """`folder`: of the kit, after it ran. Without reports there are none."""
    reports = folder / "reports"
    return list(_of_junit(reports / "junitreport.xml") if kit == "1.0" else _of_json(reports))


def _of_junit(report: Path) -> Iterator[Outcome]:
    if not report.exists():
        return
    # The kit wrote it, on this machine.
    for case in ElementTree.parse(report).iter("testcase"):
        verdict: Verdict = "passed"
        why = ""
        for child in case:
            if child.tag in ("failure", "error"):
                verdict = "failed"
            elif child.tag == "skipped":
                verdict = "xfailed" if child.get("type") == "pytest.xfail" else "skipped"
            else:
                continue
            why = child.get("message") or ""
        yield Outcome(f"{case.get('classname')}.{case.get('name')}", verdict, why)


def _of_json(reports: Path) -> Iterator[Outcome]:
    for report in sorted(reports.glob("*_results.json")):
        run = report.name.removesuffix("_results.json")
        for test in json.loads(report.read_text())["tests"]:
            phases = [test[name] for name in ("setup", "call", "teardown") if name in test]
            found: Json = next((phase for phase in phases if phase["outcome"] != "passed"), {})
            why = found.get("crash", {}).get("message") or found.get("longrepr") or ""
            yield Outcome(f"{run} {test['nodeid'].replace('::', '.')}", _VERDICTS[test["outcome"]], str(why))
