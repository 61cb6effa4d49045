"""The log lines of requests over A2A."""

import logging

import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from stopgo.gateway.log_lines import JsonLogLines, LogLines
from stopgo.runtime import json_text

from .talk import Talk


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage", "message/send", "message/stream"])
async def test_the_line_of_a_first_message_names_method_and_conversation(
    talk: Talk, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    """NFR-007: each request is logged with its conversation. The path of JSON-RPC is always the same."""
    caplog.set_level(logging.INFO, logger="stopgo")
    role, part = ("user", {"kind": "text"}) if "/" in method else ("ROLE_USER", {})
    message = {"messageId": "m", "contextId": "desk", "role": role, "parts": [{**part, "text": "hi"}]}
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}
    await talk.client.post("/a2a", json=call, headers={"X-Session-ID": "mine"})
    await wait_all_tasks_blocked()
    [record] = [each for each in caplog.records if each.name == "stopgo.access"]
    assert LogLines().format(record).endswith(f" conversation=desk sid=mine rpc={method}")
    named = json_text.load(JsonLogLines().format(record))
    assert (named["rpc"], named["conversation"], named.get("trace")) == (method, "desk", None)
