"""A small client of AG-UI for the terminal, with nothing but the standard library.

    python agui_client.py URL THREAD MESSAGE

It prints text as it streams, and asks about each interrupt: `y`, `n`, or other arguments as JSON.
"""

import json
import sys
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

Json = dict[str, Any]


def run(url: str, thread: str, messages: list[Json], resume: list[Json]) -> Iterator[Json]:
    """The events of one run."""
    body = {"threadId": thread, "runId": str(uuid.uuid4()), "messages": messages, "resume": resume}
    request = Request(f"{url}/agui", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urlopen(request) as lines:
        for line in lines:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))


def answer(interrupt: Json) -> Json:
    said = input(f"{interrupt['message']}\n(y/n/arguments) ")
    payload: Json = {"approved": said != "n"}
    if said not in ("y", "n"):
        payload["editedArgs"] = json.loads(said)
    return {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}


def main(url: str, thread: str, text: str) -> None:
    messages = [{"id": str(uuid.uuid4()), "role": "user", "content": text}]
    resume: list[Json] = []
    while True:
        interrupts: list[Json] = []
        for event in run(url, thread, messages, resume):
            match event["type"]:
                case "TEXT_MESSAGE_CONTENT":
                    print(event["delta"], end="", flush=True)
                case "TEXT_MESSAGE_END":
                    print()
                case "TOOL_CALL_RESULT":
                    print(f"result: {event['content']}")
                case "RUN_ERROR":
                    sys.exit(event["message"])
                case "RUN_FINISHED":
                    interrupts = event["outcome"].get("interrupts", [])
        if not interrupts:
            return
        resume = [answer(each) for each in interrupts]


if __name__ == "__main__":
    main(*sys.argv[1:])
