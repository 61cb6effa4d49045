"""Every agent of testdata/examples, over HTTP with the real resource server; none needs a key."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stopgo.config.load import load_config
from tests.e2e.conftest import BIN, TESTDATA, clean_environment
from tests.e2e.test_trees import called, event_bodies, said

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve, Server

pytestmark = pytest.mark.docs

EXAMPLES = TESTDATA / "examples"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_an_example_is_valid_without_a_key_and_says_how_to_try_it(path: Path, tmp_path: Path) -> None:
    config = load_config(path, data_dir=tmp_path, environ={})

    assert config.warnings == ()
    assert config.description
    assert f"stopgo run --config testdata/examples/{path.name} " in path.read_text(encoding="utf-8")


def start(server: Server, message: str) -> dict[str, Any]:
    return server.post("/conversations", {"message": message}, status=201)


def by_node(turn: dict[str, Any]) -> dict[str, str]:
    """The pending approvals of a turn, by node."""
    return {approval["node"]: approval["uuid"] for approval in turn["result"]["approvals"]}


def test_simple(serve: Serve, tmp_path: Path) -> None:
    server = serve(tmp_path / "data", config=EXAMPLES / "simple.yaml")

    asked = start(server, "add lamp with value 3")
    approval = asked["result"]["approval"]
    assert approval["expires_at"] > approval["created_at"]
    done = server.post(f"/approvals/{approval['uuid']}", {"approved": True})

    assert done["result"]["state"] == "finished"
    assert "pipeline_state" not in asked["conversation"]
    assert server.resources() == {("lamp", "3"): 1}


def test_sequential(serve: Serve, tmp_path: Path) -> None:
    server = serve(tmp_path / "data", config=EXAMPLES / "sequential.yaml")

    asked = start(server, "add lamp with value 3")
    assert asked["conversation"]["pipeline_state"]["session_state"] == {"before": "0 resources"}
    done = server.post(f"/approvals/{asked['result']['approval']['uuid']}", {"approved": True})

    assert done["result"]["response"].startswith("Before: 0 resources. Then: ")
    assert server.resources() == {("lamp", "3"): 1}

    rejected = server.post(f"/approvals/{server.ask_for('add chair with value 1')}", {"approved": False})
    assert rejected["result"]["response"] == "Operation cancelled by user."
    assert all(message.get("node") != "report" for message in rejected["conversation"]["messages"])
    assert server.resources() == {("lamp", "3"): 1}


def test_parallel_branches_are_answered_in_any_order(serve: Serve, tmp_path: Path) -> None:
    server = serve(tmp_path / "data", config=EXAMPLES / "parallel.yaml")

    asked = start(server, "release 7")
    uuids = by_node(asked)
    assert uuids.keys() == {"europe", "america"}

    half = server.post(f"/approvals/{uuids['america']}", {"approved": True})
    assert half["result"]["state"] == "waiting"
    assert by_node(half) == {"europe": uuids["europe"]}
    assert server.resources() == {("app-america", "7"): 1}

    done = server.post(f"/approvals/{uuids['europe']}", {"approved": False})
    # The sequence around the branches ends with the no; what was allowed has happened.
    assert done["result"]["response"].startswith("Operation cancelled by user.")
    assert done["result"]["response"].endswith("runs 7")
    assert all(message.get("node") != "report" for message in done["conversation"]["messages"])
    assert server.resources() == {("app-america", "7"): 1}

    again = start(server, "release 8")
    for uuid in by_node(again).values():
        done = server.post(f"/approvals/{uuid}", {"approved": True})
    assert done["result"]["response"] == "Europe runs 8, America runs 8."


def test_rejection_ends_a_loop_that_asks_in_every_iteration(serve: Serve, tmp_path: Path) -> None:
    server = serve(tmp_path / "data", config=EXAMPLES / "loop.yaml")

    turn = server.post(f"/approvals/{server.ask_for('fill up')}", {"approved": False})
    assert turn["result"]["response"] == "Operation cancelled by user."
    assert server.resources() == {}

    turn = start(server, "fill up")
    for count in range(3):
        approval = turn["result"]["approval"]
        assert approval["tool_args"] == {"name": f"item-{count}", "value": count}
        assert sum(server.resources().values()) == count
        turn = server.post(f"/approvals/{approval['uuid']}", {"approved": True})

    assert turn["result"]["response"] == "There are 3 resources."
    assert called(turn["conversation"])[-1] == ("filler", "exit_loop")


@pytest.fixture(scope="module")
def router(serve_once: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    return serve_once(tmp_path_factory.mktemp("router"), config=EXAMPLES / "router.yaml")


@pytest.mark.parametrize(
    ("message", "index", "child", "says"),
    [
        ("what is there?", 0, "reader", r"There are \d+ resources\."),
        ("add lamp with value 3", 1, "changer", "This action requires approval"),
        ("good morning", 2, "helper", "I can list resources"),
    ],
)
def test_a_router_hands_over(router: Server, message: str, index: int, child: str, says: str) -> None:
    turn = start(router, message)

    assert re.match(says, turn["result"]["response"])
    id = turn["conversation"]["id"]
    steps = event_bodies(router, id, "step.finished")
    assert [step["choice"] for step in steps if step["kind"] == "route"] == [index]
    # Nobody else was asked.
    assert {step["node"] for step in steps if step["kind"] == "model"} == {"reception", child}


@pytest.fixture(scope="module")
def pipeline(serve_once: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """The agent with all kinds of nodes, for tests that add no resource."""
    return serve_once(tmp_path_factory.mktemp("pipeline"), config=EXAMPLES / "pipeline.yaml")


def test_pipeline_answers_a_question_without_approval(pipeline: Server) -> None:
    turn = start(pipeline, "what is there?")

    assert turn["result"]["response"] == "[question] 0 resources, 0 of them lamps"
    assert turn["conversation"]["approvals"] == []


def test_pipeline_asks_once_and_survives_a_kill(serve: Serve, tmp_path: Path) -> None:
    server = serve(tmp_path / "data", config=EXAMPLES / "pipeline.yaml")

    asked = start(server, "restock")
    approval = asked["result"]["approval"]
    assert (approval["kind"], approval["node"]) == ("checkpoint", "may-we")
    assert approval["description"] == (
        "There are {count} resources. Fill up to 3?\n\n{count}:\n\n```\n0\n```"
    )
    assert asked["conversation"]["pipeline_state"] == {
        "paused_node_path": [2, 0, 0],
        "paused_node_output_key": "",
        "session_state": {"kind": "restock", "count": "0", "lamps": "0"},
        "user_message": "restock",
    }
    assert server.resources() == {}

    # The approval is on disk, so it survives the kill.
    server.run.kill()
    server = serve(tmp_path / "data", config=EXAMPLES / "pipeline.yaml")
    done = server.post(f"/approvals/{approval['uuid']}", {"approved": True})

    assert done["result"]["response"] == "[restock] There are 3 resources now."
    assert server.resources() == {("lamp-0", "0"): 1, ("lamp-1", "1"): 1, ("lamp-2", "2"): 1}


def test_rejected_checkpoint_ends_only_its_sequence(pipeline: Server) -> None:
    turn = pipeline.post(f"/approvals/{pipeline.ask_for('restock')}", {"approved": False})

    # The rejection ends the sequence with the checkpoint; the pipeline around it continues.
    assert turn["result"]["response"].startswith("Operation cancelled by user.")
    assert said(turn["conversation"])["summary"] == "[restock] Operation cancelled by user"
    assert pipeline.resources() == {}


def test_what_stops_at_the_command_line_goes_on_over_http(serve: Serve, tmp_path: Path) -> None:
    config, data = EXAMPLES / "loop.yaml", tmp_path / "data"
    run = subprocess.run(
        [BIN / "stopgo", "run", "--config", config, "--data-dir", data, "fill up"],
        cwd=tmp_path,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout) == (3, "")
    found = re.search(r"curl http://127\.0\.0\.1:8080/approvals/(\S+) -d '{\"approved\": true}'", run.stderr)
    assert found, run.stderr
    assert f"stopgo serve --config {config} --data-dir {data}\n" in run.stderr

    server = serve(data, config=config)
    turn = server.post(f"/approvals/{found[1]}", {"approved": True})

    assert turn["result"]["state"] == "waiting"
    assert server.resources() == {("item-0", "0"): 1}
    assert f"conversation {turn['conversation']['id']}" in run.stderr


def test_ts_019_a_pipeline_pauses_and_completes_after_approval(sequential: Server) -> None:
    asked = start(sequential, "add resource test-seq with value 55")
    approval = asked["result"]["approval"]
    assert approval["node"] == "executor"
    assert asked["conversation"]["status"] == "waiting_approval"
    state = asked["conversation"]["pipeline_state"]
    assert state["paused_node_path"] == [1]
    assert state["session_state"] == {"analysis": "intent: add; name: test-seq; value: 55"}

    done = sequential.post(f"/approvals/{approval['uuid']}", {"approved": True})

    assert done["result"]["response"] == "Added test-seq with value 55."
    assert done["conversation"]["status"] == "active"
    assert "pipeline_state" not in done["conversation"]
    assert sequential.resources()["test-seq", "55"] == 1


def test_guides_show_the_examples_as_they_are() -> None:
    shown = set()
    for page in (TESTDATA.parent / "docs" / "guides").glob("*.md"):
        for block in re.finditer(
            r"^```yaml (\S+)\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
        ):
            path = EXAMPLES / block[1]
            if path.exists():
                assert block[2] == path.read_text(encoding="utf-8"), f"{page.name}: {block[1]}"
                shown.add(block[1])
    assert {"simple.yaml", "loop.yaml", "router.yaml", "pipeline.yaml"} <= shown
