"""Every example in the documentation is run, and what it shows is compared with what really comes.

How a page is read, from its top to its end, in a folder of its own:

* ``console``: lines that begin with ``$`` are commands, what follows is their output. A newline stands for
  any white space, as do the spaces between columns (of which argparse has its own idea in each version of
  Python), and ``...`` for anything that is left out; ids, times and durations may differ, but an id stays
  the same id on the whole page, also in commands. ``make run`` and ``stopgo serve`` go on in the background,
  as in a terminal of their own, also with ``| tee FILE``. So does a command that ends with ``&``: a block
  without a command shows the next lines of its output. ``kill`` is for the agent without ``--port``.
* ``yaml NAME`` and ``python NAME`` are files that are written. Agent files and scripts must be valid, and
  programs must be named further down, in a command or in an agent file.
* ``javascript NAME`` is a file that is written; its syntax is checked where node is installed.
* ``text`` shows something that is no example.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import attrs
import psutil
import pytest
import yaml

from stopgo.actors.models.offline.script_reader import load_script
from stopgo.config.load import load_config
from stopgo.config.web_config import load_web_config
from tests.fleet.cluster import url_of
from tests.waiting import LIMIT

ROOT = Path(__file__).parents[1]
BIN = Path(os.environ.get("STOPGO_BIN") or Path(sys.executable).parent)
"""The commands of the examples; `make matrix` gives those of other versions of Python."""
NOT_OF_EXAMPLES = ("architecture.md", "requirements.md")
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted(ROOT.glob("docs/**/*.md")) if page.name not in NOT_OF_EXAMPLES),
]
# Nothing is installed here, even if a lock file is newer than what was installed from it.
MAKE = f"make --no-print-directory -C {ROOT} -o .venv/.runtime -o .venv/.setup BIN={BIN}"

LATE = re.compile(r".*: no answer from .* yet; waiting up to .*\n")
"""Said of a server that takes long to start, as all do on a busy machine."""
SERVER = re.compile("make run|stopgo (serve|web)|stopgo mcp-resources .*--http")
ENDS = re.compile(r"--help|\|\|")
"""In a command that would start a server, but is to end by itself."""
PIPE_TO_FILE = re.compile(r"\| (tee \S+)$")
SECOND = re.compile(r"--max-time 1\b")
FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
ID = re.compile(rf"{UUID}|\b\d{{19}}\b|(?<=sid=)[0-9a-f]{{8}}|(?<=\"session_id\":\")[0-9a-f]{{8}}")
CHANGING = {
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z": "a time",
    r"\b\d+\.\d+ms": "a duration",
    r"\bprocess \d+": "a process",
}
PART = re.compile(
    rf"(?P<gap>\.\.\.)|(?P<space>\s*\n\s*|\ {{2,}})|(?P<id>{ID.pattern})|(?P<changing>{'|'.join(CHANGING)})"
)


@attrs.frozen
class Block:
    page: Path
    line: int
    language: str
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        language, _, name = found["info"].partition(" ")
        yield Block(page, text.count("\n", 0, found.start()) + 1, language, name.strip(), found["text"])


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with the output that is shown. "" stands for no command."""
    before, *parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    if before:
        yield "", before.strip()
    for part in parts:
        command, _, output = re.sub(r"\\\n *", "", part).partition("\n")
        yield command, output.strip()


@attrs.define(eq=False)
class Terminal:
    """Where a server runs, or another program in the background."""

    command: str
    process: subprocess.Popen[str]
    _lines: list[str] = attrs.field(factory=list)
    _shown: int = 0
    _ended: bool = False
    _news: threading.Condition = attrs.field(factory=threading.Condition)
    _reader: threading.Thread = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                if LATE.fullmatch(line):
                    continue
                with self._news:
                    self._lines.append(line)
                    self._news.notify()
        with self._news:
            self._ended = True
            self._news.notify()

    def next(self, lines: int) -> str:
        """The next lines of what it says, as soon as they are there."""
        begin, self._shown = self._shown, self._shown + lines
        with self._news:
            enough = self._news.wait_for(lambda: len(self._lines) >= self._shown or self._ended)
            assert enough, f"fewer than {self._shown} lines: {self._lines}"
            return "".join(self._lines[begin : self._shown])

    def wait(self) -> None:
        self.process.wait()
        self._reader.join()

    def see_it_end(self, code: int) -> None:
        self.wait()
        log = "".join(self._lines)
        # `make` has a code of its own for a server that was killed.
        killed = code == -signal.SIGKILL and self.command.startswith("make")
        assert self.process.returncode == (2 if killed else code), log
        assert "Traceback" not in log, log


@attrs.define(eq=False)
class Session:
    """One reader at work: a folder, terminals with servers, and the ids seen so far."""

    folder: Path
    ports: dict[str, str]
    """The ports of the page, and those that are used in their place."""
    databases: dict[str, str] = attrs.field(factory=dict)
    """Addresses of databases in the page, and those that are used in their place."""
    ids: dict[str, str] = attrs.field(factory=dict)
    """What stands in the page, and what really came in its place."""
    _agent: Terminal | None = None
    _others: list[Terminal] = attrs.field(factory=list)

    def run(self, command: str, shown: str) -> None:
        if not command or command.endswith(" &") or (SERVER.match(command) and not ENDS.search(command)):
            terminal = self._start(command) if command else self._others[-1]
            self._compare(shown, terminal.next(shown.count("\n") + 1))
            return
        if command == "make test":
            # What it runs is, among others, this; so here it is only seen to be a target.
            command = f"{MAKE} --dry-run test > /dev/null"
        if SECOND.search(command):
            self._compare(shown, self._output_until(shown, SECOND.sub(f"--max-time {LIMIT / 2:g}", command)))
            return
        with self._popen(command) as process:
            output, _ = process.communicate()
        self._compare(shown, output)
        if command.startswith("kill"):
            self._see_the_agent_end(-signal.SIGKILL if "-9" in command else 0)

    def _output_until(self, shown: str, command: str) -> str:
        """The output of a command that the page ends after a second; here it ends when all has come."""
        output = ""
        with self._popen(command, start_new_session=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                output += line
                if self._match(shown, output) is not None:
                    os.killpg(process.pid, signal.SIGKILL)
                    break
        return output

    def write(self, block: Block) -> Path:
        path = self.folder / (block.name or "agent.yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._local(block.text), encoding="utf-8")
        return path

    def end(self) -> None:
        """The reader closes the terminals."""
        if self._agent is not None:
            self._signal_agent(signal.SIGTERM)
            self._see_the_agent_end(0)
        for other in self._others:
            ends = 0 if other.process.poll() == 0 or not other.command.endswith(" &") else -signal.SIGTERM
            other.process.terminate()
            other.see_it_end(ends)
        _, alive = psutil.wait_procs(self._left())
        assert alive == []

    def give_up(self) -> None:
        """After a failure: leave nothing running."""
        for terminal in (self._agent, *self._others):
            if terminal is not None:
                if terminal.command == "make run" and terminal.process.poll() is None:
                    self._signal_agent(signal.SIGKILL)
                terminal.process.kill()
                terminal.wait()
        for process in self._left():
            process.kill()

    def _left(self) -> list[psutil.Process]:
        """What still runs in this folder: tool servers, and what the reader forgot."""
        here = str(self.folder)
        return [process for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == here]

    def _start(self, command: str) -> Terminal:
        # The process that is told to end is that of the server, not one of a pipe.
        command = PIPE_TO_FILE.sub(r"> >(\1)", command)
        if "--http" in command or "--port" in command or command.endswith(" &") or "stopgo web" in command:
            terminal = Terminal(command, self._popen(f"exec {command.removesuffix(' &')}"))
            self._others.append(terminal)
            return terminal
        assert self._agent is None, "an agent is served already"
        real = f"{command} --port 8080"
        if command == "make run":
            real = f"{MAKE} run ARGS='--port 8080 --data-dir {self.folder}/data'"
        self._agent = Terminal(command, self._popen(f"exec {real}"))
        return self._agent

    def _see_the_agent_end(self, code: int) -> None:
        assert self._agent is not None, "no agent is served"
        self._agent.see_it_end(code)
        self._agent = None

    def _signal_agent(self, number: signal.Signals) -> None:
        # The agent itself, not the `make` that may have started it.
        os.kill(int((self.folder / "data" / "journal.lock").read_text()), number)

    def _popen(self, command: str, *, start_new_session: bool = False) -> subprocess.Popen[str]:
        secrets = [name for name in os.environ if name.startswith("STOPGO_") or name.endswith("_API_KEY")]
        environment = {name: value for name, value in os.environ.items() if name not in secrets}
        return subprocess.Popen(
            ["bash", "-c", self._local(command)],
            cwd=self.folder,
            env={**environment, "PATH": f"{BIN}:{os.environ['PATH']}", "COLUMNS": "80"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=start_new_session,
            text=True,
        )

    def _local(self, text: str) -> str:
        """A text of the page with the ids and ports that are real here."""
        text = ID.sub(lambda found: self.ids.get(found[0], found[0]), text)
        for shown, port in self.ports.items():
            text = replace_port(shown, port, text)
        for shown, url in self.databases.items():
            text = text.replace(shown, shlex.quote(url))
        return text

    def _as_in_the_page(self, output: str) -> str:
        for shown, port in self.ports.items():
            output = replace_port(port, shown, output)
        output = output.replace(str(self.folder), "/home/me/agent")
        return output.replace(str(ROOT), "/home/me/agent-stop-and-go").strip()

    def _compare(self, shown: str, output: str) -> None:
        matched = self._match(shown, output)
        assert matched is not None, (
            f"the page shows:\n{shown}\n\nbut this came:\n{self._as_in_the_page(output)}"
        )
        self.ids.update(matched)

    def _match(self, shown: str, output: str) -> dict[str, str] | None:
        """The new ids of the page and their real ones, if this is what the page shows."""
        real = self._as_in_the_page(LATE.sub("", output))
        new: list[str] = []

        def pattern(found: re.Match[str]) -> str:
            if found["gap"]:
                return ".*?"
            if found["space"]:
                return r"\s*"
            if found["changing"]:
                return next(each for each in CHANGING if re.fullmatch(each, found[0]))
            if found[0] in self.ids:
                return re.escape(self.ids[found[0]])
            if found[0] in new:
                return rf"(?:\{new.index(found[0]) + 1})"
            new.append(found[0])
            return f"({ID.pattern})"

        expected, at = "", 0
        for part in PART.finditer(shown):
            expected += re.escape(shown[at : part.start()]) + pattern(part)
            at = part.end()
        matched = re.fullmatch(expected + re.escape(shown[at:]), real, re.DOTALL)
        return None if matched is None else dict(zip(new, matched.groups(), strict=True))


def replace_port(old: str, new: str, text: str) -> str:
    """But not where the same digits are part of an id."""
    return re.sub(rf"(?<![0-9a-f-]){old}(?![0-9a-f-])", new, text)


def free_ports(count: int) -> list[str]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [str(each.getsockname()[1]) for each in sockets]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    session = Session(tmp_path, dict(zip(("8080", "8090", "3000"), free_ports(3), strict=True)))
    yield session
    session.give_up()


def check(path: Path) -> None:
    """See that a file of a page is what it looks like."""
    keys = yaml.safe_load(path.read_text(encoding="utf-8"))
    if "replies" in keys:
        load_script(path)
    elif "agent_url" in keys:
        load_web_config(path, environ={})
    else:
        load_config(path, environ={})


def failure(session: Session, command: str, shown: str) -> str | None:
    """Why a command does not do what the page says."""
    try:
        session.run(command, shown)
    except AssertionError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    "page",
    # The front page with all tests, the others with `make docs`: between them they start a hundred agents.
    [PAGES[0], *(pytest.param(page, marks=pytest.mark.docs) for page in PAGES[1:])],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_a_page_shows_what_really_happens(
    page: Path, session: Session, request: pytest.FixtureRequest
) -> None:
    with ExitStack() as stack:
        for shown in sorted(
            set(re.findall(r"(?<=[ $])postgresql://db\.example/\w+", page.read_text("utf-8")))
        ):
            server = request.getfixturevalue("postgres_server")
            session.databases[shown] = url_of(stack.enter_context(server.empty_schema()))
        follow(page, session)


def follow(page: Path, session: Session) -> None:
    for block in blocks(page):
        match block.language:
            case "console":
                for command, shown in commands(block):
                    if problem := failure(session, command, shown):
                        pytest.fail(f"{block}: $ {command}\n{problem}", pytrace=False)
            case "yaml":
                check(session.write(block))
            case "python" | "json":
                session.write(block)
                assert page.read_text(encoding="utf-8").count(block.name) > 1, f"{block} is never run"
            case "javascript":
                path = session.write(block)
                if node := shutil.which("node"):
                    subprocess.run([node, "--check", path], check=True)
            case "text":
                pass
            case other:
                pytest.fail(f"{block}: nobody knows how to check {other!r}")
    session.end()


def test_a_port_is_not_looked_for_in_an_id(session: Session) -> None:
    shown, real = "6a5a149f-5c43-431f-8978-01318737369c", "80806b9a-8080-44b7-ad77-97f2979d8080"
    session.ids[shown] = real
    port = session.ports["8080"]
    local = f"curl localhost:{port}/{real} --port {port}"
    assert session._local(f"curl localhost:8080/{shown} --port 8080") == local
    number = f"1795{port}61016235"
    assert (
        session._as_in_the_page(f"{number} at http://127.0.0.1:{port}")
        == f"{number} at http://127.0.0.1:8080"
    )


LINK = re.compile(r"\]\((?!https?:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made of their words."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name
)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in LINK.finditer(FENCE.sub("", page.read_text(encoding="utf-8"))):
        target = (page.parent / link["path"]).resolve() if link["path"] else page
        assert target.exists(), link[0]
        assert not link["anchor"] or link["anchor"] in anchors(target), link[0]


def test_every_picture_is_shown() -> None:
    shown = " ".join(page.read_text(encoding="utf-8") for page in PAGES)
    pictures = sorted(path.name for path in (ROOT / "docs/images").iterdir())
    assert [name for name in pictures if f"images/{name})" not in shown] == []


def test_index_links_every_page() -> None:
    index = ROOT / "docs/README.md"
    linked = {
        (index.parent / link["path"]).resolve() for link in LINK.finditer(index.read_text(encoding="utf-8"))
    }
    assert [page for page in ROOT.glob("docs/**/*.md") if page != index and page not in linked] == []
