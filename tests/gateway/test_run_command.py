"""`stopgo run`, as a process, with and without somebody at the terminal."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.expiring import EXPIRING, expire_all
from tests.gateway.attended_run import TOOL_QUESTION as QUESTION
from tests.gateway.attended_run import AttendedRun
from tests.gateway.conftest import InProcess
from tests.gateway.guarded_server import guarded_server
from tests.gateway.screen import Screen
from tests.gateway.slow_model import slow_model

pytestmark = pytest.mark.streams

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "testdata" / "examples"
STOPGO = Path(sys.executable).with_name("stopgo")

REPLIES = """
replies:
  - when: {user: slow}
    text: at last
    delay: 3600
  - when: {user: boom}
    error: {status: 400, message: "no \\e[2J more"}
  - when: {user: story}
    text: once upon a time
  - text: "hello \\e[31m"
"""
DYING_SERVER = """
import os, sqlite3, sys, json

for line in sys.stdin:
    message = json.loads(line)
    match message.get("method"):
        case "initialize":
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "dying", "version": "1"}}
        case "tools/list":
            result = {"tools": [{"name": "launch", "inputSchema": {"type": "object"},
                                 "annotations": {"destructiveHint": True}}]}
        case "tools/call":
            with open(sys.argv[1], "a") as ledger:
                ledger.write("launched\\n")
            os._exit(1)
        case _:
            continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
ASK = """
replies:
  - when: {call: 1}
    tool_calls: [{name: ask, arguments: {text: she}}]
  - when: {tool_result: '(?s)(?P<result>.*)'}
    text: 'told: ${result}'
"""
LAUNCH = """
replies:
  - when: {call: 1}
    tool_calls: [{name: launch}]
  - when: {tool_result: '(?s)(?P<result>.*)'}
    text: 'told: ${result}'
"""


Start = Callable[..., AttendedRun]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[AttendedRun] = []

    def start(config: Path, message: str, program: str = "") -> AttendedRun:
        data = tmp_path / "data"
        stopgo = [sys.executable, "-c", program] if program else [STOPGO]
        command: list[str | Path] = [*stopgo, "run", "--config", config, "--data-dir", data, message]
        started.append(AttendedRun.begin(command, tmp_path))
        return started[-1]

    yield start
    for run in started:
        run.close()


@pytest.fixture
def unattended(in_process: InProcess) -> InProcess:
    """Run without a terminal."""
    return partial(in_process, "run")


@pytest.fixture
def scripted(tmp_path: Path) -> Path:
    (tmp_path / "replies.yaml").write_text(REPLIES)
    config = tmp_path / "agent.yaml"
    config.write_text("llm: {model: script:replies.yaml}")
    return config


@pytest.fixture
def resources(tmp_path: Path) -> Callable[[], list[tuple[str, str]]]:
    def resources() -> list[tuple[str, str]]:
        database = sqlite3.connect(tmp_path / "data" / "resources.db")
        try:
            rows = database.execute("SELECT name, value FROM resources ORDER BY name").fetchall()
        finally:
            database.close()
        return [(name, str(value)) for name, value in rows]

    return resources


Resources = Callable[[], list[tuple[str, str]]]


# ----------------------------------------------------------------- at a terminal


def test_a_yes_runs_the_call(start: Start, resources: Resources) -> None:
    run = start(EXAMPLES / "sequential.yaml", "add lamp with value 3")

    run.see(r"look: resources_list -> ")
    run.see(r"change: asks [0-9a-f-]{36}: resources_add\(")
    run.see(r"\*\*ADD Resource\*\*")
    run.see(QUESTION)
    assert resources() == []
    run.type("y")
    run.see("change: approved")
    run.see(r'change: resources_add\(.*name="lamp"')

    code, out = run.end()
    assert code == 0
    assert out.startswith("Before: 0 resources. Then: ")
    assert out.count("\n") == 1
    assert resources() == [("lamp", "3")]


def test_a_no_is_kept_with_its_reason(start: Start, resources: Resources) -> None:
    run = start(EXAMPLES / "simple.yaml", "add lamp with value 3")

    run.reply("n wrong room")
    run.see(r"simple: rejected \(wrong room\)")

    code, out = run.end()
    assert code == 0
    assert out.startswith("Operation cancelled by user.")
    assert "wrong room" in out
    assert resources() == []


def test_arguments_are_edited_until_they_fit(start: Start, resources: Resources) -> None:
    run = start(EXAMPLES / "simple.yaml", "add lamp with value 3")

    run.reply("perhaps")
    run.see("That is not a valid answer")
    run.reply("?")
    run.see("why it asks: destructiveHint: true")
    run.see('"name": "lamp"')
    for line, answer in (
        ("", "Run it"),
        ("{name: lamp}", "that is not JSON"),
        ("[1]", "the arguments are an object"),
        ('{"name": 5}', "do not fit the tool"),
    ):
        run.reply("e")
        run.reply(line, "as JSON .* >")
        if answer != "Run it":
            run.see(answer)
    run.reply("e")
    run.reply('{"name": "chair", "value": 9}', "as JSON .* >")
    run.see("simple: approved, edited")

    assert run.end()[0] == 0
    assert resources() == [("chair", "9")]


def test_several_are_asked_one_after_the_other(start: Start, resources: Resources) -> None:
    run = start(EXAMPLES / "parallel.yaml", "release 7")

    run.see(QUESTION)
    assert run.seen.count("Run it?") == 1
    assert "Approval 1 of 2" in run.seen
    run.type("y")
    run.see("runs 7")
    run.see("Approval 2 of 2")
    run.reply("y")

    assert run.end() == (0, "Europe runs 7, America runs 7.\n")
    assert resources() == [("app-america", "7"), ("app-europe", "7")]


def test_input_before_a_question_is_discarded(start: Start, resources: Resources) -> None:
    run = start(EXAMPLES / "parallel.yaml", "release 7")

    run.see(QUESTION)
    run.type("y\ny")
    run.reply("n")
    run.see("rejected")

    assert run.end()[0] == 0
    assert len(resources()) == 1


def test_a_checkpoint_has_no_arguments_to_edit(start: Start, resources: Resources) -> None:
    run = start(EXAMPLES / "pipeline.yaml", "restock")

    run.see("by-kind: picks restock")
    run.see(r"There are \{count\} resources. Fill up to 3\?\s+\{count\}:\s+```\s+0\s+```")
    run.reply("e", r"Go on\? .* >")
    run.see("not a valid answer")
    run.reply("y", r"Go on\? .* >")
    run.see("filler: exits the loop")

    assert run.end() == (0, "[restock] There are 3 resources now.\n")
    assert len(resources()) == 3


def test_ctrl_c_at_a_question_cancels_the_run(start: Start, tmp_path: Path, resources: Resources) -> None:
    run = start(EXAMPLES / "simple.yaml", "add lamp with value 3")
    uuid = run.see(r"asks ([0-9a-f-]{36})")[1]

    run.see(QUESTION)
    run.process.send_signal(signal.SIGINT)

    assert run.end() == (130, "")
    assert f"withdraws {uuid}" in run.seen
    assert run.seen.endswith("cancelled\n")
    assert resources() == []


def test_ctrl_c_cancels_a_model_call(start: Start, scripted: Path) -> None:
    run = start(scripted, "slow")

    run.see("conversation ")
    run.process.send_signal(signal.SIGINT)

    assert run.end() == (130, "")


def test_leaving_keeps_the_approval_pending(start: Start, tmp_path: Path) -> None:
    config = EXAMPLES / "simple.yaml"
    run = start(config, "add lamp with value 3")

    run.see(QUESTION)
    os.write(run.keyboard, b"\x04")  # the end of the input

    assert run.end() == (3, "")
    assert f"stopgo serve --config {config} --data-dir {tmp_path / 'data'}\n" in run.seen


def test_a_question_that_expires_is_not_asked_any_more(start: Start, tmp_path: Path) -> None:
    run = start(EXAMPLES / "simple.yaml", "add lamp with value 3", EXPIRING)

    run.see(QUESTION)
    expire_all(tmp_path / "data")
    run.see("not answered in time")

    code, out = run.end()
    assert code == 0
    assert "Nobody approved the operation in time" in out


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (["done it is up there"], "told: it is up there"),
        (["retry", "f exploded"], "told: Failed, as a human found: exploded"),
    ],
)
def test_unknown_outcome_is_asked_for(start: Start, tmp_path: Path, answers: list[str], told: str) -> None:
    (tmp_path / "server.py").write_text(DYING_SERVER)
    (tmp_path / "replies.yaml").write_text(LAUNCH)
    ledger = tmp_path / "ledger"
    config = tmp_path / "agent.yaml"
    config.write_text(
        "llm: {model: script:replies.yaml}\n"
        f"mcp_servers: [{{name: pad, command: {sys.executable}, args: [{tmp_path}/server.py, {ledger}]}}]\n"
    )
    run = start(config, "launch")

    run.reply("y")
    run.see("outcome unknown")
    run.see("OUTCOME UNKNOWN")
    run.reply("y", r"r: retry, .* >")
    run.see("not a valid answer")
    for answer in answers:
        run.reply(answer, r"r: retry, .* >")

    assert run.end() == (0, f"{told}\n")
    assert ledger.read_text().count("launched") == len(answers)


@pytest.fixture
def asking(tmp_path: Path) -> Path:
    """An agent whose server asks in the middle of a call."""
    (tmp_path / "replies.yaml").write_text(ASK)
    server = ROOT / "testdata" / "servers" / "asking_server.py"
    config = tmp_path / "agent.yaml"
    config.write_text(
        "llm: {model: script:replies.yaml}\n"
        f"mcp_servers: [{{name: asker, mode: legacy, command: {sys.executable}, args: [{server}]}}]\n"
    )
    return config


def test_elicitation_is_answered_at_the_terminal(start: Start, asking: Path) -> None:
    run = start(asking, "ask")
    run.see(r"Who is she\?")
    run.reply("a", r"accept.* >")
    run.reply("A", r"name.* >")  # too short
    run.reply("", r"colour.* >")
    run.see("does not fit the question")
    run.reply("a", r"accept.* >")
    run.reply("Ada", r"name.* >")
    run.reply("red", r"colour.* >")
    run.see("answer: accept")
    assert run.end() == (0, "told: Ada likes red\n")


@pytest.mark.parametrize("attended", [True, False])
def test_elicitation_without_an_answer_is_cancelled(
    start: Start, asking: Path, tmp_path: Path, attended: bool, unattended: InProcess
) -> None:
    if attended:
        run = start(asking, "ask")
        run.reply("\x04", r"accept.* >")
        (code, out), told = run.end(), run.seen
    else:
        done = unattended("--config", asking, "ask")
        code, out, told = done.returncode, done.stdout, done.stderr
    assert (code, out) == (0, "told: cancel\n")
    assert 'a question of the MCP server "asker" in the middle of a call cannot wait for an answer' in told
    assert "waits for a decision" not in told


def test_texts_are_shown_while_they_come_and_once(tmp_path: Path) -> None:
    text = "once upon a time there was a *very* long text"
    with slow_model(text, tmp_path) as (config, env):
        screen = Screen.begin([STOPGO, "run", "--config", config, "story"], tmp_path, env)
        try:
            screen.see("teller:\nonce upon a(?! time there was)")
            assert screen.end() == 0
        finally:
            screen.close()
    assert screen.text.endswith(f"teller:\n{text}")
    assert screen.text.count("once upon") == 1


def test_an_answer_that_is_no_text_of_a_model_is_shown(tmp_path: Path) -> None:
    config = EXAMPLES / "pipeline.yaml"
    screen = Screen.begin([STOPGO, "run", "--config", config, "--data-dir", "data", "list all"], tmp_path, {})
    try:
        assert screen.end() == 0
    finally:
        screen.close()
    assert screen.text.splitlines()[-1].startswith("[")


# ------------------------------------------------------------------ without one


def test_a_conversation_goes_on(tmp_path: Path, resources: Resources, unattended: InProcess) -> None:
    here = ["--config", str(EXAMPLES / "simple.yaml"), "--data-dir", "data"]
    first = unattended(*here, "list all resources")
    id = re.findall("^conversation (.*)$", first.stderr, re.MULTILINE)[0]

    asks = unattended(*here, "--conversation", id, "add lamp with value 3")
    assert (asks.returncode, asks.stdout) == (3, "")
    assert "resources_list" not in asks.stderr  # what was before is not told again

    refused = unattended(*here, "--conversation", id, "list all resources")
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "Please respond to the pending approval first" in refused.stderr
    assert refused.stderr.count("resources_add(") == 1


def test_continued_conversation_answers_the_new_message(
    tmp_path: Path, scripted: Path, unattended: InProcess
) -> None:
    first = unattended("--config", scripted, "hi")
    id = re.findall("^conversation (.*)$", first.stderr, re.MULTILINE)[0]
    again = unattended("--config", scripted, "--conversation", id, "story")
    assert (again.returncode, again.stdout) == (0, "once upon a time\n")

    unknown = unattended("--config", scripted, "--conversation", "x", "hi")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "there is no conversation x" in unknown.stderr


def test_the_answer_alone_is_on_stdout(scripted: Path, tmp_path: Path, unattended: InProcess) -> None:
    done = unattended("--config", scripted, "hi")

    assert (done.returncode, done.stdout) == (0, "hello \x1b[31m\n")
    # What models say can do nothing to a terminal.
    assert "agent: hello \\x1b[31m\n" in done.stderr
    assert "\x1b" not in done.stderr


def test_waiting_run_prints_the_next_steps(
    tmp_path: Path, resources: Resources, unattended: InProcess
) -> None:
    config = EXAMPLES / "parallel.yaml"
    done = unattended("--config", config, "--data-dir", "data", "release 7")

    assert (done.returncode, done.stdout) == (3, "")
    assert len(re.findall(r"curl \S+/approvals/[0-9a-f-]{36} -d '{\"approved\": true}'", done.stderr)) == 2
    assert resources() == []


def test_a_run_that_wants_a_token_is_left_waiting(tmp_path: Path, unattended: InProcess) -> None:
    (tmp_path / "replies.yaml").write_text(LAUNCH.replace("launch", "look"))
    with guarded_server("initialize", "notifications/initialized", "tools/list") as url:
        config = tmp_path / "agent.yaml"
        config.write_text(f"llm: {{model: script:replies.yaml}}\nmcp_servers: {{guarded: {{url: '{url}'}}}}")
        run = unattended("--config", config, "go")
    assert (run.returncode, run.stdout) == (3, "")
    assert 'Tool server "guarded" needs a bearer token' in run.stderr


def test_a_run_that_fails(scripted: Path, tmp_path: Path, unattended: InProcess) -> None:
    done = unattended("--config", scripted, "boom")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("LLM error: no \\x1b[2J more (status 400)\n")


@pytest.mark.parametrize(
    ("agent", "message", "code", "says"),
    [
        ("llm: {model: script:replies.yaml}", " ", 2, "stopgo run: message is required\n"),
        ("nmae: x", "hi", 2, 'unknown key "nmae"'),
        (
            "llm: {model: script:none.yaml}",
            "hi",
            2,
            "none.yaml: there is no such file",
        ),
        ("llm: {model: nobody:knows}", "hi", 2, 'there is no model "nobody:knows"'),
        (
            "llm: {model: offline:rules}\nmcp_servers: {one: {command: no-such}, two: {command: no-such}}",
            "hi",
            2,
            '\nstopgo run: MCP server "two" failed to start',
        ),
    ],
)
def test_run_that_cannot_start_says_why(
    scripted: Path, tmp_path: Path, agent: str, message: str, code: int, says: str, unattended: InProcess
) -> None:
    scripted.write_text(agent)

    done = unattended("--config", scripted, message)

    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_data_directory_in_use_is_refused(
    start: Start, scripted: Path, tmp_path: Path, unattended: InProcess
) -> None:
    run = start(scripted, "slow")
    run.see("conversation ")

    second = unattended("--config", scripted, "--data-dir", tmp_path / "data", "hi")

    assert second.returncode == 1
    assert re.search(r"stopgo run: process \d+ is using the journal", second.stderr), second.stderr
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == (143, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_signal_cancels_the_run_and_its_end_is_kept(
    start: Start, scripted: Path, number: signal.Signals
) -> None:
    run = start(scripted, "slow")
    run.see("conversation ")
    run.process.send_signal(number)
    assert run.end() == (128 + number, "")


UNDUMPABLE = """
import ctypes, sys
from stopgo.gateway.cli.main import main
main(sys.argv[1:])
print("dumpable:", ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""


@pytest.mark.parametrize(
    "command", [["run", "hello"], ["serve", "--insecure", "--host", "host.invalid"]], ids=lambda c: c[0]
)
def test_the_process_is_closed_to_others_of_its_user(tmp_path: Path, command: list[str]) -> None:
    """Or its stdio servers could read the keys in its environment."""
    (tmp_path / "agent.yaml").write_text("llm: {model: offline:rules}\n")
    said = subprocess.run(
        [sys.executable, "-c", UNDUMPABLE, *command, "--config", "agent.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "dumpable: 0" in said.stdout, said.stderr
