"""The tasks of lying_agent.py, and what it says of them: the lies that look well."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import attrs

Json = dict[str, Any]

IDS: dict[str, Any] = {
    "huge": "x" * 1_000_000,
    "path": "a/../../b?c#d%2e",
    "empty": "",
    "control": "a\r\nx-evil: 1\x00",
    "number": 7,
    "same": "same",
}


@attrs.frozen
class Reply:
    state: str
    text: str = ""
    artifact: str = ""


ASKS = Reply("INPUT_REQUIRED", "May I?")
DONE = Reply("COMPLETED", artifact="done")
WORKS = Reply("WORKING")


@attrs.define(eq=False)
class Task:
    words: Sequence[str]
    id: Any
    context: str = attrs.field(factory=lambda: str(uuid.uuid4()))
    answers: list[str] = attrs.field(factory=list)
    cancelled: bool = False

    def status(self, reply: Reply) -> Json:
        status: Json = {"state": f"TASK_STATE_{reply.state}"}
        if reply.text:
            # The same question has the same id whenever it is looked at, but for one who is restless.
            said = f"{len(self.answers)} {reply.text}" if self.words != ["restless"] else str(uuid.uuid4())
            status["message"] = {
                "messageId": str(uuid.uuid5(uuid.UUID(int=0), f"{self.id} {said}")),
                "role": "ROLE_AGENT",
                "taskId": self.id,
                "contextId": self.context,
                "parts": [{"text": reply.text}],
            }
        return status

    def whole(self, reply: Reply) -> Json:
        artifacts = [artifact(reply.artifact)] if reply.artifact else []
        return {
            "id": self.id,
            "contextId": self.context,
            "status": self.status(reply),
            "artifacts": artifacts,
        }

    def update(self, reply: Reply) -> Json:
        return {"statusUpdate": {"taskId": self.id, "contextId": self.context, "status": self.status(reply)}}

    def chunk(self, text: str, append: bool = False) -> Json:
        told = {"taskId": self.id, "contextId": self.context, "artifact": artifact(text), "append": append}
        return {"artifactUpdate": told}

    def events(self, reply: Reply) -> list[Json]:
        """Of a stream, after the first."""
        chunks = [self.chunk(reply.artifact)] if reply.artifact else []
        return [*chunks, self.update(reply)]


def artifact(text: str) -> Json:
    return {"artifactId": "a", "parts": [{"text": text}]}


def another(task: Task) -> Task:
    """One that the client never began."""
    return attrs.evolve(task, id=f"not {task.id}")


def told(task: Task) -> Reply:
    """What it says of a task when a message has come."""
    yes = task.answers and task.answers[0] == "approved"
    match task.words:
        case _ if task.cancelled:
            return Reply("CANCELED")
        case ["stolen"]:
            return Reply("COMPLETED", artifact="stolen")
        case ["echo", *words]:
            return Reply("COMPLETED", artifact=f"echo: {' '.join(words)}")
        case ["ask", "forever"]:
            return Reply("INPUT_REQUIRED", f"Question {len(task.answers) + 1}?")
        case ["login", "forever"]:
            return Reply("AUTH_REQUIRED", "login at https://idp.example")
        case ["contradict", "first" | "after"]:
            return DONE
        case ["contradict", "completed"] if task.answers:
            return DONE
        case ["contradict", _]:
            return ASKS
        case ["ask" | "id" | "other" | "restless", *_] if task.answers:
            return DONE if yes else Reply("COMPLETED", artifact="not done")
        case ["ask", _, *_]:
            return Reply("INPUT_REQUIRED", " ".join(task.words[1:]))
        case ["ask"] | ["id", _] | ["other", "answer" | "context"] | ["restless"]:
            return ASKS
        case ["other", _] | ["stubborn"] | ["cut" | "endless", _]:
            return WORKS
        case _:
            return Reply("FAILED", f"what is {' '.join(task.words)!r}?")


def seen(task: Task) -> Reply:
    """What a look at the task says."""
    match task.words:
        case ["contradict", "first" | "completed"]:
            return ASKS
        case ["contradict", "asking"] | ["other", "get"]:
            return DONE
        case ["stubborn"]:
            return WORKS
        case ["cut", *_]:
            return Reply("COMPLETED", artifact="after all")
        case _:
            return told(task)
