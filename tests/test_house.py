"""The rules of the house that a linter does not know."""

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

from tests.real_clock import RealClock

ROOT = Path(__file__).parent.parent
PARTS = ("actors", "config", "gateway", "runtime")
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 60
MAX_LINE = 110
UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX)\b")

SKIPS = {"skip", "skipif", "xfail", "importorskip"}


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def page_files() -> list[Path]:
    return [path for kind in ("js", "css") for path in (ROOT / "gateway/web/page").rglob(f"*.{kind}")]


def test_nothing_is_left_unfinished() -> None:
    assert [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in python_files(*PARTS)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if UNFINISHED.search(line)
    ] == []


def test_product_files_fit_on_a_few_screens() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in (*python_files(*PARTS), *page_files())}
    assert [
        f"{path.relative_to(ROOT)}: {length}" for path, length in lengths.items() if length > MAX_FILE_LINES
    ] == []


def test_lines_of_the_page_fit_as_those_of_python_do() -> None:
    assert [
        f"{path.relative_to(ROOT)}:{number}: {len(line)} characters"
        for path in page_files()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > MAX_LINE
    ] == []


NAMED_BY_OTHERS = (
    "gateway/contract/",
    "actors/a2a/wire/",
    "gateway/agui/agui_events.py",
    "gateway/agui/run_input.py",
)
"""Their names are those of a specification, or of the values that they show."""
SHARED_NAMES = {"Message"}
"""A `Message` is one of an actor or of a conversation."""


def test_one_name_stands_for_one_class() -> None:
    found: dict[str, list[str]] = {}
    for file in python_files(*PARTS):
        name = str(file.relative_to(ROOT))
        if name.startswith(NAMED_BY_OTHERS):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.ClassDef(name=defined):
                    pass
                case ast.AnnAssign(target=ast.Name(id=defined), annotation=ast.Name(id="TypeAlias")):
                    pass
                case _:
                    continue
            found.setdefault(defined, []).append(name)
    twice = {name: files for name, files in found.items() if len(set(files)) > 1}
    assert {name: twice[name] for name in twice.keys() - SHARED_NAMES} == {}


ONE_MEANING = {
    "looks?|looked|looking": """look LOOK LookAt look_at LOOK_TIME LOOK_INTERVAL _look_at_all""",
    "holds?|held|holding|holders?": """held HeldTool _held _is_held""",
    "settles?|settled|settling|unsettled": """settle settles settled Settled SettleIntent settle_intents
        _SETTLE _settle _settle_approval _settled has_settled_question _end_when_settled _SETTLED_BEFORE""",
}
"""The names that may contain these words of the glossary; other words stand for other things."""


def names_in(node: ast.AST) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.arg():
            return [node.arg]
        case ast.Name(ctx=ast.Store()):
            return [node.id]
        case ast.Attribute(ctx=ast.Store()):
            return [node.attr]
    return []


def test_words_of_the_glossary_have_one_meaning() -> None:
    names = {
        name
        for path in python_files(*PARTS)
        for node in ast.walk(ast.parse(path.read_text()))
        for name in names_in(node)
    }
    for word, allowed in ONE_MEANING.items():
        one = re.compile(rf"(?:^|_)(?:{word})(?:_(?!up)|$)", re.IGNORECASE)
        spelled = {name: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name) for name in names}
        assert {name for name in names if one.search(spelled[name])} == set(allowed.split())


def test_functions_fit_on_a_screen() -> None:
    assert [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name} has {length} lines"
        for path in python_files(*PARTS)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    ] == []


def sleeps(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="time"), attr="sleep"):
            return True
        case ast.ImportFrom(module="time", names=names):
            return any(name.name == "sleep" for name in names)
    return False


def skips(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in SKIPS and ast.unparse(node).startswith("pytest.")


CLIENTS = {"Client", "AsyncClient", "get", "post", "put", "delete", "request", "stream"}
OWN_CLIENTS = (
    "http_client.py",
    "bench/",
    "gateway/test_agent_client.py",
    "providers/test_servers_and_sdks.py",
)
"""The factory, figures, and clients that the product or an SDK is given, which sets its own limits."""


def makes_a_client(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="httpx2"), attr=name)):
            return name in CLIENTS
    return False


def test_tests_neither_sleep_nor_look_away() -> None:
    assert [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path in python_files("tests")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute | ast.ImportFrom) and (sleeps(node) or skips(node))
    ] == []


@pytest.mark.parametrize(
    ("banned", "code"),
    [
        (sleeps, "time.sleep(1)"),
        (sleeps, "from time import monotonic, sleep"),
        (skips, "pytest.skip('no')"),
        (skips, "pytest.mark.skipif(True)"),
        (skips, "pytest.param(1, marks=pytest.mark.xfail)"),
        (skips, "pytest.importorskip('x')"),
        (makes_a_client, "httpx2.get('http://localhost')"),
        (makes_a_client, "httpx2.AsyncClient(base_url=url)"),
    ],
)
def test_sleeps_and_skips_are_seen(banned: Callable[[ast.AST], bool], code: str) -> None:
    assert any(banned(node) for node in ast.walk(ast.parse(code)))


def test_http_clients_of_tests_have_no_limit_of_time() -> None:
    """Those of httpx2 give up after five seconds, which a busy machine may take."""
    assert [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path in python_files("tests")
        if not str(path.relative_to(ROOT / "tests")).startswith(OWN_CLIENTS)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and makes_a_client(node)
    ] == []


async def test_a_wait_for_the_real_clock_is_refused() -> None:
    with pytest.raises(RealClock, match=r"test_house\.py:\d+: trio\.sleep\(1\) on the real clock"):
        await trio.sleep(1)
    with pytest.raises(RealClock, match=r"trio\.fail_after\(60\)"), trio.fail_after(60):
        await trio.sleep_forever()
    await trio.lowlevel.checkpoint()


async def test_virtual_time_passes(autojump_clock: MockClock) -> None:
    with trio.move_on_after(60):
        await trio.sleep_forever()
    assert trio.current_time() == 60
