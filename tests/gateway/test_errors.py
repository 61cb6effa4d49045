"""Faults of ours, and the codes of the agent."""

import logging
from typing import Any, get_args

import httpx2
import pytest

from stopgo.actors.common.errors import ErrorCode
from stopgo.gateway.contract import examples as ex
from stopgo.gateway.http.errors import STATUS
from stopgo.runtime.journal.errors import JournalBroken


@pytest.mark.parametrize("group", [False, True])
async def test_a_fault_of_ours_has_an_id_that_is_in_the_log(
    client: httpx2.AsyncClient, agent: Any, caplog: pytest.LogCaptureFixture, group: bool
) -> None:
    fault: Exception = RuntimeError("secret details")
    agent.raises["get"] = ExceptionGroup("several", [fault]) if group else fault
    answer = await client.get(f"/conversations/{ex.CONVERSATION_ID}")
    assert answer.status_code == 500
    body = answer.json()
    assert body["code"] == "internal_error"
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    [record] = [record for record in caplog.records if record.exc_info]
    assert body["id"] in record.getMessage()
    assert record.levelno == logging.ERROR


async def test_a_journal_that_cannot_write_is_one_line_of_the_log(
    client: httpx2.AsyncClient, agent: Any, caplog: pytest.LogCaptureFixture
) -> None:
    agent.raises["get"] = JournalBroken("a commit failed: disk full")
    answer = await client.get(f"/conversations/{ex.CONVERSATION_ID}")
    assert (answer.status_code, answer.json()["code"]) == (503, "stopped")
    assert answer.headers["Retry-After"] == "5"
    assert "disk" not in answer.text
    [record] = [record for record in caplog.records if record.name == "stopgo.gateway.http.errors"]
    assert (record.getMessage(), record.exc_info) == ("a commit failed: disk full", None)


def test_every_code_of_the_agent_has_a_status() -> None:
    assert set(STATUS) == set(get_args(ErrorCode))
