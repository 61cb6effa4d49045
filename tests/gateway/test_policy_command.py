from pathlib import Path

import pytest

from stopgo.actors.tools.known import KnownTools
from stopgo.actors.tools.tool import Hints, Tool
from stopgo.gateway.cli.main import main
from stopgo.runtime.journal.sqlite.sqlite_journal import open_sqlite

FILE = """
mcp_servers:
  - {name: db, command: d}
approval:
  rules:
    - {name: no production, then: deny, tool: "db_*", arguments: {target: prod}}
    - {then: run, effect: read}
agent:
  type: sequential
  name: root
  agents:
    - {type: llm, name: reader, tools: ["*_list"]}
    - type: parallel
      name: both
      agents:
        - {type: llm, name: writer}
        - {type: llm, name: careful, approval: {in_parallel: ask}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "agent.yaml"
    path.write_text(FILE)
    return path


def explain(*words: str | Path) -> int:
    return main(["policy", "explain", *map(str, words)])


@pytest.mark.parametrize(("setting", "effect", "code"), [("ask", "once", 3), ("read_only", "read", 0)])
def test_contradictory_hints_are_reported(
    file: Path, capsys: pytest.CaptureFixture[str], setting: str, effect: str, code: int
) -> None:
    file.write_text(
        FILE.replace(
            "approval:\n  rules", f"approval:\n  contradictory_hints: {setting}\n  rules", 1
        ).replace("{then: run, effect: read}", "{then: run, effect: idempotent}")
    )
    words = ("--config", file, "--node", "careful", "--tool", "t", "--read-only", "--destructive")
    assert explain(*words) == code
    said = capsys.readouterr().out
    assert f"destructiveHint is true as well, and approval.contradictory_hints is {setting}" in said
    assert f"the tool's effect is {effect}" in said


def test_the_rule_that_decides_is_marked_and_the_others_say_why_not(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--tool", "db_drop", "--args", '{"target": "test"}', "--destructive")
    assert explain("--config", file, "--node", "careful", *words) == 3
    assert capsys.readouterr() == (
        """\
careful: ask
  - approval.rules[0] "no production" (tool: db_*; arguments: target): deny
      arguments.target is "test", which does not fit equals "prod"
  - approval.rules[1] (effect: read): run
      the tool's effect is once
  - readOnlyHint: true runs
      readOnlyHint is not given
  * destructiveHint: true asks
      destructiveHint is true
  - approval.in_parallel: ask
      the call would ask below a parallel node, and still does

""",
        "",
    )


@pytest.mark.parametrize(
    ("words", "actions", "code"),
    [
        (["--tool", "db_drop", "--destructive"], ["not seen", "run", "ask"], 3),
        (["--tool", "db_list", "--no-destructive"], ["run", "run", "run"], 0),
        (["--tool", "db_list", "--read-only"], ["run", "run", "run"], 0),
        (["--tool", "db_list", "--args", '{"target": "prod"}', "--read-only"], ["deny", "deny", "deny"], 4),
        (["--tool", "db_drop", "--node", "writer"], ["run"], 0),
        (["--tool", "db_drop", "--node", "reader"], ["not seen"], 4),
        (["--tool", "db_drop", "--node", "writer", "--server", "db"], ["run"], 0),
    ],
)
def test_each_node_has_its_answer_and_the_strictest_is_the_exit_code(
    file: Path, capsys: pytest.CaptureFixture[str], words: list[str], actions: list[str], code: int
) -> None:
    assert explain("--config", file, *words) == code
    blocks = capsys.readouterr().out.split("\n\n")
    assert [block.partition("\n")[0].partition(": ")[2] for block in blocks if block] == actions


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--args", "{"], "--args is not JSON: Expecting property name"),
        (["--args", "[" * 100_000], "--args is not JSON: nested too deeply"),
        (["--args", '{"a": 1, "a": 2}'], "--args is not JSON: a name is there twice in one object"),
        (["--args", "[1]"], '--args must be a JSON object, for instance \'{"name": "x"}\''),
        (["--node", "wirter"], 'no llm node is called "wirter" (did you mean "writer"?)'),
        (["--node", "root"], 'no llm node is called "root" (known: reader, writer, careful)'),
        (["--server", "dbs"], 'no server is called "dbs" (did you mean "db"?)'),
    ],
)
def test_what_makes_no_sense_is_refused(
    file: Path, capsys: pytest.CaptureFixture[str], words: list[str], expected: str
) -> None:
    assert explain("--config", file, "--tool", "t", *words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"stopgo policy explain: {expected}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        (
            "mcp_servers: [{name: a, command: x}, {name: b, command: x}]\n"
            "approval: {rules: [{server: a, then: deny}]}",
            [],
            "--server is needed: a or b (stopgo mcp test says which tools they have)\n",
        ),
        ("name: x", ["--server", "s"], 'stopgo policy explain: no server is called "s" (known: none)\n'),
        (
            "agent: {type: approval, name: c, message: m}",
            [],
            "stopgo policy explain: the tree has no llm node, so no node calls tools\n",
        ),
        ("naem: x", [], 'agent.yaml:1:1: naem: unknown key "naem" (did you mean "name"?)\n'),
    ],
)
def test_a_file_that_gives_no_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: list[str], expected: str
) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(text)
    assert explain("--config", path, "--tool", "t", *words) == 2
    assert capsys.readouterr().err.endswith(expected)


SEVERAL = """
data_dir: {data}
mcp_servers:
  - {{name: a, command: x}}
  - {{name: b, command: x, tools: {{exclude: [b_not]}}}}
approval: {{rules: [{{server: a, then: deny}}, {{server: b, then: ask}}]}}
"""


async def test_the_server_that_has_the_tool_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(SEVERAL.format(data=tmp_path / "data"))

    def asked(tool: str) -> int:
        return explain("--config", path, "--tool", tool)

    assert [asked(tool) for tool in ("mcp__b__t", "b_not", "drop", "dr.op")] == [3, 4, 2, 2]
    async with open_sqlite(tmp_path / "data") as journal:
        known = KnownTools(journal)
        await known.take("b", [Tool("dr_op", "", {}, "b", own_name="dr.op"), Tool("both", "", {}, "b")])
        await known.take("a", [Tool("both", "", {}, "a")])
        # Another process keeps the journal meanwhile, or none.
        assert [asked(tool) for tool in ("dr.op", "dr_op", "both", "other")] == [3, 3, 2, 2]
    assert asked("dr.op") == 3
    assert {file.name for file in (tmp_path / "data").iterdir()} == {"journal.db", "journal.lock"}
    path.write_text("mcp_servers: [{name: a, command: x}, {name: b, command: x}]\nname: x")
    capsys.readouterr()
    assert asked("t") == 0  # whoever has it
    assert capsys.readouterr().out.startswith("x: run\n")


@pytest.mark.parametrize(
    ("tool", "options", "code", "said"),
    [
        ("read", [], 0, "readOnlyHint is true"),
        ("drop", [], 3, "destructiveHint is true"),
        ("drop", ["--no-destructive"], 0, "destructiveHint is false"),
        ("mcp__db__drop", [], 3, "destructiveHint is true"),
        ("other", [], 3, "destructiveHint is not given"),
    ],
)
async def test_hints_of_a_listed_tool_count_unless_options_give_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tool: str, options: list[str], code: int, said: str
) -> None:
    async with open_sqlite(tmp_path / "data") as journal:
        listed = [("read", Hints(read_only=True)), ("drop", Hints(destructive=True))]
        await KnownTools(journal).take(
            "db", [Tool(name, "", {}, "db", hints=hints) for name, hints in listed]
        )
    path = tmp_path / "agent.yaml"
    path.write_text(
        f"data_dir: {tmp_path / 'data'}\n"
        "mcp_servers: [{name: db, command: d}]\napproval: {defaults: strict}"
    )
    assert explain("--config", path, "--tool", tool, *options) == code
    out, err = capsys.readouterr()
    assert f"      {said}\n" in out
    assert err.startswith(f'The hints of "{tool}" are not known') == (tool == "other")


def test_tool_has_its_name_in_the_agent(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = "".join(
        f"    - {{then: deny, tool: {name}, effect: once}}\n"
        for name in ("mcp__other__drop", "mcp__db__drop")
    )
    file.write_text(FILE.replace("rules:\n", f"rules:\n{rules}"))
    words = ("--config", file, "--node", "careful", "--server", "db", "--destructive", "--tool")
    for name in ("drop", "mcp__db__drop"):
        assert explain(*words, name) == 4
    assert explain(*words, "mcp__other__drop") == 3
    assert 'the tool is "mcp__db__mcp__other__drop"' in capsys.readouterr().out
