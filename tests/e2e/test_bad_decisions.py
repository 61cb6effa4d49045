"""Late and invalid decisions, and invalid rules, at a real server.

Each gets its error code, decides nothing, and leaves no traceback in the log (checked when the servers stop).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from stopgo.gateway.cli.main import main
from tests.e2e.chains import SCRIPTED, TELL, begin_and_leave, calling, done, echo_server, ended, written
from tests.e2e.test_trees import event_bodies

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.conftest import Serve, Server

STRICT = """
llm: {model: "offline:rules"}
mcp_servers:
  - name: resources
    command: stopgo
    args: [mcp-resources, --db, "${data_dir}/resources.db"]
approval:
  rules:
    - {name: production, tool: resources_add, arguments: {name: {matches: ^prod-}}, then: deny}
    - {name: large, tool: resources_add, arguments: {value: {above: 100}}, then: ask}
"""
BRIEF = {
    "llm": SCRIPTED,
    "mcp_servers": [echo_server("tools")],
    "approval": {"expires_after": 0.5},
}

MISTAKES = """\
approval:
  rules:
    - {tool: resources_add, then: perhaps}
    - {tool: resources_add, arguments: {name: {matches: "prod-["}}, then: ask}
    - {tool: resources_add, arguments: {value: {above: many}}, then: ask}
    - {tool: resources_add, arguments: {value: {beyond: 5}}, then: ask}
    - {tool: resources_add, arguments: {value: {}}, then: ask}
    - {tool: resources_add}
agent:
  type: router
  name: gate
  routes:
    - {when: {user_message: {matches: "(unclosed"}}, agent: only}
    - {when: {}, agent: only}
    - {when: {user_message: {exists: maybe}}, agent: nobody}
  agents:
    - {type: llm, name: only}
"""


@pytest.fixture(scope="module")
def strict(serve_once: Serve, tmp_path_factory: pytest.TempPathFactory) -> Server:
    folder = tmp_path_factory.mktemp("strict")
    (folder / "agent.yaml").write_text(STRICT, encoding="utf-8")
    return serve_once(folder / "data", config=folder / "agent.yaml")


def edit(server: Server, uuid: str, arguments: dict[str, Any], status: int = 200) -> dict[str, Any]:
    return server.post(f"/approvals/{uuid}", {"approved": True, "arguments": arguments}, status=status)


def approval(server: Server, uuid: str) -> dict[str, Any]:
    body: dict[str, Any] = server.get(f"/approvals/{uuid}")["approval"]
    return body


def test_invalid_edit_leaves_approval_pending(strict: Server) -> None:
    uuid = strict.ask_for("add misfit with value 1")

    error = edit(strict, uuid, {"name": ["misfit"], "value": {}}, status=422)

    assert error["code"] == "invalid_arguments"
    assert len(error["errors"]) == 2
    assert approval(strict, uuid)["state"] == "pending"


def test_denied_edit_leaves_approval_pending(strict: Server) -> None:
    uuid = strict.ask_for("add staging with value 1")

    error = edit(strict, uuid, {"name": "prod-1", "value": 1}, status=422)

    assert error["code"] == "denied_by_policy"
    assert '"production"' in error["error"]
    assert approval(strict, uuid)["state"] == "pending"
    # Whoever was refused may still say yes to what was asked.
    strict.post(f"/approvals/{uuid}", {"approved": True})
    assert strict.resources()["staging", "1"] == 1
    assert ("prod-1", "1") not in strict.resources()


def test_edit_that_matches_an_ask_rule_asks_again(strict: Server) -> None:
    uuid = strict.ask_for("add bulk with value 1")
    assert approval(strict, uuid)["rule"] == "destructiveHint: true"

    again = edit(strict, uuid, {"name": "bulk", "value": 500})

    assert again["result"]["state"] == "waiting"
    second = again["result"]["approval"]
    assert second["replaces"] == uuid
    assert second["tool_args"] == {"name": "bulk", "value": 500}
    assert '"large"' in second["rule"]
    assert approval(strict, uuid)["state"] == "decided"
    assert ("bulk", "500") not in strict.resources()
    assert strict.post(f"/approvals/{uuid}", {"approved": True}, status=409)["code"] == "already_decided"

    # No rule asks twice: the same large value, once more, runs.
    done = strict.post(f"/approvals/{second['uuid']}", {"approved": True})
    assert done["result"]["state"] == "finished"
    assert strict.resources()["bulk", "500"] == 1
    assert ("bulk", "1") not in strict.resources()


@pytest.mark.parametrize("approved", [True, False])
def test_approval_of_a_cancelled_run_is_void(strict: Server, approved: bool) -> None:
    uuid = strict.ask_for("add cancelled with value 1")
    strict.post(f"/conversations/{approval(strict, uuid)['conversation_id']}/cancel")

    error = strict.post(f"/approvals/{uuid}", {"approved": approved}, status=410)

    assert error["code"] == "void"
    assert error["error"]
    assert approval(strict, uuid)["state"] == "void"
    assert ("cancelled", "1") not in strict.resources()


def test_approval_of_a_deleted_conversation_is_unknown(strict: Server) -> None:
    uuid = strict.ask_for("add deleted with value 1")
    id = approval(strict, uuid)["conversation_id"]
    assert strict.client.delete(f"/conversations/{id}").status_code == 204

    assert strict.post(f"/approvals/{uuid}", {"approved": True}, status=404)["code"] == "approval_not_found"
    assert ("deleted", "1") not in strict.resources()


def test_decision_after_expiry_is_410(serve: Serve, tmp_path: Path) -> None:
    config = written(tmp_path / "agent", BRIEF, [calling("wipe"), TELL])
    ledger = tmp_path / "ledger"
    server = serve(tmp_path / "data", config=config, env={"LEDGER": str(ledger)})
    id = begin_and_leave(server, "wipe late")
    ended(server, id)
    [asked] = event_bodies(server, id, "approval.requested")
    uuid = asked["id"]

    error = server.post(f"/approvals/{uuid}", {"approved": True}, status=410)

    assert error["code"] == "expired"
    assert approval(server, uuid)["state"] == "expired"
    assert [body["id"] for body in event_bodies(server, id, "approval.expired")] == [uuid]
    assert done(ledger) == []


def test_invalid_rules_and_routes_are_reported_by_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(MISTAKES, encoding="utf-8")

    assert main(["config", "check", str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    problems = err.splitlines()
    assert [int(line.removeprefix(f"{file}:").partition(":")[0]) for line in problems] == [
        *range(3, 9),
        *range(13, 16),
        15,
    ]
