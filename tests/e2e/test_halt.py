"""The emergency stop of a real process, by the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from stopgo.gateway.cli.main import main
from tests.e2e.chains import eventually

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.e2e.conftest import Serve


def test_halt_outlasts_a_kill(serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = serve(tmp_path / "data")
    lamp, chair = server.ask_for("add lamp with value 3"), server.ask_for("add chair with value 4")

    def stopgo(*words: str, code: int = 0) -> str:
        assert main([*words, "--url", server.run.url]) == code
        out, err = capsys.readouterr()
        return out + err

    assert stopgo("halt", "--status") == "The agent is not halted.\n"
    assert stopgo("halt", "--reason", "wrong\x1bdatabase").startswith("The agent is halted since ")
    server.run.kill()

    server = serve(tmp_path / "data")
    assert "the agent is halted: wrong" in server.log
    assert server.get("/health/ready")["halt"]["halted"] is True
    assert r"wrong\x1bdatabase" in stopgo("approvals")
    assert "The agent is halted" not in stopgo("approvals", "--json")
    assert "Reject it, or decide after the halt" in stopgo("approvals", "approve", lamp, code=1)
    assert "rejected" in stopgo("approvals", "reject", chair)
    assert server.resources() == {}

    assert stopgo("unhalt") == "The agent is not halted.\n"
    assert json.loads(stopgo("halt", "--status", "--json")) == {"halted": False, "in_flight": 0}
    assert "approved" in stopgo("approvals", "approve", lamp)
    assert eventually(server.resources) == {("lamp", "3"): 1}
    assert main(["halt", "--status", "--reason", "x"]) == 2
