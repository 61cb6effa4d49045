"""The families of tests: every test outside of a family runs on each change, those of a family in part.

A family is a marker of pytest or a program of its own. `smoke` names the cases that run in each gate; the
rest is dealt into `slices`, of which a run takes one. A family that grows gets more slices: the gate keeps
its length.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class Family:
    name: str
    """The marker, or the target of the Makefile."""
    slices: int
    """How many runs of the gate are a full pass. 0: only `make all` runs it."""
    smoke: tuple[str, ...] = ()
    """Beginnings of ids of pytest, without `tests/`."""


SLICES = 8
"""How many runs of the gate are a full pass of all families."""

MARKED = (
    Family("figures", 0),
    Family("bench", 0),
    Family("soak", 0),
    Family(
        "npm",
        8,
        ("agui_clients/test_stock_clients.py::test_a_message", "e2e/test_npm_servers.py::test_the_file"),
    ),
    Family("agents", 8, ("a2a_servers/test_delegating.py::test_stories",)),
    Family("page", 8, ("page/test_tutorial.py",)),
    Family("fleet", 8, ("fleet/test_faults.py::test_decision_while_the_owner_is_down",)),
    Family("postgres", 8, ("actors/test_on_postgres.py",)),
    Family("streams", 8, ("streams/test_abuse.py::test_half_a_frame",)),
    Family("crash", 8, ("crash/test_kill.py",)),
    Family("docs", 8),
    Family("deploy", 2, ("deployment/test_files.py",)),
    Family("providers", 8, ("providers/test_faults.py::test_provider_servers_alone",)),
)
"""A test with several of these markers belongs to the first."""


PROGRAMS = (
    Family("simulate", 8),
    Family("mutants", 8),
    Family("conformance", 8),
    Family("matrix", 2),
    Family("fuzz", 6),
    Family("a2a-tck", 4),
    Family("page-units", 1),
)
"""The longest first. Each takes `--slice=K/N --seed=NUMBER`."""
FIGURES = ("bench", "figures", "soak")

STORIES = ("e2e/",)
"""Files of which `make test` runs each test; of all others it runs the first `IN_PROOF`."""
IN_PROOF = 2
EACH_CASE = (
    "actors/gate/test_asking.py::test_every_format_of_approval",
    "actors/mcp/test_questions.py::test_questions_during_calls_are_answered",
    "e2e/test_providers.py::test_the_story",
)
"""Tests of which `make test` runs each case, because a case is a kind of approval, transport or model. Of all
others it runs the first."""
NO_PROOF = (
    "actors/a2a/wire/test_any_answer.py",
    "actors/calls/test_lifecycle.py::test_every_reachable_history",
    "actors/gate/test_oracle.py",
    "actors/models/test_schema_dialects.py",
    "e2e/test_upgrade.py",
    "gateway/a2a/test_fuzz_a2a.py",
    "gateway/agui/test_any_log.py",
    "streams/test_watchers.py",
    *(
        f"test_{name}.py"
        for name in ("direction", "house", "packaging", "reference", "requirements", "typed")
    ),
    "tiers/",
)
"""What `make test` leaves out: long searches, and tests of the code, which say nothing about the product."""
