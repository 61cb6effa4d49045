"""`stopgo chat` and `stopgo approvals` with real servers, in a real terminal."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from stopgo.gateway.cli.main import main
from tests.e2e.conftest import BIN, Serve, Server
from tests.gateway.screen import PROMPT, Screen
from tests.gateway.slow_model import slow_model
from tests.waiting import until_true

ROOT = Path(__file__).parents[2]
QUESTION = r"Run it\? .* >"
STORY = "This **bold** story has *many* words. "
REPLIES = """
replies:
  - when: {user: slow}
    text: at last
    delay: 3600
  - when: {user: escape}
    text: "red \\e[31m clear \\e[2J\\e]0;title\\a bidi \\u202e end"
  - when: {user: '(?s)pasted (?P<size>\\d+).*'}
    text: 'got ${size}'
  - when: {user: ask, call: 1}
    tool_calls: [{name: ask, arguments: {text: she}}]
  - when: {tool_result: '(?s)(?P<result>.*)'}
    text: 'told: ${result}'
  - text: "plain answer"
"""
EDITOR = """#!{python}
import json, os, pathlib, sys
edits = pathlib.Path(os.environ["EDITS"])
left = json.loads(edits.read_text())
file = pathlib.Path(sys.argv[1])
with open(os.environ["EDITS"] + ".seen", "a") as seen:
    seen.write(file.read_text())
assert file.stat().st_mode & 0o077 == 0 or file.parent.stat().st_mode & 0o077 == 0
if left[0] is not None:
    file.write_text(left[0])
edits.write_text(json.dumps(left[1:]))
"""

Chat = Callable[..., Screen]


@pytest.fixture
def chat(ctrl_c: None, tmp_path: Path) -> Iterator[Chat]:
    """Chat with a server: ``chat(server, "--conversation", id)``."""
    started: list[Screen] = []

    def chat(
        server: Server,
        *options: str,
        around: Sequence[str] = (),
        columns: int = 100,
        rows: int = 30,
        **env: str,
    ) -> Screen:
        command: list[str | Path] = [*around, BIN / "stopgo", "chat", "--url", server.run.url, *options]
        started.append(Screen.begin(command, tmp_path, env, columns=columns, rows=rows))
        return started[-1]

    yield chat
    for screen in started:
        screen.close()


@pytest.fixture
def scripted(tmp_path: Path) -> Path:
    (tmp_path / "replies.yaml").write_text(REPLIES)
    config = tmp_path / "agent.yaml"
    config.write_text("name: teller\nllm: {model: script:replies.yaml}\n")
    return config


def approvals(server: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `stopgo approvals` in this process."""
    words = ["approvals", *arguments, "--url", server.run.url]
    written = io.BytesIO(), io.BytesIO()
    out, err = (io.TextIOWrapper(each, encoding="utf-8", write_through=True) for each in written)
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as end:
            code = int(str(end.code))
    return subprocess.CompletedProcess(words, code, *(each.getvalue().decode() for each in written))


# -------------------------------------------------------------------------- chat


def test_the_story(chat: Chat, serve: Serve, tmp_path: Path) -> None:
    """That of the front page."""
    server = serve(tmp_path / "data")
    screen = chat(server)

    screen.say("list all resources")
    screen.see("No resources.")
    screen.say("add server-1 with value 42")
    screen.see(r"\n\*\*ADD Resource\*\*\n\nName: server-1\nValue: 42\n\nRun it")
    screen.see(QUESTION)
    assert server.resources() == {}
    screen.type("y")
    screen.see(r"Added server-1 = 42 \(id \d+\)\.")
    assert server.resources() == {("server-1", "42"): 1}

    screen.say("remove server-1")
    screen.see("REMOVE Resources")
    screen.see(QUESTION, last=True)
    screen.type("n")
    screen.see("Reason, or press Enter >", last=True)
    screen.type("it is still in use\r")
    screen.see("resources_remove was rejected: nothing was changed. Reason: it is still in use")

    screen.say("/history")
    screen.see("> list all resources\nNo resources.\n> add server-1")
    screen.say("/quit")
    id = screen.see("stopgo chat --url http:.* --conversation (.+)")[1]
    assert screen.end() == 0

    server.post("/halt", {"reason": "drill"})
    again = chat(server, "--conversation", id[:8])
    again.see(r"The agent is halted since \S+: drill")
    again.see("> remove server-1")
    again.see("Reason: it is still in use\n>", last=True)
    again.type("\x04")
    assert again.end() == 0


@pytest.mark.streams
def test_chat_reconnects_to_a_killed_server(chat: Chat, serve: Serve, tmp_path: Path) -> None:
    server = serve(tmp_path / "data")
    port = int(server.run.url.rpartition(":")[2])
    screen = chat(server)
    screen.say("add lamp with value 3")
    screen.see(QUESTION)

    server.run.kill()
    screen.see("reconnecting")
    screen.see(QUESTION, last=True)
    screen.type("y")  # nobody is there to hear it yet
    server = serve(tmp_path / "data", port=port)

    screen.see(r"Added lamp = 3")
    assert server.resources() == {("lamp", "3"): 1}
    server.run.interrupt()
    server = serve(tmp_path / "data", port=port)
    screen.say("list all resources")
    screen.see("1 resource:")
    assert screen.text.count("Added lamp = 3") == 1
    screen.say("/quit")
    assert screen.end() == 0


@pytest.mark.streams
def test_streamed_text_is_drawn_once(chat: Chat, serve: Serve, tmp_path: Path) -> None:
    with slow_model(STORY * 10, tmp_path) as (config, env):
        screen = chat(serve(tmp_path / "data", config=config, env=env), columns=60)
        screen.say("story")
        screen.see(r"teller:\nThis \*\*bold\*\* story(?!(?s:.)*\n>)")
        screen.see(r"This bold story has many words\.(?s:.)*\n>", last=True)
    assert "**" not in screen.text
    assert screen.text.count("bold") == 10


if (TMUX := shutil.which("tmux")) is not None:

    @pytest.mark.streams
    def test_in_tmux(chat: Chat, serve: Serve, tmp_path: Path) -> None:
        with slow_model(STORY * 10, tmp_path) as (config, env):
            server = serve(tmp_path / "data", config=config, env=env)
            port = int(server.run.url.rpartition(":")[2])
            (tmp_path / "tmux.conf").write_text("set -g status off\n")
            tmux = [TMUX, "-L", tmp_path.name, "-f", str(tmp_path / "tmux.conf"), "new-session"]
            screen = chat(server, around=tmux, columns=60)
            screen.say("story")
            screen.see(r"teller:\nThis \*\*bold\*\* story(?!(?s:.)*\n>)")
            screen.see(r"This bold story has many words\.(?s:.)*\n>", last=True)
            screen.resize(90, 30)
            server.run.interrupt()
            screen.see("reconnecting")
            serve(tmp_path / "data", config=config, env=env, port=port)
            screen.see("connected again\n>", last=True)
            screen.paste("two\nlines")
            screen.type("\r")
            screen.see(r"two\n *lines\nteller:\nThis bold story(?s:.)*\n>", last=True)
            screen.type("\x04")
            screen.end()


@pytest.mark.streams
@pytest.mark.parametrize("message", ["", "slow", "add lamp with value 3"])
def test_chat_ends_when_its_terminal_closes(
    chat: Chat, serve: Serve, scripted: Path, tmp_path: Path, message: str
) -> None:
    server = serve(tmp_path / "data", config=scripted if message == "slow" else None)
    screen = chat(server)
    screen.see(PROMPT)
    if message:
        screen.say(message)
        screen.see(QUESTION if message.startswith("add") else "conversation ")
    os.close(screen.terminal)
    assert screen.process.wait() != 0
    screen.terminal = os.open(os.devnull, os.O_RDONLY)


@pytest.mark.streams
def test_resize_during_a_stream_keeps_the_text(chat: Chat, serve: Serve, tmp_path: Path) -> None:
    with slow_model(STORY * 10, tmp_path) as (config, env):
        screen = chat(serve(tmp_path / "data", config=config, env=env), columns=60)
        screen.say("story")
        screen.see(r"teller:\nThis \*\*bold\*\* story(?!(?s:.)*\n>)")
        screen.resize(90, 30)
        screen.see(PROMPT, last=True)
        # What came before the resize cannot be drawn again; it stands there once, as it was.
        assert len(re.findall(r"\*\*\s*bold", screen.text.replace("\n", ""))) == 10
        screen.resize(60, 30)
        screen.say("again")
        screen.see(r"> again\nteller:\nThis bold(?s:.)*\n>", last=True)
        screen.type("\x04")
        assert screen.end() == 0


@pytest.mark.streams
def test_paste_of_100_kilobytes_is_one_message(
    chat: Chat, serve: Serve, scripted: Path, tmp_path: Path
) -> None:
    server = serve(tmp_path / "data", config=scripted)
    screen = chat(server)
    pasted = "pasted 100000\n" + ("0123456789abcde\n" * 6250)[:-1]
    screen.see(PROMPT)
    screen.paste(pasted)
    screen.type("\r")
    screen.see("got 100000")

    [conversation] = server.get("/conversations", view="full")["conversations"]
    assert conversation["messages"][1]["content"] == pasted


@pytest.mark.streams
def test_terminal_codes_in_texts_are_escaped(
    chat: Chat, serve: Serve, scripted: Path, tmp_path: Path
) -> None:
    server = serve(tmp_path / "data", config=scripted)
    screen = chat(server, NO_COLOR="1")
    screen.say("escape")
    screen.see(re.escape(r"red \x1b[31m clear \x1b[2J\x1b]0;title\x07 bidi \u202e end"))
    screen.say("/history")
    screen.see(re.escape(r"\u202e end") + "(?s:.)*" + re.escape(r"\u202e end"))
    screen.say("/quit")
    assert screen.end() == 0
    # And no colours where they are not wanted.
    assert re.findall(rb"\x1b\[[0-9;]*m", screen.raw.replace(b"\x1b[0m", b"").replace(b"\x1b[m", b"")) == []


@pytest.mark.streams
def test_colours(chat: Chat, serve: Serve, scripted: Path, tmp_path: Path) -> None:
    screen = chat(serve(tmp_path / "data", config=scripted), NO_COLOR="")
    screen.say("hi")
    screen.see("plain answer")
    assert b"\x1b[2mteller:" in screen.raw


@pytest.mark.streams
def test_ctrl_c_cancels_the_run_and_not_the_chat(
    chat: Chat, serve: Serve, scripted: Path, tmp_path: Path
) -> None:
    screen = chat(serve(tmp_path / "data", config=scripted))
    screen.see(PROMPT)
    screen.type("half a line\x03")
    screen.see(PROMPT, last=True)
    screen.type("\x03")
    screen.say("slow")
    screen.see(r"conversation [0-9a-f-]{36}")
    screen.type("lost\x03")  # what is typed while it runs is no message
    screen.see("cancelled\n>", last=True)
    screen.say("hi")
    screen.see(r"plain answer\n>", last=True)  # keys that are typed during a run are discarded
    screen.type("\x04")
    assert screen.end() == 0


@pytest.mark.streams
@pytest.mark.parametrize("line", [None, "/open", "/open 1", "hi"])
def test_ctrl_c_cancels_an_unanswered_request(
    chat: Chat, serve: Serve, scripted: Path, tmp_path: Path, line: str | None
) -> None:
    server = serve(tmp_path / "data", config=scripted)
    process = server.run.process
    if line is None:
        process.send_signal(signal.SIGSTOP)
        screen = chat(server)
    else:
        screen = chat(server)
        screen.see(PROMPT)
        process.send_signal(signal.SIGSTOP)
        screen.say(line)
        screen.process.send_signal(signal.SIGINT)
        screen.see("the request was cancelled\n>", last=True)
        screen.say(line)
    while not screen.raw.endswith(b"\x1b[?2004h"):  # single keys are read
        screen.read()
    screen.type("\x04")
    assert screen.end() == 0
    process.send_signal(signal.SIGCONT)


@pytest.mark.streams
@pytest.mark.parametrize(("key", "says"), [("\x04", "The run continues without you"), (None, "")])
def test_chat_can_be_left_during_a_run(
    chat: Chat, serve: Serve, scripted: Path, tmp_path: Path, key: str | None, says: str
) -> None:
    server = serve(tmp_path / "data", config=scripted)
    screen = chat(server)
    screen.say("slow")
    id = screen.see(r"conversation ([0-9a-f-]{36})")[1]
    until_true(lambda: server.conversation(id).get("run", {}).get("state") == "running")
    if key is None:
        screen.process.send_signal(signal.SIGTERM)
    else:
        screen.type(key)
    assert screen.end() == (143 if key is None else 0)
    assert says in screen.text
    assert server.conversation(id)["run"]["state"] == "running"
    server.post(f"/conversations/{id}/cancel")


@pytest.mark.streams
def test_arguments_are_edited_in_an_editor(chat: Chat, serve: Serve, tmp_path: Path) -> None:
    server = serve(tmp_path / "data")
    editor, edits = tmp_path / "editor", tmp_path / "edits"
    editor.write_text(EDITOR.format(python=sys.executable))
    editor.chmod(0o700)
    better = json.dumps({"name": "chair", "value": 9})
    edits.write_text(json.dumps([None, "{name", "{name: 5}", '{"name": 5}', better]))
    screen = chat(server, EDITOR=str(editor), EDITS=str(edits))
    screen.say("add lamp with value 3")
    for key, told in (
        ("e", "Nothing was changed"),
        ("e", "that is not JSON"),
        ("e", "that is not JSON: .*(?s:.)*that is not JSON"),
        ("x", r"cancel > x\nRun it"),
        ("e", "do not fit the tool"),
        ("e", "approved, edited"),
    ):
        screen.see(r" >", last=True)
        screen.type(key)
        screen.see(told)
    screen.see("Added chair = 9")
    assert server.resources() == {("chair", "9"): 1}
    seen = Path(f"{edits}.seen").read_text()
    assert seen.startswith('{\n  "value": 3,\n  "name": "lamp"\n}\n')
    assert '{name{name: 5}{"name": 5}' in seen  # each time as it was left


@pytest.mark.streams
def test_elicitation_form_is_filled_in(chat: Chat, serve: Serve, scripted: Path, tmp_path: Path) -> None:
    server = ROOT / "testdata" / "servers" / "asking_server.py"
    with scripted.open("a") as config:
        config.write(
            f"mcp_servers: [{{name: asker, mode: legacy, command: {sys.executable}, args: [{server}]}}]\n"
        )
    screen = chat(serve(tmp_path / "data", config=scripted))
    screen.say("ask")
    screen.see(r"Who is she\?")
    screen.see("accept.* >", last=True)
    screen.type("a")
    screen.see(r"name.* >", last=True)
    screen.type("Ada\r")
    screen.see(r"colour.* >", last=True)
    screen.type("red\r")
    screen.see("told: Ada likes red")


@pytest.mark.streams
def test_other_events_keep_the_typed_line(chat: Chat, serve: Serve, tmp_path: Path) -> None:
    server = serve(tmp_path / "data")
    id = server.new()
    screen = chat(server, "--conversation", id)
    screen.see(PROMPT)
    screen.type("list all")
    screen.see("> list all", last=True)
    server.say(id, "add lamp with value 3")
    screen.see("> add lamp with value 3")
    screen.see(QUESTION, last=True)
    uuid = server.get("/approvals")["approvals"][0]["uuid"]
    assert approvals(server, "approve", uuid).returncode == 0
    screen.see("Added lamp = 3(?s:.)*\n> list all", last=True)
    screen.type(" resources\r")
    screen.see("1 resource:")


@pytest.mark.streams
def test_ctrl_c_at_a_question_asks_before_it_cancels(chat: Chat, serve: Serve, tmp_path: Path) -> None:
    server = serve(tmp_path / "data")
    screen = chat(server)
    screen.say("add lamp with value 3")
    for key in ("n", "\x03", "\x04"):
        screen.see(QUESTION, last=True)
        screen.type("\x03")
        screen.see(r"Cancel the run\? y: yes, any other key: no >", last=True)
        screen.type(key)
    screen.see(QUESTION, last=True)
    screen.type("n")
    screen.see("Reason, or press Enter >", last=True)
    screen.type("half a reason\x03")  # gives up the reason only
    screen.see(QUESTION, last=True)
    assert server.get("/approvals")["approvals"]
    screen.type("\x03")
    screen.see("Cancel the run.* >", last=True)
    screen.type("y")
    screen.see("cancelled\n>", last=True)
    assert not server.get("/approvals")["approvals"]
    screen.type("\x04")
    assert screen.end() == 0


@pytest.mark.streams
@pytest.mark.parametrize("sent", [False, True], ids=["while typing", "after sending"])
def test_loser_of_a_race_hears_what_won_and_keeps_the_text(
    chat: Chat, serve: Serve, tmp_path: Path, sent: bool
) -> None:
    server = serve(tmp_path / "data")
    screen = chat(server)
    screen.say("add lamp with value 3")
    screen.see(QUESTION, last=True)
    [asked] = server.get("/approvals")["approvals"]
    screen.type("n")
    screen.see("Reason, or press Enter >", last=True)
    screen.type("not on Fridays")
    screen.see("not on Fridays", last=True)
    if sent:
        screen.process.send_signal(signal.SIGSTOP)
    edits = json.dumps({"name": "lamp", "value": 4})
    assert approvals(server, "approve", asked["uuid"], "--arguments", edits, "--by", "maria").returncode == 0
    if sent:
        screen.type("\r")
        screen.process.send_signal(signal.SIGCONT)
    screen.see(r"approved, edited: value=3 -> 4, by maria")
    screen.see(r"You had typed: not on Fridays")
    screen.see(r"Added lamp = 4(?s:.)*\n>", last=True)
    screen.type("\x04")
    assert screen.end() == 0
    shown = approvals(server, "show", asked["uuid"]).stdout
    assert re.search("decision: approved at .* by maria, edited: value=3 -> 4", shown)
    assert '"value": 4' in shown.partition("arguments of the decision:")[2]


@pytest.mark.streams
def test_several_questions_are_numbered_and_no_word_is_broken(
    chat: Chat, serve: Serve, tmp_path: Path
) -> None:
    calls = "".join(
        f"      - {{name: resources_add, arguments: {{name: 'lamp {n}', value: 3}}}}\n" for n in range(3)
    )
    words = "The quick brown fox jumps over the lazy dog and runs away. " * 4
    (tmp_path / "replies.yaml").write_text(
        f"replies:\n  - when: {{call: 1}}\n    tool_calls:\n{calls}  - text: {json.dumps(words)}\n"
    )
    config = tmp_path / "agent.yaml"
    config.write_text(
        "llm: {model: script:replies.yaml}\nmcp_servers: [{name: resources, command: stopgo,"
        " args: [mcp-resources, --db, '${data_dir}/r.db']}]\n"
    )
    screen = chat(serve(tmp_path / "data", config=config), columns=37)
    screen.say("go")
    for number in range(1, 4):
        screen.see(rf"Approval {number} of 3(?s:.)*show all\s+>", last=True)
        screen.type("n")
        screen.see("Reason, or press Enter >", last=True)
        screen.type("\r")
    screen.see(r"runs\s+away\.\n>", last=True)
    shown = set(screen.text.split())
    assert {"quick", "Resource**", "rejected", "arguments,"} <= shown
    assert set(words.split()) <= shown
    assert len(re.findall(r"\bjumps\b", screen.text)) == 4


@pytest.mark.streams
def test_chat_opens_one_conversation_after_another(
    chat: Chat, serve: Serve, scripted: Path, tmp_path: Path
) -> None:
    server = serve(tmp_path / "data", config=scripted)
    first = server.post("/conversations", {"message": "one"}, status=201)["conversation"]["id"]
    screen = chat(server)
    screen.say("/open")
    screen.see(rf"{first[:8]}  .*  active  one")
    screen.say(f"/open {first[:8]}")
    screen.see("> one\nplain answer")
    screen.say("/new")
    screen.say("two")
    second = screen.see(
        r"conversation ([0-9a-f-]{36})\n(?:(?!conversation)(?s:.))*plain answer\n>", last=True
    )[1]
    for line, told in (
        ("/open zzz", "no recent conversations have"),
        ("/dance", "There is no command /dance"),
        ("/help", "Alt-Enter"),
        ("//slash", "> //slash\nteller:\nplain answer"),
    ):
        screen.say(line)
        screen.see(told)
    messages = [each["content"] for each in server.conversation(second)["messages"] if each["role"] == "user"]
    assert messages == ["two", "/slash"]
    server.client.delete(f"/conversations/{second}")
    screen.see("the conversation was deleted")
    screen.say("/quit")
    assert screen.end() == 0


@pytest.mark.parametrize(
    ("options", "env", "code", "says"),
    [
        (
            ["--url", "http://127.0.0.1:1"],
            {},
            1,
            "no agent answers at http://127.0.0.1:1: connection refused",
        ),
        (["--url", "http://me:secret@127.0.0.1"], {}, 2, "not a valid address; example: "),
        (["--conversation", "x"], {}, 1, "no recent conversations have an id that begins with 'x'"),
        (["--token-env", "NOT_SET"], {}, 2, "NOT_SET is not set"),
        ([], {"TERM": "dumb"}, 2, "TERM must name a terminal with cursor control"),
    ],
)
def test_failed_start_of_a_chat_says_why(
    chat: Chat, shipped: Server, options: list[str], env: dict[str, str], code: int, says: str
) -> None:
    screen = chat(shipped, *options, **env)
    assert screen.end() == code
    assert says in screen.text


# --------------------------------------------------------------------- approvals


def test_approvals_are_listed_shown_and_decided(serve: Serve, tmp_path: Path) -> None:
    server = serve(tmp_path / "data")
    assert approvals(server).stdout == ""
    one, two = server.ask_for("add lamp with value 3"), server.ask_for("add chair with value 1")

    lines = approvals(server).stdout.splitlines()
    assert [line.split()[0] for line in lines] == [one[:8], two[:8]]
    assert [line.split("  ")[2].partition("(")[0] for line in lines] == ["resources_add"] * 2
    assert json.loads(approvals(server, "list", "--json").stdout) == server.get("/approvals")

    shown = approvals(server, "show", one[:8]).stdout
    assert "**ADD Resource**\n\nName: lamp" in shown
    assert "rule: destructiveHint: true" in shown
    assert json.loads(approvals(server, "show", one, "--json").stdout) == server.get(f"/approvals/{one}")

    wrong = approvals(server, "approve", one[:8], "--arguments", '{"name": 5}')
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "do not fit the tool" in wrong.stderr
    (tmp_path / "arguments").write_text('{"name": "table", "value": 7}')
    done = approvals(server, "approve", one[:8], "--arguments", f"@{tmp_path}/arguments", "--by", "maria")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == 'approved: resources_add(name="table", value=7)\n'
    said = json.loads(approvals(server, "reject", two, "--reason", "no room", "--json").stdout)
    assert said["conversation"]["id"] == server.get(f"/approvals/{two}")["approval"]["conversation_id"]
    assert server.get(f"/approvals/{two}")["approval"]["decision"]["reason"] == "no room"
    until_true(lambda: server.resources() == {("table", "7"): 1})

    late = approvals(server, "reject", one)
    assert late.returncode == 4
    assert "the approval was decided before\nIt was approved at " in late.stderr
    assert ' by maria, edited: value=3 -> 7, name="lamp" -> "table".' in late.stderr
    assert json.loads(approvals(server, "approve", two, "--json").stdout)["code"] == "already_decided"


def test_decision_on_a_void_approval_exits_with_code_4(shipped: Server) -> None:
    uuid = shipped.ask_for("add lamp with value 3")
    id = shipped.get(f"/approvals/{uuid}")["approval"]["conversation_id"]
    shipped.post(f"/conversations/{id}/cancel")
    late = approvals(shipped, "approve", uuid)
    assert (late.returncode, late.stdout) == (4, "")
    assert "void" in late.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["show"], 2, "show takes an ID"),
        (["list", "x"], 2, "list takes no ID"),
        (["show", "x", "--by", "me"], 2, "show does not take --by"),
        (["reject", "x", "--arguments", "{}"], 2, "reject does not take --arguments"),
        (["retry", "x", "--result", "r"], 2, "retry does not take --result"),
        (["approve", "x", "--arguments", "[]"], 2, "not a JSON object"),
        (["approve", "x", "--arguments", "{"], 2, "not JSON"),
        (["approve", "x", "--arguments", "@/none"], 2, "/none cannot be read"),
        (["approve", "x"], 2, "no pending approvals have an id that begins with 'x'"),
        (["show", "5e33d105-660c-4672-8119-1169c2690b26"], 2, "there is no approval 5e33d105"),
    ],
)
def test_invalid_arguments_of_approvals_say_why(
    shipped: Server, arguments: list[str], code: int, says: str
) -> None:
    said = approvals(shipped, *arguments)
    assert (said.returncode, said.stdout) == (code, "")
    assert says in said.stderr
    assert "Traceback" not in said.stderr
