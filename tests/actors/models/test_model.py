from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import attrs
import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.models.messages.messages import (
    AskModel,
    Emit,
    ModelFailed,
    ModelReply,
    ModelRequest,
    ToolMessage,
    Usage,
)
from stopgo.actors.models.providers.model import Model, model_actor
from stopgo.actors.tools.pictures import Picture
from stopgo.runtime.event_bus import EventBus
from stopgo.runtime.ref import ActorRef
from stopgo.runtime.restart import Backoff
from stopgo.runtime.supervision import open_supervisor

REQUEST = ModelRequest(system="", messages=(), tools=(), user="hello", node="main", turn=1, call=1)
Step: TypeAlias = Callable[[], Awaitable[ModelReply]]
FIXED = Backoff(first=1.0, factor=3.0, limit=100.0, jitter=0.0)


class Scripted:
    """A model that follows a list of steps and records its requests."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.asked: list[tuple[float, ModelRequest]] = []

    async def complete(self, request: ModelRequest, emit: Emit) -> ModelReply:
        self.asked.append((trio.current_time(), request))
        return await self.steps.pop(0)()


def fails(error: Exception) -> Step:
    async def step() -> ModelReply:
        raise error

    return step


def answers(text: str, after: float = 0.0) -> Step:
    async def step() -> ModelReply:
        await trio.sleep(after)
        return ModelReply(text)

    return step


async def ask(
    model: Model, *, timeout: float = 60.0, backoff: Backoff = FIXED, request: ModelRequest = REQUEST
) -> ModelReply:
    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("model", model_actor(model, timeout=timeout, backoff=backoff))
        return await ref.ask(AskModel(request))


def overloaded() -> ModelFailed:
    return ModelFailed.from_status("overloaded", 529)


@pytest.mark.parametrize(
    ("status", "retryable"),
    [
        (400, False),
        (401, False),
        (403, False),
        (404, False),
        (408, True),
        (409, True),
        (413, False),
        (422, False),
        (429, True),
        (500, True),
        (529, True),
        (599, True),
    ],
)
def test_retryable_statuses(status: int, retryable: bool) -> None:
    failure = ModelFailed.from_status("no", status)
    assert failure.retryable is retryable
    assert failure.status == status
    assert str(failure) == f"no (status {status})"


async def test_answers(autojump_clock: MockClock) -> None:
    assert await ask(Scripted(answers("hi"))) == ModelReply("hi")


async def test_retryable_failures_are_retried_with_backoff(autojump_clock: MockClock) -> None:
    model = Scripted(fails(overloaded()), fails(ExceptionGroup("", [overloaded()])), answers("at last"))
    assert await ask(model) == ModelReply("at last")
    assert [request.attempt for _, request in model.asked] == [1, 2, 3]
    times = [at for at, _ in model.asked]
    assert [later - earlier for earlier, later in itertools.pairwise(times)] == [1.0, 3.0]


@pytest.mark.parametrize(
    ("error", "timeout", "attempts"),
    [
        (overloaded(), 60, 3),
        (overloaded(), 2, 2),  # the next delay would end after the deadline
        (ModelFailed.from_status("no such model", 404), 60, 1),
    ],
)
async def test_failed_call_ends_after_its_last_attempt(
    autojump_clock: MockClock, error: ModelFailed, timeout: float, attempts: int
) -> None:
    model = Scripted(*[fails(error)] * attempts, answers("never"))
    with pytest.raises(ModelFailed, match=f"^{re.escape(str(error))}$"):
        await ask(model, timeout=timeout)
    assert len(model.asked) == attempts


def empty() -> ModelFailed:
    return ModelFailed("the answer is empty", empty=True, usage=Usage(3))


async def test_empty_answer_is_asked_for_once_more(autojump_clock: MockClock) -> None:
    model = Scripted(fails(empty()), answers("at last"))
    assert await ask(model) == ModelReply("at last", usage=Usage(3))
    model = Scripted(fails(empty()), fails(empty()), answers("never"))
    with pytest.raises(ModelFailed, match=r"^the answer is empty; it was asked for twice$") as failed:
        await ask(model)
    assert (failed.value.code, failed.value.usage) == ("model_error", Usage(6))
    assert len(model.asked) == 2


async def test_empty_answer_and_other_failures_are_counted_apart(autojump_clock: MockClock) -> None:
    model = Scripted(fails(overloaded()), fails(overloaded()), fails(empty()), answers("at last"))
    assert (await ask(model)).text == "at last"
    model = Scripted(fails(empty()), fails(overloaded()), fails(empty()), answers("never"))
    with pytest.raises(ModelFailed, match="asked for twice"):
        await ask(model)


def busy(retry_after: float | None = None) -> ModelFailed:
    return ModelFailed.from_status("slow down", 429, retry_after)


async def test_busy_provider_is_retried_until_the_deadline(autojump_clock: MockClock) -> None:
    steady = Backoff(first=1.0, factor=1.0, limit=1.0, jitter=0.0)
    model = Scripted(*[fails(busy()) for _ in range(20)], answers("at last"))
    assert await ask(model, backoff=steady) == ModelReply("at last")
    assert len(model.asked) == 21
    model = Scripted(*[fails(busy()) for _ in range(20)])
    with pytest.raises(ModelFailed, match=r"^slow down \(status 429\)$"):
        await ask(model, backoff=steady, timeout=10)
    assert len(model.asked) == 10


async def test_requested_delay_is_kept(autojump_clock: MockClock) -> None:
    model = Scripted(fails(busy(30.0)), fails(busy(0.2)), answers("at last"))
    assert await ask(model) == ModelReply("at last")
    times = [at for at, _ in model.asked]
    assert [later - earlier for earlier, later in itertools.pairwise(times)] == [30.0, 3.0]


@pytest.mark.parametrize(("seconds", "timeout"), [(3600.0, 60.0), (30.5, 60.0), (20.0, 15.0)])
async def test_too_long_delay_fails_with_its_length(
    autojump_clock: MockClock, seconds: float, timeout: float
) -> None:
    began = trio.current_time()
    model = Scripted(fails(busy(seconds)))
    with pytest.raises(ModelFailed) as failed:
        await ask(model, timeout=timeout)
    assert str(failed.value) == f"slow down (status 429); it asks to wait {seconds:g} s"
    assert (failed.value.status, failed.value.retryable) == (429, False)
    assert trio.current_time() == began


def billed(tokens: int, *, retryable: bool = True) -> ModelFailed:
    return ModelFailed("cut off", retryable=retryable, usage=Usage(tokens, 1, 2, 3))


async def test_usage_includes_failed_attempts(autojump_clock: MockClock) -> None:
    async def answer() -> ModelReply:
        return ModelReply("hi", usage=Usage(100, 10))

    reply = await ask(Scripted(fails(billed(5)), fails(billed(7)), answer))
    assert reply.usage == Usage(112, 12, 4, 6)


@pytest.mark.parametrize(
    "end",
    [
        fails(billed(7, retryable=False)),
        answers("too late", after=100),
        fails(KeyError("bug")),
        fails(ModelFailed("no")),
    ],
)
async def test_failed_call_has_its_usage(autojump_clock: MockClock, end: Step) -> None:
    model = Scripted(fails(billed(5)), end)
    with pytest.raises(ModelFailed) as failed:
        await ask(model)
    expected = Usage(12, 2, 4, 6) if "cut off" in str(failed.value) else Usage(5, 1, 2, 3)
    assert failed.value.usage == expected


async def overloaded_later() -> ModelReply:
    await trio.sleep(5)
    raise overloaded()


@pytest.mark.parametrize(
    ("steps", "timeout"),
    [([answers("too late", after=61)], 60), ([overloaded_later, overloaded_later, answers("never")], 10)],
)
async def test_deadline_covers_all_attempts(
    autojump_clock: MockClock, steps: list[Step], timeout: float
) -> None:
    began = trio.current_time()
    with pytest.raises(ModelFailed, match=f"^the model did not answer within {timeout} s$"):
        await ask(Scripted(*steps), timeout=timeout)
    assert trio.current_time() - began == pytest.approx(timeout)


async def test_bug_of_a_model_fails_only_its_call(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    model = Scripted(fails(KeyError("secret")), answers("next"))
    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("model", model_actor(model))
        with caplog.at_level(logging.ERROR), pytest.raises(ModelFailed) as failed:
            await ref.ask(AskModel(REQUEST))
        assert await ref.ask(AskModel(REQUEST)) == ModelReply("next")
    (record,) = caplog.records
    assert "secret" not in str(failed.value)
    assert str(failed.value).split()[-1] in record.getMessage()
    assert record.exc_info is not None


async def test_timeout_raised_by_a_model_is_a_bug(autojump_clock: MockClock) -> None:
    with pytest.raises(ModelFailed, match="failed unexpectedly"):
        await ask(Scripted(fails(trio.TooSlowError())))


@pytest.mark.repeat(20)
async def test_exception_while_cancelling_is_no_crash(autojump_clock: MockClock) -> None:
    async def breaks_when_cancelled() -> ModelReply:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise RuntimeError("connection already closed")
        raise AssertionError

    with pytest.raises(ModelFailed, match="failed unexpectedly"):
        await ask(Scripted(breaks_when_cancelled))


@pytest.mark.repeat(20)
async def test_calls_run_concurrently_up_to_the_limit(autojump_clock: MockClock) -> None:
    class Counting:
        running = 0
        most = 0

        async def complete(self, request: ModelRequest, emit: Emit) -> ModelReply:
            self.running += 1
            self.most = max(self.most, self.running)
            await trio.sleep(1)
            self.running -= 1
            return ModelReply(request.user)

    model = Counting()
    replies: list[str] = []

    async def one(ref: ActorRef[AskModel], number: int) -> None:
        reply = await ref.ask(AskModel(ModelRequest("", (), (), f"{number}", "main", 1, 1)))
        replies.append(reply.text)

    began = trio.current_time()
    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("model", model_actor(model, max_concurrency=4))
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(one, ref, number)
    assert model.most == 4
    assert sorted(replies) == sorted(str(number) for number in range(10))
    assert trio.current_time() - began == pytest.approx(3)


async def test_cancelled_caller_cancels_its_call(autojump_clock: MockClock) -> None:
    left = trio.Event()

    async def waits() -> ModelReply:
        try:
            await trio.sleep_forever()
        finally:
            left.set()
        raise AssertionError

    async with open_supervisor(EventBus()) as supervisor:
        ref = await supervisor.start("model", model_actor(Scripted(waits, answers("next"))))
        with trio.move_on_after(5):
            await ref.ask(AskModel(REQUEST))
        await left.wait()
        assert await ref.ask(AskModel(REQUEST)) == ModelReply("next")


PICTURED = attrs.evolve(
    REQUEST, messages=(ToolMessage("1", "shot", "[image]", pictures=(Picture("image/png", "iVBO"),)),)
)


@pytest.mark.parametrize(
    ("status", "text"),
    [
        *((status, "no") for status in (400, 404, 413, 415, 422)),
        # ggml-org/llama.cpp#13566, #12947; ollama/ollama, server/prompt.go.
        (500, "image input is not supported by this server"),
        (500, 'Failed to parse messages: Unsupported content part type: "image_url"'),
        (500, "this model is missing data required for image input"),
    ],
)
async def test_request_with_pictures_that_is_refused_is_tried_once_without_them(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, status: int, text: str
) -> None:
    """OpenRouter answers 404 "No endpoints found that support image input", others 400 or 422."""
    model = Scripted(fails(ModelFailed.from_status(text, status)), answers("ok"))
    assert (await ask(model, request=PICTURED)).text == "ok"
    assert [request.has_pictures for _, request in model.asked] == [True, False]
    assert "images: false" in caplog.text


@pytest.mark.parametrize(("request_", "status"), [(REQUEST, 400), (PICTURED, 401)])
async def test_other_refusals_are_failures(
    autojump_clock: MockClock, request_: ModelRequest, status: int
) -> None:
    model = Scripted(fails(ModelFailed.from_status("no", status)), answers("ok"))
    with pytest.raises(ModelFailed, match="no"):
        await ask(model, request=request_)
    assert len(model.asked) == 1


async def test_other_error_of_the_server_is_retried_with_the_pictures(autojump_clock: MockClock) -> None:
    model = Scripted(fails(ModelFailed.from_status("out of memory", 500)), answers("ok"))
    await ask(model, request=PICTURED)
    assert [request.has_pictures for _, request in model.asked] == [True, True]
