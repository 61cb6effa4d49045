"""Trees: what nodes run, what they are told, and what they leave for each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.conversation.result import Turn
from stopgo.actors.models.messages.messages import AssistantMessage, ModelFailed, ModelRequest, UserMessage
from tests.actors.world import (
    DESTRUCTIVE,
    READ_ONLY,
    World,
    after,
    answer,
    call,
    events,
    llm,
    parallel,
    say,
    sequential,
    use,
)


def prompt(request: ModelRequest) -> str:
    return request.prompt


async def test_a_sequence_runs_in_order_and_passes_results_by_their_keys(
    world: World, autojump_clock: MockClock
) -> None:
    world.settings["agent"] = sequential(
        "root",
        llm("analyzer", output_key="analysis"),
        {**llm("executor"), "prompt": "Do {analysis}, not {unknown}, for {user_message}"},
    )
    world.plan("analyzer", say("X"))
    world.plan("executor", say("did X"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("please")
        assert answer(turn).response == "did X"
        assert [m.node for m in turn.conversation.messages if m.role == "assistant"] == [
            "analyzer",
            "executor",
        ]
    assert [r.node for r in world.requests] == ["analyzer", "executor"]
    assert world.requests[1].prompt == "Do X, not {unknown}, for please"


async def test_a_result_is_text_and_no_second_template(world: World, autojump_clock: MockClock) -> None:
    world.settings["agent"] = sequential(
        "root",
        llm("one", output_key="a"),
        llm("two", output_key="b"),
        {**llm("three"), "prompt": "{a} {b} {{a}}"},
    )
    world.plan("one", say("{b} and {user_message}"))
    world.plan("two", say("B"))
    async with world.agent() as agent:
        await agent.start_conversation("hi")
    assert world.requests[2].prompt.startswith("{b} and {user_message} B")


async def test_the_last_write_of_a_key_counts(world: World, autojump_clock: MockClock) -> None:
    world.settings["agent"] = sequential(
        "root",
        llm("one", output_key="k"),
        sequential("inner", llm("two", output_key="k"), llm("three"), output_key="outer"),
        {**llm("four"), "prompt": "{k} {outer}"},
    )
    async with world.agent() as agent:
        await agent.start_conversation("hi")
    assert world.requests[-1].prompt == "two done three done"


async def test_branches_run_side_by_side_on_copies_of_the_state(
    world: World, autojump_clock: MockClock
) -> None:
    branch = {"type": "sequential", "agents": []}
    world.settings["agent"] = sequential(
        "root",
        llm("start", output_key="k"),
        parallel(
            "fan",
            {**branch, "name": "A", "agents": [llm("a1", output_key="k"), {**llm("a2"), "prompt": "{k}"}]},
            {**branch, "name": "B", "agents": [llm("b1"), {**llm("b2"), "prompt": "{k}"}]},
        ),
        {**llm("end"), "prompt": "{k}"},
    )
    world.plan("a1", say("from a1"))
    world.plan("b1", after(50, say("slow")))
    async with world.agent() as agent:
        await agent.start_conversation("hi")
    assert world.asked("a2")[0].prompt == "from a1"
    assert world.asked("b2")[0].prompt == "start done"  # a1 wrote long before, but into its own copy
    assert world.asked("end")[0].prompt == "from a1"


async def test_that_a_loop_is_to_end_is_remembered_from_life_to_life(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    fan = parallel("fan", llm("a", can_exit_loop=True, output_key="k"), llm("b"))
    loop = {"type": "loop", "name": "loop", "agents": [fan], "max_iterations": 3}
    world.settings |= {
        "agent": sequential("root", loop, {**llm("end"), "prompt": "{k}"}),
        "approval": {"in_parallel": "ask", "in_loop": "ask"},
    }
    world.plan("a", use(call("exit_loop"), text="enough"))
    world.plan("b", use(call("wipe")), say("wiped"))
    async with world.agent() as agent:
        [question] = (await agent.start_conversation("go")).conversation.head.pending
    async with world.agent() as agent:
        assert answer(await agent.decide(question, {"approved": True})).response == "end done"
    assert (len(world.asked("a")), len(world.asked("b"))) == (1, 2)
    assert world.asked("end")[0].prompt == "enough"
    assert [name for name, _ in world.ledger] == ["wipe"]


@pytest.mark.repeat(8)
async def test_writes_merge_and_texts_join_in_the_order_of_the_file(
    world: World, autojump_clock: MockClock
) -> None:
    world.settings["agent"] = sequential(
        "root",
        parallel(
            "fan",
            llm("a", output_key="k"),
            llm("b", output_key="k"),
            llm("c", output_key="other"),
            output_key="all",
        ),
        {**llm("end"), "prompt": "{k}|{all}"},
    )
    world.plan("a", after(9, say("A")))
    world.plan("b", after(1, say("B")))
    world.plan("c", after(5, say("C")))
    async with world.agent() as agent:
        start = trio.current_time()
        turn = await agent.start_conversation("hi")
        assert trio.current_time() - start == pytest.approx(9)
        log = await events(world.journal, turn.conversation.id)
    assert world.asked("end")[0].prompt == "B|A\nB\nC"
    assert {e.body["key"]: e.body["value"] for e in log if e.type == "state.set"}["all"] == "A\nB\nC"


async def test_a_parallel_root_answers_with_all_of_it(world: World, autojump_clock: MockClock) -> None:
    world.settings["agent"] = parallel("fan", llm("a"), llm("b"))
    world.plan("a", after(3, say("A")))
    world.plan("b", say("B"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("hi")
        assert answer(turn).response == "A\nB"
        # The answer is in the conversation too, whole, where a client looks for it.
        assert turn.conversation.messages[-1].content == "A\nB"


async def test_a_branch_that_fails_fails_the_parallel_node_and_stops_the_others(
    world: World, autojump_clock: MockClock
) -> None:
    async def slow(_: Mapping[str, Any]) -> str:
        await trio.sleep(100)
        return "ok"

    world.tool("slow", READ_ONLY, slow)
    world.settings["agent"] = sequential("root", parallel("fan", llm("a"), llm("b")), llm("never"))
    world.plan("a", after(3, say("")), ModelFailed("unused"))
    world.plan("a", use(call("missing")), ModelFailed("no more"))
    world.plan("b", use(call("slow")))
    async with world.agent() as agent:
        start = trio.current_time()
        turn = await agent.start_conversation("hi")
        assert trio.current_time() - start < 50
    assert (answer(turn).state, answer(turn).response) == ("failed", "LLM error: no more")
    assert turn.conversation.head.status == "active"
    assert not world.asked("never")


async def test_a_step_that_fails_ends_the_sequence(world: World, autojump_clock: MockClock) -> None:
    world.settings["agent"] = sequential("root", llm("a"), llm("b"))
    world.plan("a", ModelFailed("no"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("hi")
    assert answer(turn).response == "LLM error: no"
    assert [r.node for r in world.requests] == ["a"]


# --------------------------------------------------------------------- what nodes see


async def test_a_branch_never_sees_what_another_says_in_this_run(
    world: World, autojump_clock: MockClock
) -> None:
    world.settings["agent"] = parallel("fan", llm("a"), llm("b"))
    world.tool("look", READ_ONLY, "x")
    world.plan("a", say("A's words"))
    world.plan("b", after(5, use(call("look"))), say("B"))
    async with world.agent() as agent:
        await agent.start_conversation("hi")
    for request in world.asked("b"):
        assert "A's words" not in repr(request)


async def test_a_node_with_history_turn_sees_only_this_turn(world: World, autojump_clock: MockClock) -> None:
    world.settings["agent"] = llm("a", history="turn")
    async with world.agent() as agent:
        id = (await agent.start_conversation("first")).conversation.id
        await agent.send(id, "second")
    assert world.requests[-1].messages == (UserMessage("second"),)


async def test_no_message_to_a_model_is_ever_empty(world: World, autojump_clock: MockClock) -> None:
    world.plan("agent", say(""), turn=1)
    async with world.agent() as agent:
        id = (await agent.start_conversation("first")).conversation.id
        with trio.move_on_after(1):
            world.plan("agent", after(100, say("late")), turn=2)
            await agent.send(id, "second")
        await agent.cancel(id)
        await agent.send(id, "third")
    for request in world.requests:
        for message in request.messages:
            assert isinstance(message, UserMessage | AssistantMessage)
            assert message.text


# -------------------------------------------------------------------- the run's own tree


async def test_an_interrupted_run_goes_on_with_the_tree_it_started_with(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("look", READ_ONLY)
    second = {**llm("b"), "prompt": "old {k}, ${data_dir}"}
    world.settings["agent"] = sequential("root", llm("a", output_key="k"), second)
    world.plan("b", after(1000, say("too late")), turn=1)
    async with world.agent() as agent:
        with trio.move_on_after(10):
            await agent.start_conversation("first", key="k")
    world.settings["agent"] = llm("other")
    world.plan("b", say("b again"), turn=1)
    async with world.agent() as agent:
        turn = await agent.start_conversation("first", key="k")
        assert answer(turn).response == "b again"
        assert world.requests[-1].prompt == f"old a done, {world.folder / 'data'}"
        assert len(world.asked("a")) == 1  # what it said is on record
        await agent.send(turn.conversation.id, "next")
    assert world.requests[-1].node == "other"


async def test_the_first_message_is_the_prompt_of_the_latest_run(
    world: World, autojump_clock: MockClock
) -> None:
    def first(turn: Turn) -> tuple[str, str, str]:
        message = turn.conversation.messages[0]
        return message.id, message.role, message.content

    async with world.agent() as agent:
        turn = await agent.start_conversation("first")
        id, message = turn.conversation.id, turn.conversation.messages[0].id
        assert first(turn) == first(await agent.send(id, "second")) == (message, "system", "You help.")
    world.settings["prompt"] = "New."
    async with world.agent() as agent:
        assert first(Turn(await agent.get(id), None)) == (
            message,
            "system",
            "You help.",
        )  # no run has used it
        for text in ("third", "fourth"):
            assert first(await agent.send(id, text)) == (message, "system", "New.")
    bodies = [each.body for each in await events(world.journal, id) if each.type == "run.started"]
    assert [body.get("prompt") for body in bodies] == [None, None, "New.", None]


async def test_a_tree_is_stored_once_per_content(world: World, autojump_clock: MockClock) -> None:
    async with world.agent() as agent:
        id = (await agent.start_conversation("first")).conversation.id
        await agent.send(id, "second")
    world.settings["agent"] = llm("changed")
    async with world.agent() as agent:
        await agent.send(id, "third")
        await agent.send(id, "fourth")
    starts = [e.body for e in await events(world.journal, id) if e.type == "run.started"]
    assert ["tree" in body for body in starts] == [True, False, True, False]


async def test_a_tree_that_cannot_be_read_today_fails_its_run_in_words(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GREETING", "hello, secret")
    world.settings["agent"] = {**llm("a"), "prompt": "${GREETING}"}
    world.plan("a", after(1000, say("too late")), turn=1)
    async with world.agent() as agent:
        with trio.move_on_after(10):
            await agent.start_conversation("first", key="k")
        log = await events(world.journal, (await agent.conversations()).conversations[0].id)
    assert "secret" not in repr(log)
    assert world.requests[-1].prompt == "hello, secret"
    monkeypatch.delenv("GREETING")
    world.settings["agent"] = llm("other")
    async with world.agent() as agent:
        turn = await agent.start_conversation("first", key="k")
        assert (answer(turn).state, answer(turn).code) == ("failed", "tree_unavailable")
        assert "GREETING" in answer(turn).response
        assert answer(await agent.send(turn.conversation.id, "next")).response == "other done"


def writers(*, exits: str = "refiner") -> dict[str, Any]:
    """The usual tree of writers (google/adk-docs#1403, adk-docs#1105)."""
    critic = {**llm("critic", output_key="remark"), "prompt": "criticize {doc}"}
    refiner = {**llm("refiner", output_key="doc"), "prompt": "refine {doc} by {remark}"}
    for node in (critic, refiner):
        node["can_exit_loop"] = node["name"] == exits
    loop = {"type": "loop", "name": "polish", "max_iterations": 3, "agents": [critic, refiner]}
    return sequential("root", llm("writer", output_key="doc"), loop)


async def test_leaving_a_loop_without_a_text_keeps_what_was_made(
    world: World, autojump_clock: MockClock
) -> None:
    tree = writers()
    world.settings["agent"] = {**tree, "agents": [*tree["agents"], {**llm("sender"), "prompt": "<{doc}>"}]}
    world.plan("writer", say("The cat."))
    world.plan("critic", say("Nothing to improve."))
    world.plan("refiner", use(call("exit_loop")))
    async with world.agent() as agent:
        turn = await agent.start_conversation("write")
        logged = await events(world.journal, turn.conversation.id)
    assert world.asked("sender")[0].prompt == "<The cat.>"
    written = [each.body["value"] for each in logged if each.type == "state.set"]
    assert written == ["The cat.", "Nothing to improve."]


async def test_answer_of_a_loop_is_what_the_node_that_left_it_was_content_with(
    world: World, autojump_clock: MockClock
) -> None:
    world.settings["agent"] = writers()
    world.plan("writer", say("The cat."))
    world.plan("critic", say("Nothing to improve."))
    world.plan("refiner", use(call("exit_loop")))
    async with world.agent() as agent:
        assert answer(await agent.start_conversation("write")).response == "The cat."


async def test_key_that_is_not_written_yet_is_empty_and_others_stay(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    first = {**llm("first"), "prompt": "[{later}][{later?}][{unknown}][{unknown?}]"}
    nodes = [first, llm("last", output_key="later")]
    world.settings["agent"] = {"type": "loop", "name": "l", "max_iterations": 2, "agents": nodes}
    world.plan("last", say("A"), say("B"))
    async with world.agent() as agent:
        await agent.start_conversation("go")
    assert [each.prompt for each in world.asked("first")] == [
        "[][][{unknown}][{unknown?}]",
        "[A][A][{unknown}][{unknown?}]",
    ]
    assert len([each for each in caplog.records if "no node has written yet" in each.message]) == 1


@pytest.mark.parametrize("exits_in", [1, 2])
async def test_answer_is_the_document_when_its_critic_leaves_the_loop(
    exits_in: int, world: World, autojump_clock: MockClock
) -> None:
    # An evaluator and its optimizer (docs.langchain.com, workflows and agents): the remark is no answer.
    writer = {**llm("writer", output_key="doc"), "prompt": "{remark?}"}
    critic = {**llm("critic", output_key="remark", can_exit_loop=True), "prompt": "{doc}"}
    world.settings["agent"] = {"type": "loop", "name": "l", "agents": [writer, critic]}
    remarks = [say("Longer."), use(call("exit_loop"))][2 - exits_in :]
    world.models["test:model"] = [each for remark in remarks for each in (say("The cat."), remark)]
    async with world.agent() as agent:
        assert answer(await agent.start_conversation("write")).response == "The cat."
    assert len(world.requests) == 2 * exits_in


@pytest.mark.parametrize(
    ("last", "before", "stored"),
    [
        ("", "Notes: 1.", "Notes: 1."),
        (" \n", "Notes: 1.", "Notes: 1."),
        ("All: 2.", "Notes: 1.", "All: 2."),
        ("", "", ""),
    ],
)
async def test_text_beside_calls_is_the_answer_when_the_last_reply_is_empty(
    last: str, before: str, stored: str, world: World, autojump_clock: MockClock
) -> None:
    # nornscode/norns#2, sipeed/picoclaw#2099, langchain-ai/langgraph-supervisor-py#106
    world.tool("remember", READ_ONLY)
    world.settings["agent"] = sequential(
        "root", llm("a", output_key="notes"), {**llm("b"), "prompt": "<{notes}>"}
    )
    world.plan("a", use(call("remember"), text=before), use(call("remember")), say(last))
    async with world.agent() as agent:
        await agent.start_conversation("go")
    assert world.asked("b")[0].prompt == f"<{stored}>"


async def test_text_beside_calls_does_not_replace_what_the_node_has_made(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("look", READ_ONLY)
    refiner = {**llm("refiner", output_key="doc"), "prompt": "{doc}"}
    world.settings["agent"] = sequential(
        "root", llm("writer", output_key="doc"), refiner, {**llm("b"), "prompt": "<{doc}>"}
    )
    world.plan("refiner", use(call("look"), text="I will look."), say(""))
    async with world.agent() as agent:
        await agent.start_conversation("go")
    assert world.asked("b")[0].prompt == "<writer done>"


@pytest.mark.parametrize("on_error", ["collect", "continue"])
async def test_values_made_before_a_failure_are_kept(
    on_error: str, world: World, autojump_clock: MockClock
) -> None:
    # anomalyco/opencode#37315, langchain-ai/deepagents#5952: what had been done was lost with what failed.
    branch = sequential(
        "branch", llm("find", output_key="found"), llm("sum", output_key="sum"), output_key="all"
    )
    if on_error == "collect":
        branch = parallel("fan", branch, llm("other", output_key="other"), on_error="collect")
    else:
        branch = {**sequential("outer", llm("other", output_key="other"), branch), "on_error": "continue"}
    world.settings["agent"] = sequential("root", branch, {**llm("end"), "prompt": "{found}|{other}|{all}"})
    world.plan("sum", ModelFailed("out of order"))
    async with world.agent() as agent:
        await agent.start_conversation("go")
    error = "Error in branch: out of order" if on_error == "collect" else ""
    assert world.asked("end")[0].prompt == f"find done|other done|{error}"
