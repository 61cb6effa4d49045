"""The users of a fleet: they repeat a request with its key at another member until it is answered."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import attrs
import httpx2

from .cluster import Cluster

Json = dict[str, Any]
TIMEOUT = 60.0
"""Seconds after which a client gives up a member that does not answer."""
PAUSE = 0.05


def pause(seconds: float) -> None:
    """As people do before they try again. A test waits for nothing in this way."""
    threading.Event().wait(seconds)


def request(cluster: Cluster, path: str, body: Json, key: str) -> Json:
    """The answer to a request: its JSON, with its `status`."""
    while True:
        member = cluster.any()
        try:
            response = member.client.post(path, json=body, headers={"Idempotency-Key": key}, timeout=TIMEOUT)
        except (httpx2.TransportError, RuntimeError) as error:  # the member is down, or its client was closed
            print(f"{path} {body} is repeated: {error!r}")
        else:
            if response.status_code < 500 and response.status_code != 429:
                return {**response.json(), "status": response.status_code}
            assert response.status_code in (429, 503), response.text
            print(f"{path} {body} is repeated: {response.text}")
        pause(PAUSE)


@attrs.define(eq=False)
class Person(threading.Thread):
    """Has a conversation: says things, and decides what is asked."""

    cluster: Cluster
    name_: str
    sentences: list[str]
    """Each a kind of call and a name that no other sentence has: "wipe x7"."""
    conversation: str = ""
    answers: dict[str, Json] = attrs.field(factory=dict)
    """The final results, by sentence."""
    retries: dict[str, int] = attrs.field(factory=dict)
    """The number of times that a call with an unknown outcome was sent again."""
    unknown: int = 0
    failure: BaseException | None = None

    def __attrs_pre_init__(self) -> None:
        super().__init__(daemon=True)

    def run(self) -> None:
        try:
            self._live()
        except BaseException as error:
            self.failure = error

    def _live(self) -> None:
        created = request(self.cluster, "/conversations", {}, f"{self.name_}-new")
        self.conversation = created["conversation"]["id"]
        for number, sentence in enumerate(self.sentences):
            path = f"/conversations/{self.conversation}/messages"
            answer = request(self.cluster, path, {"message": sentence}, f"{self.name_}-{number}")
            assert answer["status"] == 200, answer
            self.answers[sentence] = self._until_finished(answer["result"], sentence)

    def _until_finished(self, result: Json, sentence: str) -> Json:
        while result["state"] == "waiting":
            for approval in result["approvals"]:
                uuid = approval["uuid"]
                body, key = self._decision(approval, sentence), f"{self.name_}-{uuid}"
                answer = request(self.cluster, f"/approvals/{uuid}", body, key)
                if "result" in answer:
                    result = answer["result"]
                    break
                assert answer["status"] in (409, 410), answer  # withdrawn for another one
            else:
                result = self._asked()
        return result

    def _asked(self) -> Json:
        """The approvals of the conversation as they are now."""
        path = f"/conversations/{self.conversation}"
        body: Json = self.cluster.any().client.get(path, timeout=TIMEOUT).json()["conversation"]
        pending = body["pending_approvals"]
        return {"state": "waiting" if pending else "finished", "approvals": pending}

    def _decision(self, approval: Json, sentence: str) -> Json:
        if approval["kind"] != "outcome_unknown":
            return {"approved": True}
        self.unknown += 1
        tool, name = sentence.split()
        if self.cluster.ledger()[tool, name]:
            return {"action": "done", "result": name}
        self.retries[sentence] = self.retries.get(sentence, 0) + 1
        return {"action": "retry"}


@attrs.define(eq=False)
class Reader(threading.Thread):
    """Follows a conversation by its cursor, at another member after each end of the stream."""

    cluster: Cluster
    conversation: str
    seen: list[tuple[int, str]] = attrs.field(factory=list)
    reconnects: int = 0
    stopped: bool = False

    def __attrs_pre_init__(self) -> None:
        super().__init__(daemon=True)

    def run(self) -> None:
        while not self.stopped:
            try:
                for event in self._events():
                    self.seen.append(event)
                    if self.stopped:
                        return
            except (httpx2.TransportError, RuntimeError):
                pass
            self.reconnects += 1
            pause(PAUSE)

    def _events(self) -> Iterator[tuple[int, str]]:
        path, after = f"/conversations/{self.conversation}/events", self.seen[-1][0] if self.seen else 0
        member = self.cluster.any()
        with member.client.stream("GET", path, params={"after": after}, timeout=TIMEOUT) as response:
            seq = 0
            for line in response.iter_lines():
                name, _, value = line.partition(": ")
                if name == "id":
                    seq = int(value)
                elif name == "event":
                    yield seq, value
