"""Schemathesis against a served agent, once with the API key of each role: `make fuzz`.

It makes requests from the OpenAPI document, valid and invalid ones, and follows ids from answers to requests.
Every answer is also compared with the document as strictly as in other tests (`tests/contract.py`).
Apart from the ids that the agent makes, the requests are the same in every run.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import httpx2
from jsonschema import ValidationError

from tests.contract import hold
from tests.e2e.conftest import Server, Servers
from tests.gateway.auth.parties import make_keys
from tests.tiers.slices import chosen

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "schemathesis"
PROGRAM = BUILD / "venv" / "bin" / "schemathesis"
AGENT = ROOT / "testdata" / "fuzz" / "fuzz-agent.yaml"
ROLES: Mapping[str, tuple[str, ...]] = {
    "viewer": ("viewer",),
    "operator": ("operator",),
    "remover": ("remover",),
    "relay": ("relay",),
    "admin": ("admin",),
}
"""The roles of each API key; `remover` approves a part of the agent."""
NO_KEY = "none"
TIMEOUT = 600.0
"""Seconds for one role."""
FEWEST = 100
"""Answers with status 200 for each role; fewer mean that the requests test little."""
MOST_SHOWN = 50
WRONG_IN_LOG = re.compile(r"Traceback|internal error| ERROR | CRITICAL ")
STREAM = "text/event-stream"
IGNORED_IF_INVALID = ("Prefer", "X-Session-ID")
REFUSING = (
    "listConversations",
    "listApprovals",
    "listPolicyCalls",
    "followConversation",
    "watchEvents",
    "resumeConversation",
    "decideApproval",
    "runAgent",
)
"""Operations that answer 400 to some requests which the document allows: cursors, places and words that do
not exist, or a missing token."""
SETTINGS = """
request-timeout = 30
continue-on-failure = true
{auth}
[cache]
enabled = false
[checks.positive_data_acceptance]
expected-statuses = ["2XX", 401, 403, 404, 409, 410, 422]
[[operations]]
include-operation-id = {refusing}
checks.positive_data_acceptance.expected-statuses = ["2XX", 400, 401, 403, 404, 409, 410, 422]
[[operations]]
include-operation-id = "runAgent"
checks.negative_data_rejection.enabled = false
[[operations]]
include-method = "HEAD"
checks.allow_header_conformance.enabled = false
[phases.coverage]
unexpected-methods = ["PATCH", "TRACE"]
[generation]
deterministic = true
database = "none"
max-examples = 15
no-shrink = true
with-security-parameters = false
[dictionaries]
conversations = {{values = {conversations}}}
approvals = {{values = {approvals}}}
[parameters]
"path.id" = {{dictionary = "conversations", probability = 0.7}}
"path.uuid" = {{dictionary = "approvals", probability = 0.7}}
[reports]
har = {{path = "answers.har"}}
[output.sanitization]
enabled = false
[output.truncation]
max-recorded-payload-size = 0
"""


def main(wanted: Sequence[str]) -> int:
    """`wanted`: roles; none: all of them, and a client without a key; or a slice."""
    part, named = chosen((*ROLES, NO_KEY), wanted)
    servers = Servers()
    problems: list[str] = []
    with TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        keys = make_keys(data, ROLES)
        server = servers(data, config=AGENT)
        try:
            for role in named or part:
                problems += [f"{role}: {problem}" for problem in fuzz(server, role, keys)]
        finally:
            servers.stop_all()
    secret = re.compile("|".join(keys.values()))
    for line in server.log.splitlines():
        if WRONG_IN_LOG.search(line) or secret.search(line):
            problems.append(f"in the log: {line}")
    print(*problems[:MOST_SHOWN], f"{len(problems)} problems", sep="\n")
    return bool(problems)


def fuzz(server: Server, role: str, keys: Mapping[str, str]) -> Iterator[str]:
    """Run schemathesis with the key of a role, and yield what is wrong."""
    began = monotonic()
    folder = BUILD / "runs" / role
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    output = folder / "output.txt"
    (folder / "openapi.json").write_text(json.dumps(adapted(server.get("/openapi.json"))))
    (folder / "schemathesis.toml").write_text(settings(keys.get(role), *seeds(server, keys)))
    with output.open("w") as file:
        done = subprocess.run(
            [PROGRAM, "run", "openapi.json", "--url", server.run.url, "--no-color"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT,
            check=False,
        )
    answers = json.loads((folder / "answers.har").read_text())["log"]["entries"]
    statuses = Counter(each["response"]["status"] for each in answers)
    told = ", ".join(f"{number} x {status}" for status, number in sorted(statuses.items()))
    print(f"{role}: {len(answers)} answers in {monotonic() - began:.0f} s: {told}", flush=True)
    if done.returncode:
        yield f"schemathesis has found failures, see {output}:\n{output.read_text()}"
    if role in keys and statuses[200] < FEWEST:
        yield f"only {statuses[200]} requests had success"
    yield from undocumented(answers)


def seeds(server: Server, keys: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """New conversations of the roles that may have some, and the approvals that some of them wait for."""
    turns = [
        server.client.post("/conversations", json={"message": text}, headers={"X-API-Key": keys[role]}).json()
        for role in ("operator", "relay", "admin")
        for text in ("remove web-1", "hello")
    ]
    approvals = [each["uuid"] for turn in turns for each in turn["result"]["approvals"]]
    return [turn["conversation"]["id"] for turn in turns], approvals


def settings(key: str | None, conversations: Sequence[str], approvals: Sequence[str]) -> str:
    """The configuration of schemathesis, as TOML. It sends these ids in most of its requests."""
    return SETTINGS.format(
        auth="" if key is None else f'auth = {{openapi = {{apiKey = {{api_key = "{key}"}}}}}}',
        refusing=json.dumps(REFUSING),
        conversations=json.dumps(conversations),
        approvals=json.dumps(approvals),
    )


def adapted(document: Any) -> Any:
    """The document without the parts that schemathesis cannot test.

    * Websockets: to a request that is no handshake, they have one answer only.
    * The routes of A2A: the protocol has errors of its own for much that its schemas allow. Its test kit
      tries them.
    * The bodies of streams: schemathesis reads an endless one until its timeout, and takes the schema of the
      data for that of an event. So the streams of events are requested with HEAD.
    * The formats of headers that are ignored if they are invalid: schemathesis expects a 400.
    * Tokens for tools, other than one: it makes no header with a space from a pattern.
    """
    paths = {
        path: methods
        for path, methods in document["paths"].items()
        if not path.endswith("/ws") and not path.startswith("/a2a")
    }
    for methods in paths.values():
        for operation in methods.values():
            for parameter in operation.get("parameters", ()):
                if parameter["name"] in IGNORED_IF_INVALID:
                    parameter["schema"] = {"type": "string"}
                elif parameter["name"] == "X-Tool-Authorization":
                    parameter["schema"] = {"type": "string", "enum": ["Bearer TOKEN"]}
            for answer in operation["responses"].values():
                if STREAM in answer.get("content", ()):
                    answer["content"] = {STREAM: {}}
        if "get" in methods and STREAM in methods["get"]["responses"]["200"].get("content", ()):
            methods["head"] = methods.pop("get")
    return {**document, "paths": paths}


def undocumented(answers: Sequence[Any]) -> Iterator[str]:
    """The answers that are not as the document describes them."""
    for answer in answers:
        request, response = answer["request"], answer["response"]
        if not response["status"]:
            yield f"no answer to {request['method']} {request['url']}"
            continue
        text = response["content"].get("text") or ""
        try:
            hold(
                httpx2.Response(
                    response["status"],
                    headers=[(each["name"], each["value"]) for each in response["headers"]],
                    content=text.encode(),
                    request=httpx2.Request(request["method"], request["url"]),
                ),
                auth=True,
            )
        except (AssertionError, ValidationError, ValueError) as error:
            yield f"{request['method']} {request['url']}: {response['status']} {text[:500]}: {error}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
