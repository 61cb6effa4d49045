"""`stopgo serve` as a process, and command lines that are wrong."""

import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import httpx2
import psutil
import pytest
import trio

from stopgo.actors.agent.open_agent import open_agent
from stopgo.config.load import load_config
from stopgo.config.sections.agent_config import AgentConfig
from stopgo.gateway import serve_process
from stopgo.gateway.cli.commands import run_process
from stopgo.gateway.cli.commands.serve_command import ANY_PORT
from stopgo.gateway.cli.main import main
from stopgo.gateway.cli.process import options
from tests.forks import forks
from tests.gateway.conftest import InProcess
from tests.http_client import blocking_client, get, post
from tests.waiting import until_true

STOPGO = Path(sys.executable).with_name("stopgo")

BARE = """
name: bare
llm: {model: "script:replies.yaml"}
"""
REPLIES = """
replies:
  - when: {user: slow}
    text: at last
    delay: 3600
  - when: {user: soon}
    text: at last
    delay: 1
  - text: hello
"""
ROOT = Path(__file__).parents[2]
ECHO_SERVER = ROOT / "testdata" / "servers" / "echo_server.py"
ECHO_ENTRY = f"{{command: {sys.executable}, args: [-S, {ECHO_SERVER}]}}"
ECHOING = """
replies:
  - when: {tool_result: hello}
    text: it said hello
  - when: {call: 1}
    tool_calls: [{name: echo, arguments: {text: hello}}]
"""
BUSY = "replies: [{tool_calls: [{name: slow, arguments: {seconds: 3600}}]}]"


def stopgo(*args: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([STOPGO, *args], cwd=cwd, capture_output=True, text=True, env=os.environ | env)


ASKING = """
import sys, httpx2
answer = httpx2.post(sys.argv[1], json={"message": "slow"}, timeout=None)
print(answer.status_code, answer.text)
"""
"""A client in a process of its own, so that it can wait while the test goes on."""


PROMPT_SIGNALS = """
import sys
from stopgo.gateway import signals
from stopgo.gateway.cli.main import main
signals.REPEAT = 0.0
sys.exit(main())
"""
"""A `stopgo` to which each signal is another one, however soon it comes: `test_signals.py` has the limit."""


NARROW = """
import resource, sys
from stopgo.gateway.cli.main import main
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
sys.exit(main())
"""
"""A `stopgo` that may open few files."""


FILLING = """
import resource, signal, sys
from stopgo.gateway.cli.main import main
signal.signal(signal.SIGUSR1, lambda *_: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
sys.exit(main())
"""
"""A `stopgo` that finds its disk full from SIGUSR1 on."""


SIGNALLED_AT_THE_END = """
import os, signal, sys
from stopgo.gateway.cli.main import main
code = main()
for number in (signal.SIGTERM, signal.SIGINT):
    os.kill(os.getpid(), number)
sys.exit(code)
"""
"""A `stopgo` that is sent signals when it has nothing left to do but to exit."""


class Served:
    """A `stopgo serve`, which may be part of a program."""

    def __init__(self, cwd: Path, *args: str, program: str | None = None) -> None:
        self.err = (cwd / "stderr").open("w+")
        words = () if program is None else ("-c", program)
        self.process = forks().start(*words, "serve", "--port", "0", *args, cwd=cwd, stderr=self.err.fileno())
        self.lines: list[str] = []

    def line(self, start: str) -> str:
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if line.startswith(start):
                return self.lines[-1]
        raise AssertionError(f"no line {start!r} in {self.lines}, stderr: {self.stderr()}")

    def url(self) -> str:
        return self.line("listening on ").removeprefix("listening on ")

    def stderr(self) -> str:
        self.err.seek(0)
        return self.err.read()

    def end(self) -> int:
        self.lines += self.process.end().splitlines()
        return self.process.wait()

    def close(self) -> None:
        self.process.close()
        self.err.close()


@pytest.fixture
def agent_dir(tmp_path: Path) -> Path:
    (tmp_path / "agent.yaml").write_text(BARE)
    (tmp_path / "replies.yaml").write_text(REPLIES)
    return tmp_path


@pytest.fixture
def serve(agent_dir: Path) -> Iterator[Callable[..., Served]]:
    started: list[Served] = []

    def serve(*args: str, config: bool = True, program: str | None = None) -> Served:
        file = ["--config", "agent.yaml"] if config else []
        started.append(Served(agent_dir, *file, *args, program=program))
        return started[-1]

    yield serve
    for served in started:
        served.close()


def test_help_is_quick(tmp_path: Path) -> None:
    # Checked by its imports, because a clock depends on the machine.
    helped = stopgo("--help", cwd=tmp_path, PYTHONPROFILEIMPORTTIME="1")
    assert "serve" in helped.stdout
    imported = {line.rpartition("|")[2].strip() for line in helped.stderr.splitlines()}
    assert "stopgo.gateway.cli.main" in imported
    assert not {"trio", "quart", "hypercorn", "httpx2", "mcp", "anthropic", "pydantic"} & imported
    assert len(imported) < 300


def test_version(tmp_path: Path) -> None:
    assert stopgo("--version", cwd=tmp_path).stdout == "stopgo 0.1.0\n"


@pytest.mark.parametrize(
    "args",
    [
        ("fly",),
        ("serve", "--port", "x"),
        ("serve", "--port", "65536"),
        ("serve", "--port", "-1"),
        ("serve", "--host", ""),
        ("serve", "--data-dir", ""),
        ("serve", "--config", ""),
        ("serve", "--record", ""),
        ("serve", "--metrics", ""),
        ("serve", "--metrics", "[::1]"),
        ("serve", "--metrics", "127.0.0.1:65536"),
        ("mcp-resources", "--db", ""),
    ],
)
def test_wrong_argument_prints_the_usage(capsys: pytest.CaptureFixture[str], args: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(args)
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("usage: stopgo")


@pytest.mark.parametrize(
    ("args", "command", "message"),
    [
        (("serve", "--prot", "1"), "stopgo serve", "unrecognized arguments: --prot 1"),
        (("mcp", "test", "a", "b"), "stopgo mcp test", "unrecognized arguments: b"),
        (("--prot", "serve"), "stopgo", "unrecognized arguments: --prot"),
    ],
)
def test_unknown_argument_prints_the_usage_of_its_command(
    capsys: pytest.CaptureFixture[str], args: tuple[str, ...], command: str, message: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(args)
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith(f"usage: {command} [-h]")
    assert err.endswith(f"{command}: error: {message} (see {command} --help)\n")


@pytest.mark.parametrize("args", [(), ("mcp",)])
def test_missing_command_prints_the_help(capsys: pytest.CaptureFixture[str], args: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(args)
    assert caught.value.code == 2
    err = capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*args, "--help"])
    assert err == capsys.readouterr().out


@pytest.mark.parametrize("args", [("--help",), ("config", "schema")])
@pytest.mark.parametrize("reader_is_there", [True, False])
def test_unwritable_output_is_no_traceback(
    agent_dir: Path, args: tuple[str, ...], reader_is_there: bool
) -> None:
    if reader_is_there:
        out = os.open("/dev/full", os.O_WRONLY)
    else:
        gone, out = os.pipe()
        os.close(gone)
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run([STOPGO, *args], cwd=agent_dir, env=buffered, stdout=out, stderr=subprocess.PIPE)
    os.close(out)
    assert done.returncode == 1
    assert done.stderr == (b"stopgo: No space left on device\n" if reader_is_there else b"")


def test_interrupt_during_imports_is_no_traceback(tmp_path: Path) -> None:
    program = """
import sys
class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("stopgo.gateway.cli.commands"):
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
from stopgo.gateway.cli.main import main
sys.exit(main(["--help"]))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True)
    assert (done.returncode, done.stderr) == (130, b"")


def test_invalid_agent_file_exits_with_code_2(agent_dir: Path, in_process: InProcess) -> None:
    (agent_dir / "bad.yaml").write_text("nam: x\nport: many\n")
    done = in_process("serve", "--config", "bad.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.match(r"bad\.yaml:1.*\nbad\.yaml:2", done.stderr)
    assert in_process("serve", "--config", "none.yaml").returncode == 2


@contextmanager
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


@pytest.mark.parametrize("command", [("serve",), ("run", "hi")])
def test_rule_with_an_unknown_tool_prevents_the_start(
    agent_dir: Path, in_process: InProcess, command: tuple[str, ...]
) -> None:
    server = f"mcp_servers: [{{name: echo, command: {sys.executable}, args: [-S, {ECHO_SERVER}]}}]\n"
    rules = "approval: {rules: [{tool: ecko, then: deny}]}\n"
    with taken_port() as port:
        (agent_dir / "agent.yaml").write_text(f"{BARE}{server}{rules}port: {port}\n")
        done = in_process(command[0], "--config", "agent.yaml", *command[1:])
    assert done.returncode == 2
    assert "listening" not in done.stdout
    assert done.stderr == (
        f"stopgo {command[0]}: agent.yaml:5:27: approval.rules[0].tool: "
        'no tool is called "ecko" (did you mean "echo"?)\n'
    )


@pytest.mark.parametrize(
    ("config", "args", "code", "why"),
    [
        (BARE, ("--insecure", "--host", "256.1.1.1"), 1, "cannot listen on 256.1.1.1"),
        (BARE, ("--data-dir", "/proc/nowhere"), 1, "/proc/nowhere"),
        (BARE + "mcp_servers: [{name: gone, command: 'false'}]\n", (), 1, "exited with code 1"),
        (
            BARE.replace("replies", "nothing"),
            (),
            2,
            "serve: agent.yaml:3:14: llm.model: script nothing.yaml: there is no such file",
        ),
        (BARE, ("--model", "mistral:x"), 2, 'serve: --model: model "mistral:x" needs an API key'),
        ("models: {m: {provider: openai_compatible, model: x}}\nllm: {model: m}", (), 2, "1:10: models.m: "),
        (
            BARE + "mcp_servers: [{name: gone, command: no-such}, {name: too, command: ./no-such}]\n",
            (),
            2,
            '\nstopgo serve: MCP server "too" failed',
        ),
        (BARE + "mcp_servers: [{name: gone, command: cat, cwd: none}]\n", (), 2, "none: No such file"),
        (
            f"{BARE}mcp_servers: {{{', '.join(f'{name}: {ECHO_ENTRY}' for name in 'ab')}}}",
            (),
            2,
            'duplicate tool name "echo" found in MCP servers "a" and "b"',
        ),
    ],
)
def test_failed_start_says_why(
    agent_dir: Path,
    in_process: InProcess,
    monkeypatch: pytest.MonkeyPatch,
    config: str,
    args: tuple[str, ...],
    code: int,
    why: str,
) -> None:
    """A mistake in the file comes before a port that is taken."""
    monkeypatch.setenv("MISTRAL_API_KEY", "")
    (agent_dir / "agent.yaml").write_text(config)
    with taken_port() as port:
        where = ("--port", f"{port}", "--metrics", f"{port}") if code == 2 else ("--port", "0")
        done = in_process("serve", "--config", "agent.yaml", *where, *args)
    assert done.returncode == code
    assert why in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert "listening" not in done.stdout


TAKEN = "cannot listen on 127.0.0.1:{port}: Address already in use (another process has this port; {how})\n"


@pytest.mark.parametrize(
    ("args", "how"),
    [
        (("--port", "{port}"), "`stopgo serve --port 0` takes a free one"),
        (("--port", "0", "--metrics", "{port}"), "`--metrics 0` takes a free one"),
    ],
)
def test_taken_port_prevents_the_start(
    agent_dir: Path,
    in_process: InProcess,
    monkeypatch: pytest.MonkeyPatch,
    args: tuple[str, ...],
    how: str,
) -> None:
    """No run of the last process is resumed, and the error says how to take another port."""
    resumed = False

    async def resume_all(_: object) -> None:
        nonlocal resumed
        await trio.lowlevel.checkpoint()
        resumed = True

    monkeypatch.setattr("stopgo.actors.workers.startup.resume_all", resume_all)
    monkeypatch.delenv(ANY_PORT, raising=False)
    with taken_port() as port:
        filled = [each.format(port=port) for each in args]
        done = in_process("serve", "--config", "agent.yaml", *filled)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "stopgo serve: " + TAKEN.format(port=port, how=how)
    assert not resumed


def test_make_run_with_a_taken_port_says_how_to_take_another(agent_dir: Path) -> None:
    scripts = agent_dir / ".venv" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "stopgo").symlink_to(STOPGO)
    make = ["make", "-f", str(ROOT / "Makefile"), "--old-file=.venv/.runtime", "run"]
    with taken_port() as port:
        done = subprocess.run(
            [*make, f"ARGS=--config agent.yaml --port {port}"], cwd=agent_dir, capture_output=True, text=True
        )
    assert done.returncode == 2  # that of make
    how = "`make run ARGS='--port 0'` takes a free one"
    assert "stopgo serve: " + TAKEN.format(port=port, how=how) in done.stderr


def test_serve_prints_address_and_servers(serve: Callable[..., Served], in_process: InProcess) -> None:
    served = serve()
    url = served.url()
    assert served.line("No MCP") == "No MCP servers configured"
    assert get(f"{url}/health").json()["status"] == "ok"
    # A page of the internet may lead its own name to this machine.
    assert get(f"{url}/health", headers={"Host": "example.org"}).status_code == 421
    assert url.startswith("http://127.0.0.1:")
    assert served.stderr() == ""
    second = in_process("serve", "--port", "0", "--config", "agent.yaml")
    assert second.returncode == 1
    assert re.search(
        rf"process {served.process.pid} is using the journal in \S+ \(listening on {url}\)\n", second.stderr
    )
    assert "Traceback" not in second.stderr


def test_serve_survives_a_reader_that_leaves(agent_dir: Path) -> None:
    mine, its = os.pipe()
    command = [str(STOPGO), "serve", "--port", "0", "--config", "agent.yaml"]
    with subprocess.Popen(command, cwd=agent_dir, stdout=its, stderr=subprocess.DEVNULL) as process:
        os.close(its)
        first, _, _ = os.read(mine, 4096).decode().partition("\n")
        os.close(mine)
        try:
            url = first.removeprefix("listening on ")
            for _ in range(3):
                assert get(f"{url}/health").status_code == 200
        finally:
            process.terminate()


def have_ended(children: list[psutil.Process]) -> bool:
    """Those of a server that stopped at once end later, with their standard input."""
    return not [child for child in children if child.is_running() and child.status() != "zombie"]


def test_packaged_agent_is_announced_and_stops_its_servers(
    serve: Callable[..., Served], agent_dir: Path
) -> None:
    (agent_dir / "agent.yaml").unlink()  # serve would find it
    served = serve("--model", "offline:rules", config=False)
    url = served.url()
    assert any("the agent that comes with the package" in line for line in served.lines)
    assert served.line("MCP Server") == "MCP Server [resources]: stopgo"
    assert any("stopgo.mcp.resources: connected: 3 tools" in line for line in served.lines)
    tools = get(f"{url}/tools").json()["tools"]
    assert {tool["name"] for tool in tools} == {"resources_add", "resources_list", "resources_remove"}
    children = psutil.Process(served.process.pid).children(recursive=True)
    assert children
    served.process.terminate()
    assert served.end() == 0
    assert have_ended(children)


def test_open_address_needs_authentication_or_insecure(
    agent_dir: Path, in_process: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a bind: the checks are pure."""
    served: list[str] = []

    def serve(config: AgentConfig, serving: serve_process.Serving) -> tuple[int, tuple[str, ...]]:
        served.append(serving.host)
        return 0, ()

    monkeypatch.setattr("stopgo.gateway.serve_process.run_process", serve)
    file = agent_dir / "agent.yaml"
    for text, host, args, is_served in (
        (BARE, "127.0.0.2", (), True),
        (BARE, "localhost", (), True),
        (BARE, "::1", (), True),
        (BARE, "0.0.0.0", (), False),
        (BARE, "::", (), False),
        (BARE, "example.org", (), False),
        (BARE, "192.0.2.1", ("--insecure",), True),
        (f"{BARE}auth: {{api_keys: true}}\n", "0.0.0.0", (), True),
        (f"{BARE}auth: {{proxy: {{secret: 1f6d0c7be2a84935}}}}\n", "0.0.0.0", (), True),
    ):
        file.write_text(text)
        served.clear()
        done = in_process("serve", "--config", file, "--host", host, *args)
        assert (done.returncode, served) == ((0, [host]) if is_served else (2, []))
        refused = f"{host} can be reached from other machines, and {file} has no `auth:`" in done.stderr
        assert refused != is_served
        assert ("there is no authentication" in done.stderr) == ("--insecure" in args)
    file.write_text(f"{BARE}auth: {{proxy: {{secret: s3cret}}}}\n")
    weak = f"{file}:4:24: auth.proxy.secret: the secret has fewer than 16 characters"
    for host, args, is_served in (
        ("127.0.0.1", (), True),
        ("0.0.0.0", (), False),
        ("0.0.0.0", ("--insecure",), True),
    ):
        served.clear()
        done = in_process("serve", "--config", file, "--host", host, *args)
        assert (done.returncode, served) == ((0, [host]) if is_served else (2, []))
        assert weak in done.stderr
        assert "make one with `openssl rand -hex 32`" in done.stderr
        assert ("can be reached from other machines" in done.stderr) != is_served
    line = "server: {allowed_hosts: [NAME]}"
    for own, is_hinted in ((line, False), ("server: {public_url: 'https://a.example'}", False), ("", True)):
        file.write_text(f"{BARE}{own}\n")
        done = in_process("serve", "--config", file, "--host", "0.0.0.0", "--insecure")
        assert (line in done.stderr) == is_hinted


def test_options_override_the_file(
    agent_dir: Path, in_process: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    (agent_dir / "other.yaml").write_text("replies: [{text: from the other file}]")

    async def answer(config: AgentConfig, *_: object) -> int:
        async with open_agent(config) as agent:
            turn = await agent.start_conversation("x")
            print(turn.result and turn.result.response)
        return 0

    monkeypatch.setattr(serve_process, "_serve", answer)
    options = ("--model", f"script:{agent_dir}/other.yaml", "--data-dir", "elsewhere")
    done = in_process("serve", "--config", "agent.yaml", *options)
    assert (done.returncode, done.stdout) == (0, "from the other file\n")
    assert (agent_dir / "elsewhere").is_dir()
    assert not (agent_dir / "data").exists()


def test_serve_works_and_stops_while_its_log_is_not_read(serve: Callable[..., Served]) -> None:
    served = serve()
    fcntl.fcntl(served.process.stdout, fcntl.F_SETPIPE_SZ, 4096)
    with blocking_client(base_url=served.url()) as client:
        for _ in range(100):  # lines of a hundred bytes
            assert client.get("/health").status_code == 200
    served.process.terminate()
    assert served.process.wait() == 0


UNAPPROVED = (
    '1 tool may do harm and runs without approval: "plain" of server "echo" in node "bare" '
    "(approval.unannotated: run)"
)


@pytest.mark.parametrize("settings", ["", "approval: {unannotated: run}\n"])
def test_strict_start_is_refused_if_a_setting_lets_harm_run(
    agent_dir: Path, in_process: InProcess, settings: str
) -> None:
    (agent_dir / "agent.yaml").write_text(f"{BARE}mcp_servers: {{echo: {ECHO_ENTRY}}}\n{settings}")
    with taken_port() as port:  # so that it ends in any case
        done = in_process("serve", "--config", "agent.yaml", "--port", str(port), "--strict")
    assert (done.returncode, "listening" in done.stdout) == (2, False)
    remedy = "" if settings else "; approval.defaults: strict stops it"
    assert f"stopgo serve: --strict: {UNAPPROVED}{remedy}\n" in done.stderr


@pytest.mark.parametrize(
    ("settings", "options", "said"),
    [
        ("", (), f"{UNAPPROVED}; approval.defaults: strict stops it"),
        ("approval: {defaults: strict}", ("--strict",), ""),
        (
            "approval: {rules: [{tool: plain, then: run}]}",
            ("--strict",),
            "(approval.rules[0] (tool: plain): run)",
        ),
    ],
)
def test_start_says_in_one_line_what_runs_unapproved(
    serve: Callable[..., Served], agent_dir: Path, settings: str, options: tuple[str, ...], said: str
) -> None:
    (agent_dir / "agent.yaml").write_text(f"{BARE}mcp_servers: {{echo: {ECHO_ENTRY}}}\n{settings}\n")
    served = serve(*options)
    assert served.url()
    lines = [line for line in served.lines if "may do harm" in line]
    assert len(lines) == bool(said)
    assert all(line.endswith(said) for line in lines)


def test_connections_leave_file_descriptors_for_the_agent(
    serve: Callable[..., Served], agent_dir: Path
) -> None:
    server = f"{{name: e, command: {sys.executable}, args: [-S, {ECHO_SERVER}]}}"
    (agent_dir / "agent.yaml").write_text(f"{BARE}mcp_servers: [{server}]\n")
    (agent_dir / "replies.yaml").write_text(ECHOING)
    served = serve(program=NARROW)
    url = httpx2.URL(served.url())
    with blocking_client(base_url=url) as client, ExitStack() as others:
        assert client.get("/health").status_code == 200
        for _ in range(90):  # 49 may be open; for one more, the one that has been idle for longest is closed
            other = others.enter_context(socket.create_connection((url.host, url.port)))
            other.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert other.recv(2**16).split()[1] == b"200"
        [tools] = psutil.Process(served.process.pid).children()
        tools.kill()  # to be started again, which takes pipes
        psutil.wait_procs([tools])
        answer = client.post("/conversations", json={"message": "go"}).json()
        assert answer["result"]["response"] == "it said hello"
    served.process.terminate()
    assert served.end() == 0
    assert "Traceback" not in "\n".join(served.lines)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_one_signal_lets_a_turn_finish(
    serve: Callable[..., Served], agent_dir: Path, number: signal.Signals
) -> None:
    served = serve()
    url = served.url()
    with blocking_client() as client:
        begun = client.post(f"{url}/conversations").json()["conversation"]["id"]
        path = f"{url}/conversations/{begun}"
        client.post(f"{path}/messages", json={"message": "soon"}, headers={"Prefer": "respond-async"})
    # A model call in flight is finished and kept; the next process has nothing to repeat.
    served.process.send_signal(number)
    assert served.end() == 0
    assert served.stderr() == ""

    async def messages() -> list[str]:
        async with open_agent(load_config(agent_dir / "agent.yaml", data_dir=agent_dir / "data")) as agent:
            async for event in agent.events(begun):
                if event.type == "run.finished":
                    break
            return [message.content for message in (await agent.get(begun)).messages]

    assert trio.run(messages)[1:] == ["soon", "at last"]


def test_waiting_client_gets_503_accepted_at_shutdown(serve: Callable[..., Served], agent_dir: Path) -> None:
    (agent_dir / "agent.yaml").write_text(BARE + "shutdown_grace: 1\n")
    served = serve()
    url = served.url()
    waiting = forks().start("-c", ASKING, f"{url}/conversations", cwd=agent_dir)
    with blocking_client(base_url=url) as client:
        until_true(lambda: bool(client.get("/conversations").json()["conversations"]))
    served.process.terminate()
    status, _, body = waiting.end().partition(" ")
    assert status == "503"
    assert json.loads(body)["code"] == "shutting_down"
    assert json.loads(body)["accepted"] is True
    assert served.end() == 0
    assert "Traceback" not in "\n".join(served.lines) + served.stderr()


def test_second_signal_stops_at_once(serve: Callable[..., Served], agent_dir: Path) -> None:
    server = f"{{name: e, command: {sys.executable}, args: [-S, {ECHO_SERVER}], env: {{LEDGER: ledger}}}}"
    (agent_dir / "agent.yaml").write_text(f"{BARE}shutdown_grace: 3600\nmcp_servers: [{server}]\n")
    (agent_dir / "replies.yaml").write_text(BUSY)
    served = serve(program=PROMPT_SIGNALS)
    url = served.url()
    children = psutil.Process(served.process.pid).children(recursive=True)
    begun = post(f"{url}/conversations").json()["conversation"]["id"]
    post(f"{url}/conversations/{begun}/messages", json={"message": "go"}, headers={"Prefer": "respond-async"})
    until_true((agent_dir / "ledger").exists)
    served.process.send_signal(signal.SIGINT)
    while not any("a second signal" in line for line in served.lines):
        served.line("2")
    served.process.send_signal(signal.SIGINT)
    assert served.end() == 130
    assert served.stderr() == ""
    until_true(partial(have_ended, children))


def test_late_signal_does_not_change_the_exit_code(serve: Callable[..., Served]) -> None:
    served = serve(program=SIGNALLED_AT_THE_END)
    served.url()
    served.process.terminate()
    assert served.end() == 0
    assert served.stderr() == ""


def test_signal_during_start_stops_at_once(serve: Callable[..., Served], agent_dir: Path) -> None:
    silent = "{name: s, command: sed, args: [d]}"
    (agent_dir / "agent.yaml").write_text(BARE + f"mcp_servers: [{silent}]\n")
    served = serve()
    process = psutil.Process(served.process.pid)
    served.line("2")  # It has begun to connect.
    until_true(lambda: bool(process.children(recursive=True)))
    children = process.children(recursive=True)
    served.process.terminate()
    assert served.end() == 143
    assert "Traceback" not in "\n".join(served.lines) + served.stderr()
    until_true(partial(have_ended, children))


def test_full_disk_fails_requests_and_stops_the_server(serve: Callable[..., Served], agent_dir: Path) -> None:
    served = serve(program=FILLING)
    url = served.url()
    waiting = forks().start("-c", ASKING, f"{url}/conversations", cwd=agent_dir)
    with blocking_client(base_url=url) as client:
        until_true(lambda: bool(client.get("/conversations").json()["conversations"]))
        listed = client.get("/conversations").json()["conversations"]
        # While its model thinks the run saves nothing, so it is the request below that finds the disk full.
        with client.stream("GET", f"/conversations/{listed[0]['id']}/events") as events:
            assert "event: run.started" in events.iter_lines()
        served.process.send_signal(signal.SIGUSR1)
        answer = client.post("/conversations")
    assert (answer.status_code, answer.json()["code"]) == (503, "stopped")
    status, _, body = waiting.end().partition(" ")
    assert (status, json.loads(body)["code"]) == ("503", "stopped")
    assert served.end() == 1
    [error] = [line for line in served.lines if "stopgo.gateway.http.errors" in line]
    assert "ERROR stopgo.gateway.http.errors: commit failed" in error
    assert "Traceback" not in "\n".join(served.lines)
    assert served.stderr().startswith("stopgo serve: commit failed")
    assert served.stderr().count("\n") == 1


def test_hanging_shutdown_ends_the_process(agent_dir: Path) -> None:
    program = """
import os, signal, threading
import trio
from pathlib import Path
from stopgo.config.load import load_config
from stopgo.gateway import serve_process
serve_process.LAST_RESORT = 0.2
announce = serve_process._announce
def hang(*args):
    announce(*args)
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
serve_process._announce = hang
async def drain(agent, server, grace):
    threading.Event().wait()
serve_process._drain = drain
print(serve_process.run_process(load_config(Path("agent.yaml")), serve_process.Serving("127.0.0.1", 0)))
"""
    (agent_dir / "agent.yaml").write_text(BARE + "shutdown_grace: 0.5\n")
    process = forks().start("-c", program, cwd=agent_dir)
    assert "listening" in process.end()
    assert process.wait() == 1


@pytest.mark.usefixtures("agent_dir")
@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("run", "hello")])
def test_agent_runs_on_the_clock_of_the_process(
    in_process: InProcess, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """A clock that stops while the process is suspended."""

    async def note(*_: object) -> int:
        print(type(trio.lowlevel.current_clock()).__name__)
        return 0

    monkeypatch.setattr(serve_process, "_serve", note)
    monkeypatch.setattr(run_process, "_run", note)
    done = in_process(*command, "--config", "agent.yaml")
    assert (done.returncode, done.stdout, done.stderr) == (0, "ProcessClock\n", "")


@pytest.mark.usefixtures("agent_dir")
@pytest.mark.parametrize(("extra", "option"), [("metrics", "--metrics=0"), ("traces", "--traces")])
def test_an_extra_that_is_missing_is_named(
    in_process: InProcess, monkeypatch: pytest.MonkeyPatch, extra: str, option: str
) -> None:
    monkeypatch.setattr(options, "find_spec", lambda name: None)
    done = in_process("serve", "--config", "agent.yaml", option)
    assert done.returncode == 2
    assert f"pip install 'agent-stop-and-go[{extra}]'" in done.stderr


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9464", ("127.0.0.1", 9464)),
        (":0", ("127.0.0.1", 0)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
        ("[::1]:2", ("::1", 2)),
    ],
)
def test_address_of_metrics(text: str, address: tuple[str, int]) -> None:
    assert options.listen_address(text) == address
