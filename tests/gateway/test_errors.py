"""Faults of ours, and the codes of the agent."""

import logging
from typing import Any, get_args

import httpx2
import pytest

from stopgo.actors.errors import ErrorCode
from stopgo.gateway import examples as ex
from stopgo.gateway.errors import STATUS


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


def test_every_code_of_the_agent_has_a_status() -> None:
    assert set(STATUS) == set(get_args(ErrorCode))
