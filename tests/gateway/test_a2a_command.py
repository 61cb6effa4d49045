"""`stopgo a2a`: cards of every make, and messages to real agents, with and without a person there."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx2
import pytest

from stopgo.gateway.cli.main import main
from tests.canary import KEY, TOKEN
from tests.gateway.attended_run import AttendedRun
from tests.gateway.card_server import CARD, card_server
from tests.gateway.conftest import InProcess
from tests.gateway.guarded_server import guarded_server
from tests.http_client import blocking_client

pytestmark = pytest.mark.agents

TESTDATA = Path(__file__).parents[2] / "testdata"
EXAMPLES = TESTDATA / "examples"
OLDER_AGENT = TESTDATA / "servers" / "older_agent.py"
STOPGO = Path(sys.executable).with_name("stopgo")
QUESTION = r"(Run it|Let it go on)\? .* >"

KEEPER = """
name: keeper
description: Keeps named resources.
llm: {model: script:replies.yaml}
mcp_servers:
  - {name: resources, command: stopgo, args: [mcp-resources, --db, "${data_dir}/resources.db"]}
  - {name: guarded, url: "${GUARDED}"}
"""
REPLIES = """
replies:
  - when: {call: 1, user: '^add (?P<name>\\w+)'}
    text: I will try.
    tool_calls: [{name: resources_add, arguments: {name: '${name}', value: 3}}]
  - when: {call: 1, user: look}
    tool_calls: [{name: look}]
  - when: {tool_result: '(?s)(?P<result>.*)'}
    text: 'told: ${result}'
  - when: {user: slow}
    text: at last
    delay: 3600
  - when: {user: boom}
    error: {status: 400, message: "no \\e[2J more"}
  - when: {user: report}
    a2a: {artifact: {file: {name: report.pdf, media_type: application/pdf, url: "https://files.example/report.pdf"}}}
  - text: "hello \\e[31m"
"""
CHAIN = """
name: front
llm: {model: offline:rules}
agent: {type: a2a, name: keeper, url: "${KEEPER}"}
"""


@attrs.frozen
class Served:
    url: str
    client: httpx2.Client

    @property
    def pending(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.client.get("/approvals").json()["approvals"]
        return found

    def decide(self, approved: bool) -> None:
        [asked] = self.pending
        self.client.post(f"/approvals/{asked['uuid']}", json={"approved": approved}).raise_for_status()

    def status(self, task: str) -> str:
        found: str = self.client.get(f"/conversations/{task}").json()["conversation"]["run"]["state"]
        return found


@contextmanager
def served(folder: Path, config: Path, **env: str) -> Iterator[Served]:
    options = ["--port", "0", "--config", str(config), "--data-dir", str(folder / f"{config.stem}-data")]
    process = subprocess.Popen(
        [STOPGO, "serve", *options],
        cwd=folder,
        env=os.environ | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout
        lines = []
        for line in process.stdout:
            lines.append(line)
            if found := re.match(r"listening on (\S+)", line):
                break
        else:
            pytest.fail("".join(lines))
        with blocking_client(base_url=found[1], trust_env=False) as client:
            yield Served(found[1], client)
    finally:
        process.terminate()
        out, _ = process.communicate()
    assert "Traceback" not in out


@pytest.fixture(scope="module")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("keeper")
    (folder / "replies.yaml").write_text(REPLIES)
    (folder / "keeper.yaml").write_text(KEEPER)
    with (
        guarded_server("initialize", "notifications/initialized", "tools/list") as url,
        served(folder, folder / "keeper.yaml", GUARDED=url) as agent,
    ):
        yield agent


Start = Callable[..., AttendedRun]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as started:

        def start(url: str, message: str, *options: str) -> AttendedRun:
            run = AttendedRun.begin([STOPGO, "a2a", "send", *options, url, message], tmp_path)
            started.callback(run.close)
            return run

        yield start


@pytest.fixture
def send(in_process: InProcess) -> InProcess:
    """Send a message without a terminal."""

    def send(*args: str) -> subprocess.CompletedProcess[str]:
        done = in_process("a2a", "send", *args)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return send


# -------------------------------------------------------------------------- card


def test_card_of_an_agent(keeper: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["a2a", "card", keeper.url]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    endpoint = f"{keeper.url}/a2a"
    assert out.startswith(
        f"keeper: Keeps named resources.\ncard: {keeper.url}{CARD}\ninterfaces:\n"
        f"  A2A 1.0 over JSONRPC at {endpoint}: used\n"
        f"  A2A 1.0 over HTTP+JSON at {endpoint}: supported\n"
        f"  A2A 0.3 over JSONRPC at {endpoint}: supported\n"
        f"  A2A 0.3 over HTTP+JSON at {endpoint}: supported\n"
        "streaming: yes\n"
        "extensions: https://kagent.dev/extensions/hitl/v1, urn:agent-stop-and-go:idempotency:v1,"
        " urn:agent-stop-and-go:look:v1\n"
        "skills:\n"
    )
    assert "  resources_add: Add a new resource with a name and value\n" in out


def test_card_as_it_came(keeper: Served, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["a2a", "card", "--json", f"{keeper.url}/a2a"]) == 0
    assert json.loads(capsys.readouterr().out) == keeper.client.get(CARD).json()


def interface(url: str = "{here}/a2a", binding: str = "JSONRPC", version: str = "1.0") -> dict[str, str]:
    return {"url": url, "protocolBinding": binding, "protocolVersion": version}


def card(*interfaces: Mapping[str, str], **more: object) -> dict[str, object]:
    return {"name": "a", "capabilities": {}, "supportedInterfaces": list(interfaces), **more}


OLD_CARD = {
    "name": "old",
    "description": "an \x1b[31m agent",
    "protocolVersion": "0.3.0",
    "url": "{here}/rpc",
    "capabilities": {"streaming": True},
    "additionalInterfaces": [
        {"url": "{here}/rpc", "transport": "JSONRPC"},
        {"url": "{here}/grpc", "transport": "GRPC"},
    ],
    "skills": [{"id": "s1"}],
}


@pytest.mark.parametrize(
    ("answers", "path", "lines"),
    [
        (
            {CARD: (200, card(interface(binding="GRPC"), interface("http://10.0.0.1/x"), interface()))},
            "/a2a",
            [
                "a",
                "card: {here}/.well-known/agent-card.json",
                "interfaces:",
                "  A2A 1.0 over GRPC at {here}/a2a: not supported",
                "  A2A 1.0 over JSONRPC at http://10.0.0.1/x: at another origin, not used",
                "  A2A 1.0 over JSONRPC at {here}/a2a: used",
                "streaming: no",
                "extensions: none",
                "skills: none",
            ],
        ),
        (
            {
                f"/team{CARD}": (
                    200,
                    card(interface("http://0.0.0.0:8000/a2a"), interface("http://0.0.0.0/b")),
                )
            },
            "/team",
            [
                "a",
                "card: {here}/team/.well-known/agent-card.json",
                "interfaces:",
                "  A2A 1.0 over JSONRPC at http://0.0.0.0:8000/a2a: called at {here}/team/a2a",
                "  A2A 1.0 over JSONRPC at http://0.0.0.0/b: at another origin, not used",
                "streaming: no",
                "extensions: none",
                "skills: none",
            ],
        ),
        (
            {"/mine.json": (200, OLD_CARD)},
            "/mine.json",
            [
                "old: an \\x1b[31m agent",
                "card: {here}/mine.json",
                "interfaces:",
                "  A2A 0.3 over JSONRPC at {here}/rpc: used",
                "  A2A 0.3.0 over GRPC at {here}/grpc: not supported",
                "streaming: yes",
                "extensions: none",
                "skills:",
                "  s1",
            ],
        ),
        (
            {"/.well-known/agent.json": (200, {"name": "older", "url": "http://0.0.0.0:1"})},
            "/a2a",
            [
                "older",
                "card: {here}/.well-known/agent.json",
                "interfaces:",
                "  the older dialect over JSONRPC at {here}/a2a: used",
                "streaming: no",
                "extensions: none",
                "skills: none",
            ],
        ),
    ],
    ids=["1.0", "listens", "0.3", "older"],
)
def test_cards_of_others(
    capsys: pytest.CaptureFixture[str], answers: Mapping[str, tuple[int, Any]], path: str, lines: list[str]
) -> None:
    with card_server(answers) as (here, _):
        assert main(["a2a", "card", f"{here}{path}"]) == 0
    assert capsys.readouterr() == ("".join(f"{line}\n" for line in lines).replace("{here}", here), "")


def test_headers_go_with_every_request(capsys: pytest.CaptureFixture[str]) -> None:
    with card_server({CARD: (200, card(interface()))}) as (here, seen):
        assert main(["a2a", "card", here, "--header", f"X-Key: {KEY}", "--header", "X-Two:"]) == 0
        assert {(each["x-key"], each["x-two"]) for each in seen} == {(KEY, "")}
    assert KEY not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answers", "why", "hint"),
    [
        ({}, "there is no card; a delegation would try the older dialect over JSONRPC", "looked for beside"),
        ({CARD: (200, "text")}, "its card cannot be read: card: must be an object", "Check that"),
        ({CARD: (200, card(interface(binding="GRPC")))}, "it has no interface", "A delegation speaks"),
        ({CARD: (401, None)}, "its card is answered with HTTP 401", "--header"),
        ({CARD: (500, None)}, "its card is answered with HTTP 500", "Check that"),
        ({CARD: (302, None)}, "its card is answered with HTTP 302", "Redirects are not"),
    ],
    ids=["none", "no card", "foreign", "401", "500", "redirect"],
)
def test_a_card_that_cannot_be_used(
    capsys: pytest.CaptureFixture[str], answers: Mapping[str, tuple[int, Any]], why: str, hint: str
) -> None:
    with card_server(answers) as (here, seen):
        assert main(["a2a", "card", here]) == 1
    err = capsys.readouterr().err
    assert why in err
    assert hint in err.splitlines()[-1]
    assert "/elsewhere" not in {each["path"] for each in seen}


@pytest.mark.parametrize("command", [["a2a", "card", "URL"], ["tree", "--config", "URL.yaml"]])
def test_ctrl_c_ends_a_look_at_an_agent(ctrl_c: None, tmp_path: Path, command: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = "http://127.0.0.1:{}".format(*silent.getsockname()[1:])
        (tmp_path / "agent.yaml").write_text(f"llm: {{model: offline:rules}}\na2a: {{x: {{url: '{url}'}}}}")
        words = [word.replace("URL.yaml", "agent.yaml").replace("URL", url) for word in command]
        run = AttendedRun.begin([STOPGO, *words], tmp_path)
        try:
            connection, _ = silent.accept()
            with connection:
                run.process.send_signal(signal.SIGINT)
                assert run.end() == (130, "")
        finally:
            run.close()


def test_an_agent_that_does_not_answer(in_process: InProcess, send: InProcess) -> None:
    looked = in_process("a2a", "card", "http://127.0.0.1:1/a2a")
    assert (looked.returncode, looked.stdout) == (1, "")
    assert looked.stderr == (
        "stopgo a2a card: 127.0.0.1:1: it cannot be reached: connection refused\n"
        "Check that the agent is running and that the address is right.\n"
    )
    done = send("http://127.0.0.1:1/a2a", "hi")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "stopgo a2a send: 127.0.0.1:1: it cannot be reached: connection refused\n"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["card", "ftp://x"], "URL: not a valid address"),
        (["card", "http://user@x"], "URL: not a valid address"),
        (["card", "http://x:99999"], "URL: not a valid address"),
        (["card", "http://x", "--header", KEY], "--header: not a header; example"),
        (["card", "http://x", "--header", f"X Y: {KEY}"], "--header: not a header; example"),
        (["card", "http://x", "--header", f"X: {KEY}\n{KEY}"], "--header: not a header; example"),
        (["send", "http://x"], "the following arguments are required: MESSAGE"),
        (["send", "http://x", " "], "the message is empty"),
        (["send", "http://x", "hi", "--timeout", "0"], "--timeout: not a number of seconds"),
        (["send", "http://x", "hi", "--timeout", "soon"], "--timeout: not a number of seconds"),
        (
            ["send", "http://x", "hi", "--token-env", "NO_TOKEN"],
            "the environment variable NO_TOKEN is not set",
        ),
        (
            ["send", "http://x", "hi", "--token-env", "TWO"],
            "the environment variable TWO does not contain a valid token",
        ),
        (
            ["send", "http://x", "hi", "--token-env", "GOOD", "--header", f"Authorization: {KEY}"],
            "--token-env and an Authorization header exclude each other",
        ),
    ],
)
def test_wrong_usage(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, args: list[str], says: str
) -> None:
    monkeypatch.setenv("GOOD", TOKEN)
    monkeypatch.setenv("TWO", f"{TOKEN}\n{TOKEN}")
    try:
        code = main(["a2a", *args])
    except SystemExit as end:
        code = int(str(end.code))
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert says in err
    assert KEY not in err
    assert TOKEN not in err


# ------------------------------------------------------------- send, at a terminal


def test_a_yes_goes_to_the_agent(start: Start, keeper: Served) -> None:
    run = start(keeper.url, "add lamp")

    run.see(r"task [0-9a-f-]{36} sid=[0-9a-f]{8}")
    run.see("I will try.")
    run.see(r"127\.0\.0\.1:\d+: asks [0-9a-f-]{36}: resources_add\(.*\"lamp\"")
    run.see(r"\*\*ADD Resource\*\*\n\nName: lamp\nValue: 3")
    run.see(QUESTION)
    [asked] = keeper.pending
    run.type("perhaps")
    run.see("not a valid answer")
    run.reply("?", QUESTION)
    run.see(f"approval: {asked['uuid']}")
    run.reply("y", QUESTION)
    run.see("approved")

    code, out = run.end()
    assert code == 0
    assert out.startswith('told: {\n  "id"')


def test_a_no_takes_its_reason_along(start: Start, keeper: Served) -> None:
    run = start(keeper.url, "add lamp")

    run.reply("n wrong room", QUESTION)
    run.see(r"rejected \(wrong room\)")

    code, out = run.end()
    assert code == 0
    assert "Reason: wrong room" in out


def test_edited_arguments_are_held_to_the_schema(start: Start, keeper: Served) -> None:
    run = start(keeper.url, "add lamp")

    run.reply("e", QUESTION)
    run.reply('{"name": 5}', "as JSON .* >")
    run.see("do not fit the tool")
    run.reply("e", QUESTION)
    run.reply('{"name": "chair", "value": 9}', "as JSON .* >")
    run.see("approved, edited")

    code, out = run.end()
    assert (code, '"chair"' in out) == (0, True)


def test_questions_come_one_after_the_other(start: Start, tmp_path: Path) -> None:
    with served(tmp_path, EXAMPLES / "parallel.yaml") as agent:
        run = start(agent.url, "release 7")
        run.see(QUESTION)
        assert run.seen.count("Run it?") == 1
        run.type("y")
        run.reply("y", QUESTION)
        assert run.end() == (0, "Europe runs 7, America runs 7.\n")


def test_the_path_of_a_question_is_shown(start: Start, keeper: Served, tmp_path: Path) -> None:
    (tmp_path / "front.yaml").write_text(CHAIN)
    with served(tmp_path, tmp_path / "front.yaml", KEEPER=keeper.url) as front:
        run = start(front.url, "add lamp")
        run.see(r"127\.0\.0\.1:\d+ -> keeper: asks [0-9a-f-]{36}: resources_add\(")
        run.reply("y", QUESTION)
        code, out = run.end()
    assert code == 0
    assert '"lamp"' in out


@pytest.mark.parametrize(("line", "answer"), [("y", "done\n"), ("n", "not done\n")])
def test_an_agent_that_names_no_questions_gets_a_word(
    start: Start, tmp_path: Path, line: str, answer: str
) -> None:
    command = [sys.executable, str(OLDER_AGENT), str(tmp_path / "ledger")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as older:
        assert older.stdout
        try:
            run = start(json.loads(older.stdout.readline())["url"], "ask")
            run.see(r"127\.0\.0\.1:\d+: asks")
            run.see("> May I?")
            run.reply(line, QUESTION)
            assert run.end() == (0, answer)
        finally:
            older.kill()


def test_question_settled_elsewhere_disappears(start: Start, keeper: Served) -> None:
    run = start(keeper.url, "add lamp")

    run.see(QUESTION)
    keeper.decide(approved=False)
    run.see("The question is no longer open: ")

    code, out = run.end()
    assert code == 0
    assert out.startswith("Operation cancelled by user.")


@pytest.mark.parametrize("message", ["slow", "add lamp"])
def test_ctrl_c_cancels_the_task(start: Start, keeper: Served, message: str) -> None:
    run = start(keeper.url, message)

    task = run.see(r"task (\S+) sid=")[1]
    if message == "add lamp":
        run.see(QUESTION)
    run.process.send_signal(signal.SIGINT)

    assert run.end() == (130, "")
    assert run.seen.endswith(f"task {task}: canceled\ncancelled\n")
    assert keeper.status(task) == "cancelled"
    assert keeper.pending == []


def test_ctrl_c_says_when_the_agent_does_not(start: Start) -> None:
    task = {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_WORKING"}}
    refusal = {"jsonrpc": "2.0", "id": 1, "result": {"task": task}}
    with card_server({CARD: (200, card(interface())), "/a2a": (200, refusal)}) as (here, _):
        run = start(here, "hi")
        run.see("task t1")
        run.process.send_signal(signal.SIGTERM)
        assert run.end() == (143, "")
    assert "The agent did not confirm that task t1 was cancelled." in run.seen


def test_leaving_keeps_the_approval_pending(start: Start, keeper: Served) -> None:
    run = start(keeper.url, "add lamp")

    run.see(QUESTION)
    os.write(run.keyboard, b"\x04")  # the end of the input

    assert run.end() == (3, "")
    assert "waits for a decision" in run.seen
    keeper.decide(approved=False)


# ------------------------------------------------------------- send, without one


def test_the_answer_alone_is_on_stdout(keeper: Served, send: InProcess) -> None:
    done = send(keeper.url, "hi")
    assert (done.returncode, done.stdout) == (0, "hello \x1b[31m\n")
    assert re.fullmatch(r"task \S+ sid=[0-9a-f]{8}\n", done.stderr)


def test_files_are_named(keeper: Served, send: InProcess) -> None:
    done = send(keeper.url, "report")
    assert (done.returncode, done.stdout) == (0, "[file at https://files.example/report.pdf]\n")


def test_a_task_that_fails(keeper: Served, send: InProcess) -> None:
    done = send(keeper.url, "boom")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no \\x1b[2J more" in done.stderr


def test_waiting_task_prints_a_command_that_answers(keeper: Served, send: InProcess) -> None:
    done = send(keeper.url, "add lamp", "--header", f"X-Key: {KEY}")

    assert (done.returncode, done.stdout) == (3, "")
    [asked] = keeper.pending
    assert f"asks {asked['uuid']}: resources_add(" in done.stderr
    assert f"Task {asked['conversation_id']} waits for a decision." in done.stderr
    *_, command = done.stderr.splitlines()
    assert "-H 'X-Key: ...'" in command
    assert KEY not in done.stderr

    answered = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    assert json.loads(answered.stdout)["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert keeper.pending == []


@pytest.mark.parametrize(
    ("options", "variable"), [((), "TOKEN"), (("--token-env", "MINE"), "MINE")], ids=["without", "refused"]
)
def test_a_task_that_wants_a_token(
    keeper: Served, send: InProcess, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], variable: str
) -> None:
    monkeypatch.setenv("MINE", TOKEN)
    done = send(keeper.url, "look", *options)
    assert (done.returncode, done.stdout) == (3, "")
    assert "waits for a bearer token" in done.stderr
    assert done.stderr.endswith(f' -H "Authorization: Bearer ${variable}"\n')
    assert TOKEN not in done.stderr


def test_an_agent_that_wants_credentials(send: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", TOKEN)
    with card_server({CARD: (200, card(interface())), "/a2a": (401, None)}) as (here, seen):
        done = send(here, "hi", "--token-env", "MINE")
        assert [each["authorization"] for each in seen if each["path"] == "/a2a"] == [f"Bearer {TOKEN}"]
        assert all("authorization" not in each for each in seen if each["path"] == CARD)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the agent answered HTTP 401\nSend a bearer token with --token-env" in done.stderr


def test_a_task_that_takes_too_long_is_cancelled(keeper: Served, send: InProcess) -> None:
    done = send(keeper.url, "slow", "--timeout", "0.5")
    assert (done.returncode, done.stdout) == (1, "")
    assert "took longer than 0.5 s; its task was cancelled" in done.stderr
