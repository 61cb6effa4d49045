from __future__ import annotations

import re
import string
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stopgo.actors.models.messages.messages import (
    AssistantMessage,
    ModelRequest,
    ModelTool,
    ToolCall,
    ToolMessage,
    UserMessage,
    unheard,
)
from stopgo.actors.models.offline.rules_model import RulesModel, decide
from stopgo.actors.models.offline.vocabulary import DOUBTS, FILLERS, kinds, name_words

TEXT = {"type": "string"}


def tool(name: str, description: str, /, *required: str, **properties: Any) -> ModelTool:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return ModelTool(name, f"[MCP:resources] {description}", schema)


RESOURCES = (
    tool(
        "resources_add",
        "Add a new resource with a name and value",
        "name",
        "value",
        name=TEXT,
        value={"type": ["integer", "string"]},
    ),
    tool(
        "resources_remove",
        "Remove resources by ID or by name pattern (regex)",
        id=TEXT,
        pattern=TEXT,
    ),
    tool("resources_list", "List resources, optionally filtered by name pattern (regex)", pattern=TEXT),
)
# Names, arguments and beginnings of descriptions are those of the official file system server.
FILES = (
    tool("read_file", "Read the complete contents of a file as text. DEPRECATED.", "path", path=TEXT),
    tool(
        "read_text_file",
        "Read the complete contents of a file from the file system as text.",
        "path",
        path=TEXT,
        head={"type": "number"},
    ),
    tool(
        "read_multiple_files",
        "Read the contents of multiple files simultaneously.",
        "paths",
        paths={"type": "array", "items": TEXT},
    ),
    tool(
        "write_file",
        "Create a new file or completely overwrite an existing file with new content.",
        "path",
        "content",
        path=TEXT,
        content=TEXT,
    ),
    tool("create_directory", "Create a new directory or ensure a directory exists.", "path", path=TEXT),
    tool(
        "list_directory",
        "Get a detailed listing of all files and directories in a specified path.",
        "path",
        path=TEXT,
    ),
    tool(
        "list_directory_with_sizes",
        "Get a detailed listing of all files and directories in a specified path, including sizes.",
        "path",
        path=TEXT,
        sortBy={"type": "string", "enum": ["name", "size"]},
    ),
    tool("directory_tree", "Get a recursive tree view of files and directories.", "path", path=TEXT),
    tool(
        "move_file",
        "Move or rename files and directories.",
        "source",
        "destination",
        source=TEXT,
        destination=TEXT,
    ),
    tool(
        "search_files",
        "Recursively search for files and directories matching a pattern, glob-style.",
        "path",
        "pattern",
        path=TEXT,
        pattern=TEXT,
    ),
    tool("get_file_info", "Retrieve detailed metadata about a file or directory.", "path", path=TEXT),
    tool("list_allowed_directories", "Returns the list of directories that this server may access."),
)
OTHERS = (
    tool("echo", "Echoes back the input string", "message", message=TEXT),
    tool("get-sum", "Returns the sum of two numbers", "a", "b", a={"type": "number"}, b={"type": "number"}),
    tool(
        "updateAlarm",
        "Update an alarm",
        "level",
        "active",
        level={"type": "integer"},
        active={"type": "boolean"},
    ),
)
ALL = RESOURCES + FILES + OTHERS
CHANGING = {"resources_add", "resources_remove", "write_file", "create_directory", "move_file", "updateAlarm"}


@pytest.mark.parametrize("tools", [RESOURCES, RESOURCES + FILES, ALL])
@pytest.mark.parametrize(
    ("sentence", "name", "arguments"),
    [
        ("show me all resources", "resources_list", {}),
        ("list all resources", "resources_list", {}),
        ("list resources", "resources_list", {}),
        ("Which resources do we have?", "resources_list", {}),
        ("what servers are there", "resources_list", {}),
        ("hello, please display the items", "resources_list", {}),
        ("resources", "resources_list", {}),
        ("list resources named test-1", "resources_list", {"pattern": r"^test\-1$"}),
        ("show resource test-1", "resources_list", {"pattern": r"^test\-1$"}),
        ("list resources matching ^test", "resources_list", {"pattern": "^test"}),
        ("create a server test-1 with value 10", "resources_add", {"name": "test-1", "value": 10}),
        ("add resource test-2 value 20", "resources_add", {"name": "test-2", "value": 20}),
        ("create a server my-test with value 42", "resources_add", {"name": "my-test", "value": 42}),
        ("make a new item named alpha, value: 7.", "resources_add", {"name": "alpha", "value": 7}),
        ("please add test-3 = 7", "resources_add", {"name": "test-3", "value": 7}),
        ("add test-3=7", "resources_add", {"name": "test-3", "value": 7}),
        ("add server test-3 10", "resources_add", {"name": "test-3", "value": 10}),
        ("add resource alpha with a value of blue", "resources_add", {"name": "alpha", "value": "blue"}),
        (
            'add resource "my big thing" value "10"',
            "resources_add",
            {"name": "my big thing", "value": "10"},
        ),
        ("resources_add name 'x' value 3", "resources_add", {"name": "x", "value": 3}),
        ("remove test-1", "resources_remove", {"pattern": r"^test\-1$"}),
        ("delete resource test-2", "resources_remove", {"pattern": r"^test\-2$"}),
        ("Could you please drop the server alpha?", "resources_remove", {"pattern": "^alpha$"}),
        ("Would you remove alpha?", "resources_remove", {"pattern": "^alpha$"}),
        ("destroy the resource called 'a.b*'", "resources_remove", {"pattern": r"^a\.b\*$"}),
        ("delete 1763763763763763763", "resources_remove", {"id": "1763763763763763763"}),
        ("delete resource with id 42", "resources_remove", {"id": "42"}),
        ("delete the resource whose id is 42", "resources_remove", {"id": "42"}),
        ("erase resource 42", "resources_remove", {"pattern": "^42$"}),
        ("remove resources matching ^tmp-", "resources_remove", {"pattern": "^tmp-"}),
        ('remove resources matching "^a{1,2}$"', "resources_remove", {"pattern": "^a{1,2}$"}),
        ('remove "last".', "resources_remove", {"pattern": "^last$"}),
        ("remove “my thing”, please", "resources_remove", {"pattern": r"^my\ thing$"}),
        ("remove the resource «last».", "resources_remove", {"pattern": "^last$"}),
        ("can we remove ‘test-1’?", "resources_remove", {"pattern": r"^test\-1$"}),
        ("resources_remove test-1", "resources_remove", {"pattern": r"^test\-1$"}),
        # Verbs of several words
        ("get rid of test-1", "resources_remove", {"pattern": r"^test\-1$"}),
        ("Could you get rid of the server alpha?", "resources_remove", {"pattern": "^alpha$"}),
        ("do away with test-1", "resources_remove", {"pattern": r"^test\-1$"}),
        ("throw away test-1", "resources_remove", {"pattern": r"^test\-1$"}),
        ("throw test-1 out", "resources_remove", {"pattern": r"^test\-1$"}),
        ("set up x = 3", "resources_add", {"name": "x", "value": 3}),
        ("please set up a server x with value 3", "resources_add", {"name": "x", "value": 3}),
        ("set server x up with value 3", "resources_add", {"name": "x", "value": 3}),
        ("how many resources are there?", "resources_list", {}),
        ("How many servers do we have", "resources_list", {}),
        ("count the resources", "resources_list", {}),
        ("look up resource test-1", "resources_list", {"pattern": r"^test\-1$"}),
    ],
)
def test_resource_sentences(
    tools: tuple[ModelTool, ...], sentence: str, name: str, arguments: dict[str, Any]
) -> None:
    assert decide(sentence, tools) == (name, arguments)


def test_single_verb_is_enough_if_one_tool_offers_it() -> None:
    assert decide("list", RESOURCES) == ("resources_list", {})
    assert "resources_list or list_directory" in str(decide("list", RESOURCES + FILES))


@pytest.mark.parametrize("tools", [FILES, RESOURCES + FILES, ALL])
@pytest.mark.parametrize(
    ("sentence", "name", "arguments"),
    [
        ("list files in /tmp", "list_directory", {"path": "/tmp"}),
        ("how many files are in /tmp?", "list_directory", {"path": "/tmp"}),
        ("list the files in /tmp.", "list_directory", {"path": "/tmp"}),
        ("show the folder '/tmp/my files'", "list_directory", {"path": "/tmp/my files"}),
        ("what files are in .", "list_directory", {"path": "."}),
        ("list_directory /tmp", "list_directory", {"path": "/tmp"}),
        ("list directory with sizes /tmp", "list_directory_with_sizes", {"path": "/tmp"}),
        ("list allowed directories", "list_allowed_directories", {}),
        ("show the directory tree of /tmp", "directory_tree", {"path": "/tmp"}),
        ("read file /tmp/a.txt", "read_file", {"path": "/tmp/a.txt"}),
        ("cat /tmp/a.txt", "read_file", {"path": "/tmp/a.txt"}),
        ("get file info for /tmp/a.txt", "get_file_info", {"path": "/tmp/a.txt"}),
        ("find *.py in /tmp", "search_files", {"path": "/tmp", "pattern": "*.py"}),
        ("create the folder /tmp/new", "create_directory", {"path": "/tmp/new"}),
        ("rename /tmp/a to /tmp/b", "move_file", {"source": "/tmp/a", "destination": "/tmp/b"}),
        ("move file from /tmp/a to /tmp/b", "move_file", {"source": "/tmp/a", "destination": "/tmp/b"}),
        ("write file /tmp/x content 'a b'", "write_file", {"path": "/tmp/x", "content": "a b"}),
    ],
)
def test_file_sentences(
    tools: tuple[ModelTool, ...], sentence: str, name: str, arguments: dict[str, Any]
) -> None:
    assert decide(sentence, tools) == (name, arguments)


@pytest.mark.parametrize(
    ("sentence", "name", "arguments"),
    [
        ("echo hello", "echo", {"message": "hello"}),
        ("get the sum of 3 and 4.5", "get-sum", {"a": 3, "b": 4.5}),
        ("update alarm level 3 active off", "updateAlarm", {"level": 3, "active": False}),
        ("set the alarm to level 3 and active yes", "updateAlarm", {"level": 3, "active": True}),
    ],
)
def test_arguments_get_the_type_of_the_schema(sentence: str, name: str, arguments: dict[str, Any]) -> None:
    assert decide(sentence, OTHERS) == (name, arguments)


@pytest.mark.parametrize(
    ("sentence", "asked"),
    [
        ("add a resource", "name and value"),
        ("add test-1", "I need value"),
        ("add value 10", "I need name"),
        ("add resource server value 3", "I need name"),
        ("add a resource named the value 3", "I need name"),
        ("create a server big blue with value 3", "'blue'"),
        ("add test-1 value 3 and test-2 value 4", "'test-2'"),
        ("remove", "id or pattern"),
        ("remove everything", "id or pattern"),
        ("delete all resources", "id or pattern"),
        ("delete it", "id or pattern"),
        ("remove the server", "id or pattern"),
        ("remove test-1 and test-2", "'test-2'"),
        ("remove everything except test-1", "'except'"),
        ("remove everything but test-1", "'but'"),
        ("remove resources without value", "'without'"),
        ("don't remove test-1", '"don\'t"'),
        ("don’t remove test-1", "'don’t'"),
        ("do not remove test-1", "'not'"),
        ("never delete test-1", "'never'"),
        ("how do I remove test-1?", "'how'"),
        ("if you can, remove test-1", "'if'"),
        ("remove test-1 or test-2", "'or'"),
        ("remove test-1,test-2", "'test-2'"),
        ("remove test-1;test-2", "'test-2'"),
        ("did you remove test-1?", "'did'"),
        ("does it delete test-1", "'does'"),
        ("is it ok to remove test-1", "'is'"),
        ("would it be ok to remove test-1", "'would'"),
        ("Do we delete test-1?", "'Do'"),
        ("can I remove test-1?", "'can'"),
        ("please, could I remove test-1?", "'could'"),
        ("remove the last resource", "'last'"),
        ("remove nothing", "'nothing'"),
        ("you must remove test-1", "'must'"),
        ("list resources with value 3", "'3'"),
        ("list resources whose name contains test", "'contains'"),
        ("list resources starting with test", "'starting'"),
        ("remove all resources starting with a", "I need id or pattern"),
        ("remove resources starting with test", "'starting'"),
        ("add a resource containing lamp and 5", "'containing'"),
        ("list resources and then remove test-1", "or to remove?"),
        ("remove test-1 and show the rest", "or to show?"),
        ("remove the file test-1", "'file'"),
        ("delete folder /tmp/x", "'folder'"),
        ("set alarm to level high", "I need"),
        ("move /a /b", "I need destination"),
        ("write hello to /tmp/x", "I need content"),
        ("list files", "I need path"),
        ("show /tmp", "Did you mean"),
        # A part of the sentence that may mean something else than the verb
        ("how many resources should I remove?", "or to remove?"),
        ("get resource test-1 removed", "or to removed?"),
        ("see that resource test-1 is dropped", "or to dropped?"),
        ("show resource test-1 and kill it", "'kill'"),
        ("get the server test-1 out of here", "'out'"),
        ("find resource test-1 over there", "'over'"),
        ("don't get rid of test-1", '"don\'t"'),
        ("how do I get rid of test-1", "'how'"),
        ("get rid of everything", "id or pattern"),
        ("set up a server x", "I need value"),
    ],
)
def test_ties_and_doubts_become_questions(sentence: str, asked: str) -> None:
    answer = decide(sentence, ALL)
    assert isinstance(answer, str), answer
    assert asked.strip('"') in answer


@pytest.mark.parametrize(
    "sentence",
    [
        "",
        "   ",
        "?!",
        "hello",
        "what can you do?",
        "what is the weather in Paris",
        "rid me of test-1",
        "tell me a joke about servers that burn",
        "help",
        "remove " + "very " * 1000 + "test-1",
    ],
)
def test_other_text_gets_the_list_of_tools(sentence: str) -> None:
    answer = decide(sentence, RESOURCES)
    assert isinstance(answer, str)
    assert "not a language model" in answer
    for each in RESOURCES:
        assert each.name in answer


def test_without_tools_the_reply_says_so() -> None:
    assert "No tools are connected" in str(decide("list resources", ()))


def test_list_of_tools_is_bounded() -> None:
    tools = tuple(tool(f"t{number}", "Do it. " * 100) for number in range(50))
    answer = str(decide("hello", tools))
    assert "and 20 more" in answer
    assert len(answer) < 6000


def test_tools_of_equal_score_are_a_tie() -> None:
    twins = (
        tool("remove_user", "", "name", name=TEXT),
        tool("remove_group", "", "name", name=TEXT),
    )
    assert "remove_user or remove_group" in str(decide("remove bob", twins))
    assert decide("remove group bob", twins) == ("remove_group", {"name": "bob"})


def test_sentence_without_a_verb_changes_nothing() -> None:
    for sentence in ("/tmp/x directory", "alarm level 3 active yes", "resource test-1 value 3"):
        answer = decide(sentence, ALL)
        assert isinstance(answer, str) or answer[0] not in CHANGING


def request(*messages: UserMessage | AssistantMessage | ToolMessage, user: str) -> ModelRequest:
    return ModelRequest("You manage resources.", messages, RESOURCES, user, node="main", turn=1, call=3)


async def test_equal_requests_get_equal_calls() -> None:
    asked = request(UserMessage("x"), user="remove test-1")
    reply = await RulesModel().complete(asked, unheard)
    assert reply.tool_calls == (ToolCall("call_3_0", "resources_remove", {"pattern": r"^test\-1$"}),)
    assert reply.stop == "tool_calls"
    assert await RulesModel().complete(asked, unheard) == reply


async def test_reply_to_results_is_text_without_calls() -> None:
    call = ToolCall("call_1_0", "resources_list", {})
    reply = await RulesModel().complete(
        request(
            UserMessage("remove test-1"),
            AssistantMessage("", (call,)),
            ToolMessage("call_1_0", "resources_list", '{"resources": null, "count": 0}'),
            user="remove test-1",
        ),
        unheard,
    )
    assert (reply.text, reply.tool_calls) == ("No resources.", ())


async def test_results_of_earlier_turns_are_ignored() -> None:
    call = ToolCall("call_1_0", "resources_list", {})
    reply = await RulesModel().complete(
        request(
            UserMessage("list"),
            AssistantMessage("", (call,)),
            ToolMessage("call_1_0", "resources_list", "[]"),
            AssistantMessage("No resources."),
            UserMessage("list"),
            user="list",
        ),
        unheard,
    )
    assert [call.name for call in reply.tool_calls] == ["resources_list"]


_VOCABULARY = """
add create new remove delete list show what set write move rename update resource resources server file files
folder alarm named called name value pattern id matching path content to from of is = a the all everything it
and or not don't except how if test-1 test-10 x blue 10 42 1763763763 /tmp /tmp/a level active yes "a b" '' `
"""
_WORDS = st.sampled_from(_VOCABULARY.split())
_SENTENCES = st.lists(_WORDS | st.text(max_size=6), max_size=12).map(" ".join)


def _values(arguments: dict[str, Any]) -> list[str]:
    texts = [str(value) for value in arguments.values() if not isinstance(value, bool)]
    return [re.sub(r"\\(.)", r"\1", text[1:-1]) if text.startswith("^") else text for text in texts]


@given(_SENTENCES)
@example("remove test-1")
@example("add resource blue value 10")
def test_changing_call_uses_only_words_of_the_sentence(sentence: str) -> None:
    decision = decide(sentence, ALL)
    if isinstance(decision, str):
        return
    name, arguments = decision
    called = next(each for each in ALL if each.name == name)
    assert (
        set(called.input_schema["required"]) <= arguments.keys() <= called.input_schema["properties"].keys()
    )
    if name not in CHANGING:
        return
    assert arguments, "nothing said of what to change"
    words = sentence.casefold().replace("=", " ").split()
    verbs = {word.strip(".,;:!?") for word in words} | {part for word in words for part in name_words(word)}
    described = called.description.casefold().split()[1]
    own = kinds(described).union(*(kinds(word) for word in name_words(name)))
    assert any(kinds(verb) & own for verb in verbs), "no verb that means this tool"
    for value in _values(arguments):
        assert value.removeprefix("^") in sentence or value in sentence


@given(_SENTENCES, st.sampled_from(sorted(DOUBTS)))
def test_doubt_anywhere_stops_a_changing_call(sentence: str, doubt: str) -> None:
    sentence = re.sub(r"[\"'`]", "", sentence)
    for each in (f"{doubt} {sentence}", f"{sentence} {doubt}"):
        decision = decide(each, ALL)
        if not isinstance(decision, str):
            assert decision[0] not in CHANGING


@given(st.text(), st.lists(st.text(string.ascii_lowercase + " ,.?!", max_size=30)).map(" ".join))
def test_noise_changes_nothing(noise: str, prose: str) -> None:
    for text in (noise, prose):
        if any(kinds(part) for word in text.casefold().split() for part in (word, *name_words(word))):
            continue
        decision = decide(text, ALL)
        assert isinstance(decision, str) or decision[0] not in CHANGING


_NAMES = st.text(string.ascii_letters + string.digits + "-_.*+?()[]|^$\\é", min_size=1, max_size=12).filter(
    lambda name: not re.fullmatch(r"[0-9]{6,}", name)
)


@given(_NAMES, _NAMES)
@example("test-1", "0")
@example("a.b", "x")
def test_pattern_of_a_removed_name_matches_only_it(name: str, more: str) -> None:
    decision = decide(f'remove "{name}"', RESOURCES)
    assert not isinstance(decision, str)
    pattern = decision[1]["pattern"]
    assert re.search(pattern, name)
    for other in (name + more, more + name, more + name + more):
        assert not re.search(pattern, other)
    if more != name:
        assert not re.search(pattern, more)


@given(st.from_regex(r"[a-z]{1,8}-[0-9]{1,4}", fullmatch=True), st.integers(-(10**6), 10**6))
def test_name_and_value_are_passed_unchanged(name: str, value: int) -> None:
    assert decide(f"create a server {name} with value {value}", RESOURCES) == (
        "resources_add",
        {"name": name, "value": value},
    )


_SCHEMAS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from(["type", "properties", "required", "x"]),
    st.none() | st.lists(st.text(max_size=3)) | st.dictionaries(st.text(max_size=4), st.none() | st.just({})),
)


@given(_SENTENCES, st.text(max_size=12), st.text(max_size=20), _SCHEMAS)
def test_any_tool_of_a_server_is_accepted(
    sentence: str, name: str, description: str, schema: dict[str, Any]
) -> None:
    decide(sentence, (*RESOURCES, ModelTool(name, description, schema)))


def test_word_lists_do_not_overlap() -> None:
    assert not FILLERS & DOUBTS
    assert not any(kinds(word) for word in DOUBTS)
    assert {word for word in FILLERS if kinds(word)} == {"new"}
