"""Deltas of a reply arrive before its event, through a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.canary import KEY
from tests.providers.servers.model_server import Slow
from tests.providers.servers.threaded import servers_in_a_thread

if TYPE_CHECKING:
    from tests.e2e.conftest import Serve

AGENT = """
name: talker
llm: {model: "openai:MODEL"}
"""


def events(lines: Iterator[str]) -> Iterator[tuple[str, Any]]:
    event = ""
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "event":
            event = value
        elif name == "data":
            yield event, json.loads(value)


def test_deltas_of_a_reply_come_before_its_event(serve: Serve, tmp_path: Path) -> None:
    with servers_in_a_thread("openai") as servers:
        provider = servers["openai"]
        provider.always = Slow(0.02, pieces=40)
        config = tmp_path / "agent.yaml"
        config.write_text(AGENT.replace("MODEL", provider.model), encoding="utf-8")
        env = {"OPENAI_BASE_URL": provider.base_url, "OPENAI_API_KEY": KEY}
        server = serve(tmp_path / "data", config=config, env=env)
        id = server.new()
        seen: list[tuple[str, Any]] = []
        with server.client.stream("GET", f"/conversations/{id}/events", params={"deltas": "true"}) as stream:
            for event, data in events(stream.iter_lines()):
                seen.append((event, data))
                if event == "conversation.created":  # from here on nothing is missed
                    prefer = {"Prefer": "respond-async"}
                    path, body = f"/conversations/{id}/messages", {"message": "hello"}
                    assert server.client.post(path, json=body, headers=prefer).status_code == 202
                if event == "run.finished":
                    break
    kinds = [event for event, _ in seen]
    said = "".join(data["text"] for event, data in seen if event == "model.delta")
    [reply] = [data["body"] for event, data in seen if event == "step.finished"]
    assert kinds.count("model.delta") > 1
    assert kinds.index("run.started") < kinds.index("model.delta") < kinds.index("step.finished")
    assert reply["text"] == said
    assert {data["key"] for event, data in seen if event == "model.delta"} == {reply["key"]}
