"""An agent that speaks the dialect from before A2A 0.3, as the Go edition of this project does:

    python older_agent.py LEDGER [--port PORT]

When it serves, it prints a line of JSON with its `url`: the one for messages, as agent files of the Go
edition have it. Its card names an address where nobody reaches it. Each request it gets is appended to the
file LEDGER, a line of JSON. It waits for the end of what it does, knows neither streams nor messages without
a task, and takes only whole numbers for ids of requests. What it does says the text of a message:

    echo WORDS      complete with an artifact
    ask             ask once; "approved" and its like are a yes, anything else a no
    ask twice       ask again after the first yes
    login           ask for credentials, until a message comes with `Bearer good`
    slow SECONDS    work for so long
    fail            fail
"""

from __future__ import annotations

import argparse
import json
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]

parser = argparse.ArgumentParser()
parser.add_argument("ledger")
parser.add_argument("--port", type=int, default=0)
CHOSEN = parser.parse_args()

YES = {"yes", "y", "true", "approve", "approved", "ok", "confirm"}
QUESTIONS = {"ask": ["May I?"], "ask twice": ["May I?", "Really?"]}
SKILLS = [{"id": "script", "name": "script", "description": "Does what it is told"}]

writing = threading.Lock()
said: dict[str, list[str]] = {}
"""The texts of each task."""
tasks: dict[str, Json] = {}


class Refused(Exception):
    """A JSON-RPC error, with its code and its message."""


def status(state: str, message: str | None = None, artifact: str | None = None) -> Json:
    told: Json = {"status": {"state": state}}
    if message is not None:
        told["status"]["message"] = message
    if artifact is not None:
        told["artifact"] = {"parts": [{"type": "text", "text": artifact}]}
    return told


def act(texts: list[str], bearer: str | None) -> Json:
    """The status of a task in which this has been said."""
    words, *answers = texts
    match words.split():
        case ["echo", *_]:
            return status("completed", artifact=f"echo: {words[5:]}")
        case ["ask"] | ["ask", "twice"]:
            questions = QUESTIONS[words]
            if any(answer.strip().lower() not in YES for answer in answers):
                return status("completed", artifact="not done")
            if len(answers) < len(questions):
                return status("input-required", questions[len(answers)])
            return status("completed", artifact="done")
        case ["login"] if bearer == "Bearer good":
            return status("completed", artifact="hello good")
        case ["login"]:
            return status("auth-required", "login at https://idp.example")
        case ["slow", seconds]:
            time.sleep(float(seconds))
            return status("completed", artifact="slow: all of it is over")
        case _:
            return status("failed", "it broke" if words == "fail" else f"what is {words!r}?")


def send(params: Json, bearer: str | None) -> Json:
    match params:
        case {"message": {"parts": list(parts)}}:
            texts = [part["text"] for part in parts if part.get("type") == "text" and part.get("text")]
        case _:
            texts = []
    if not texts:
        raise Refused(-32602, "No text part in message")
    task_id = params.get("taskId") or str(uuid.uuid4())
    if params.get("taskId") and task_id not in tasks:
        raise Refused(-32602, f"Task not found: {task_id}")
    said.setdefault(task_id, []).append(texts[0])
    tasks[task_id] = {"id": task_id, **act(said[task_id], bearer)}
    return tasks[task_id]


def result_of(request: Any, bearer: str | None) -> Json:
    match request:
        case {"id": int(), "method": "message/send", "params": dict(params)}:
            return send(params, bearer)
        case {"id": int(), "method": "tasks/get", "params": {"id": str(task_id)}} if task_id in tasks:
            return tasks[task_id]
        case {"id": int(), "method": "tasks/get"}:
            raise Refused(-32602, "Task not found")
        case {"id": int(), "method": str(method)}:
            raise Refused(-32601, f"Method not found: {method}")
        case _:
            raise Refused(-32700, "Parse error")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.note(None)
        if self.path != "/.well-known/agent.json":
            return self.reply(404, {"error": "not found"})
        url = f"http://0.0.0.0:{self.headers['host'].rpartition(':')[2]}"
        return self.reply(
            200, {"name": "older-agent", "description": "Does what it is told", "url": url, "skills": SKILLS}
        )

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            request = json.loads(body)
        except ValueError:
            request = body.decode("utf-8", "replace")
        self.note(request)
        if self.path != "/a2a":
            return self.reply(404, {"error": "not found"})
        answer: Json = {"jsonrpc": "2.0", "id": request.get("id") if isinstance(request, dict) else None}
        try:
            answer["result"] = result_of(request, self.headers["authorization"])
        except Refused as refused:
            answer["error"] = {"code": refused.args[0], "message": refused.args[1]}
        return self.reply(200, answer)

    def note(self, body: Any) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        line = {"method": self.command, "path": self.path, "headers": headers, "body": body}
        with writing, open(CHOSEN.ledger, "a", encoding="utf-8") as ledger:
            ledger.write(json.dumps(line) + "\n")

    def reply(self, code: int, answer: Json) -> None:
        body = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    serving = Server(("127.0.0.1", CHOSEN.port), Handler)
    print(json.dumps({"url": f"http://127.0.0.1:{serving.server_port}/a2a"}), flush=True)
    serving.serve_forever()
