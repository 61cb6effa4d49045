"""Loops: TS-018 and TS-025, step by step, and what bounds one (FR-024)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.e2e.conftest import TESTDATA
from tests.e2e.test_trees import called, event_bodies

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve, Server

LOOP = TESTDATA / "e2e-loop.yaml"
ONE_MORE = ["resources_list", "resources_add"]
ENOUGH = ["resources_list", "exit_loop"]


@pytest.fixture(scope="module")
def shared(serve_once: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    return serve_once(tmp_path_factory.mktemp("loop"), config=LOOP)


@pytest.fixture
def server(shared: Server) -> Server:
    """The agent, without resources."""
    with closing(sqlite3.connect(shared.data_dir / "resources.db")) as database, database:
        database.execute("DELETE FROM resources")
    return shared


def test_ts_018_a_loop_adds_until_there_are_three(server: Server) -> None:
    turn = server.post("/conversations", {"message": "ensure we have at least 3 resources"}, status=201)

    assert [tool for _, tool in called(turn["conversation"])] == [*ONE_MORE * 3, *ENOUGH]
    assert server.resources() == {("resource-0", "0"): 1, ("resource-1", "1"): 1, ("resource-2", "2"): 1}
    assert turn["result"]["response"] == "There are 3 resources."
    assert turn["result"]["state"] == "finished"


def test_ts_025_loop_exits_without_approval(server: Server) -> None:
    id = server.new()

    turn = server.say(id, "ensure we have at least 2 resources")

    assert [tool for _, tool in called(turn["conversation"])] == [*ONE_MORE * 2, *ENOUGH]
    assert sum(server.resources().values()) == 2
    assert turn["conversation"]["approvals"] == []
    assert turn["conversation"]["status"] == "active"
    # FR-025: the state of the iteration before is in the prompt of the next.
    kept = [body["value"] for body in event_bodies(server, id, "state.set") if body["key"] == "outcome"]
    assert kept == [
        "Added resource-0 in iteration 1.",
        "Added resource-1 in iteration 2.",
        "There are 2 resources.",
    ]

    # Once there are enough, the first look ends it.
    again = server.say(id, "ensure we have at least 2 resources")
    assert [tool for _, tool in called(again["conversation"])][-2:] == ENOUGH
    assert sum(server.resources().values()) == 2


def test_loop_ends_after_its_last_iteration(server: Server) -> None:
    turn = server.post("/conversations", {"message": "ensure we have at least 9 resources"}, status=201)

    assert [tool for _, tool in called(turn["conversation"])] == ONE_MORE * 5
    assert turn["result"]["response"] == "Added resource-4 in iteration 5."
    assert turn["result"]["state"] == "finished"
