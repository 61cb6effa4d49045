"""The clients of OpenAI's two APIs over a real socket: which one is asked, and what is asked again."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from stopgo.actors.models.messages.messages import ChatMessage, ModelReply, ToolMessage, UserMessage, unheard
from stopgo.actors.models.open_model import open_model
from stopgo.actors.models.providers.client import ModelClient
from stopgo.actors.models.providers.model import Model
from stopgo.actors.models.providers.openai_model import ResponsesModel
from stopgo.config.sections.models import ModelSpec
from tests.canary import KEY
from tests.providers.servers.responses import error, events_of

from .conftest import HELLO_OPENAI, Piece, Provider, events, failure, kept, opened, request, whole
from .test_responses_codec import ANSWER, CALL, THOUGHT, response

UNOPENED = "The encrypted content gAAA...pk== could not be verified."
# UKGovernmentBEIS/inspect_ai#5254, litellm#40123, alvinunreal/tmuxai#82
REFUSALS = [
    (400, "Function tools with reasoning_effort are not supported for gpt-6-astra in /v1/chat/completions."),
    (400, "This model takes tools together with reasoning_effort on /v1/responses only."),
    (404, "This model is only supported in v1/responses and not in v1/chat/completions."),
]
ADVICE = "; name the model under `models`, with `api: responses`"


@pytest.fixture(params=[True, False], ids=["stream", "whole"])
def streams(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def model(
    provider: Provider, client: ModelClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streams: bool
) -> Model:
    return opened(
        "openai", f"{provider.url}/v1", client, tmp_path, monkeypatch, api="responses", stream=streams
    )


def answered(streams: bool, *output: Any, **more: Any) -> list[Piece]:
    found = response(*output, **more)
    return events(*events_of(found)) if streams else whole(found)


def paths(provider: Provider) -> list[str]:
    return [head.split()[1].decode() for head in provider.heads]


async def called(model: Model, provider: Provider, streams: bool) -> tuple[ChatMessage, ...]:
    """A history with a call and its result."""
    provider.answers = [answered(streams, THOUGHT, CALL)]
    reply = await model.complete(request(), unheard)
    return (UserMessage("hi"), kept(reply), ToolMessage("call_A", "tank_level", "x"))


async def test_a_reply(model: Model, provider: Provider, streams: bool) -> None:
    provider.answers = [answered(streams, ANSWER)]
    assert (await model.complete(request(), unheard)).text == "Yes, 62 %."
    (head,) = provider.heads
    assert head.startswith(b"POST /v1/responses HTTP/1.1\r\n")
    assert f"authorization: bearer {KEY}".encode() in head.lower()
    assert (b"accept: text/event-stream" in head.lower()) == streams
    assert ("stream" in provider.bodies[0]) == streams


@pytest.mark.parametrize(
    "refusal",
    [
        (400, UNOPENED, "invalid_encrypted_content"),
        (
            400,
            "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item.",
            None,
        ),
        (404, "Item with id 'rs_1' not found.", None),
    ],
)
async def test_refused_reasoning_is_left_out_once(
    model: Model, provider: Provider, streams: bool, refusal: Any, caplog: pytest.LogCaptureFixture
) -> None:
    # codex#8119, QwenLM/qwen-code#11596: keys rotate, and Azure balances between resources.
    status, why, code = refusal
    history = await called(model, provider, streams)
    provider.answers = [whole(error(status, why, code), status), answered(streams, ANSWER)]
    assert (await model.complete(request(*history), unheard)).text == "Yes, 62 %."
    first, second = (body["input"] for body in provider.bodies[-2:])
    assert THOUGHT in first
    assert [item.get("type") for item in second[2:]] == ["function_call", "function_call_output"]
    assert not any("id" in item for item in second)
    assert [each.levelno for each in caplog.records] == [logging.WARNING]

    provider.answers = [whole(error(status, why, code), status)] * 2
    with pytest.raises(Exception, match="status 4"):
        await model.complete(request(*history), unheard)
    assert provider.answers == []


async def test_refusal_without_reasoning_in_the_request_is_final(model: Model, provider: Provider) -> None:
    provider.answers = [whole(error(400, UNOPENED, "invalid_encrypted_content"), 400)]
    assert (await failure(model)).status == 400
    assert len(provider.heads) == 1


async def test_other_refusals_are_final(model: Model, provider: Provider, streams: bool) -> None:
    history = await called(model, provider, streams)
    provider.answers = [whole(error(400, "Unknown parameter: 'x'."), 400)]
    with pytest.raises(Exception, match="Unknown parameter"):
        await model.complete(request(*history), unheard)


async def test_removed_reasoning_is_logged_once(
    model: Model, provider: Provider, streams: bool, caplog: pytest.LogCaptureFixture
) -> None:
    # "Preserved reasoning": the status is 200, and without this line nobody would know.
    change = {"id": "rs_1", "type": "reasoning", "action": "removed", "reason": "prefix_mismatch"}
    provider.answers = [answered(streams, ANSWER, input_transformations=[change, change]) for _ in range(2)]
    for _ in range(2):
        await model.complete(request(), unheard)
    (line,) = caplog.messages
    assert line.endswith("left reasoning of earlier replies out of a request: prefix_mismatch")


# ----------------------------------------------------------------- chat completions that refuse


@pytest.mark.parametrize(("status", "why"), REFUSALS)
async def test_refusal_of_chat_completions_names_the_setting(
    provider: Provider,
    client: ModelClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    why: str,
) -> None:
    provider.answers = [whole(error(status, why), status)]
    model = opened("openai", f"{provider.url}/v1", client, tmp_path, monkeypatch, api="chat")
    failed = await failure(model)
    assert str(failed) == f"m: {why} (status {status}){ADVICE}"
    assert not failed.retryable
    assert paths(provider) == ["/v1/chat/completions"]


@pytest.fixture
def undecided(
    provider: Provider, client: ModelClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Model:
    """At an address that is not OpenAI's, without `api`."""
    return opened("openai", f"{provider.url}/v1", client, tmp_path, monkeypatch)


@pytest.mark.parametrize(("status", "why"), REFUSALS)
async def test_server_that_refuses_is_asked_by_the_other_api_from_then_on(
    undecided: Model, provider: Provider, status: int, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    provider.answers = [whole(error(status, why), status), *[answered(True, ANSWER) for _ in range(2)]]
    for _ in range(2):
        assert (await undecided.complete(request(), unheard)).text == "Yes, 62 %."
    assert paths(provider) == ["/v1/chat/completions", "/v1/responses", "/v1/responses"]
    (line,) = caplog.messages
    assert "api: responses" in line


@pytest.mark.parametrize("status", [400, 404, 405])
async def test_server_without_the_other_api_is_reported_by_the_first_refusal(
    undecided: Model, provider: Provider, status: int
) -> None:
    refusal = whole(error(*REFUSALS[0]), 400)
    provider.answers = [refusal, whole({}, status), refusal, whole({}, status)]
    for _ in range(2):
        assert str(await failure(undecided)) == f"m: {REFUSALS[0][1]} (status 400){ADVICE}"


async def test_busy_server_is_retried_by_the_other_api(undecided: Model, provider: Provider) -> None:
    provider.answers = [whole(error(*REFUSALS[0]), 400), whole(error(429, "slow"), 429)]
    assert (await failure(undecided)).retryable


async def test_server_that_does_not_refuse_stays_with_chat_completions(
    undecided: Model, provider: Provider
) -> None:
    provider.answers = [events(*HELLO_OPENAI.events), whole(error(404, "no such model"), 404)]
    assert await undecided.complete(request(), unheard) == ModelReply("hello")
    assert str(await failure(undecided)) == "m: no such model (status 404)"
    assert paths(provider) == ["/v1/chat/completions"] * 2


MEMBERS: list[tuple[str, int, Any]] = [
    ("stream_options", 422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"]}]}),
    ("stream_options", 400, {"error": {"message": "property 'stream_options' is unsupported"}}),
    (
        "max_tokens",
        400,
        {
            "error": {
                "message": "Unsupported parameter: 'max_tokens' is not supported with this model. "
                "Use 'max_completion_tokens' instead."
            }
        },
    ),
]


@pytest.mark.parametrize(("member", "status", "body"), MEMBERS)
async def test_member_that_the_server_refuses_is_left_out_from_then_on(
    provider: Provider,
    client: ModelClient,
    tmp_path: Path,
    member: str,
    status: int,
    body: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    # earendil-works/pi#596, anomalyco/opencode#4698
    spec = ModelSpec("m", "openai_compatible", "qwen3", max_tokens=50, base_url=f"{provider.url}/v1")
    model = open_model(spec, folder=tmp_path, client=client)
    hello = events(*HELLO_OPENAI.events)
    provider.answers = [whole(body, status), hello, hello]
    for _ in range(2):
        assert await model.complete(request(), unheard) == ModelReply("hello")
    assert [member in sent for sent in provider.bodies] == [True, False, False]
    others = [{key: value for key, value in sent.items() if key != member} for sent in provider.bodies]
    assert others[0].items() <= others[1].items()
    assert len(caplog.messages) == 1


async def test_refusal_of_the_same_member_again_is_the_failure(
    provider: Provider, client: ModelClient, tmp_path: Path
) -> None:
    spec = ModelSpec("m", "openai_compatible", "qwen3", base_url=f"{provider.url}/v1")
    model = open_model(spec, folder=tmp_path, client=client)
    refusal = whole({"error": {"message": "property 'stream_options' is unsupported"}}, 400)
    provider.answers = [refusal, refusal]
    assert (await failure(model)).status == 400
    assert provider.answers == []


@pytest.mark.parametrize("provider_name", ["openai_compatible", "openrouter", "ollama"])
async def test_api_may_be_chosen_for_a_compatible_server(
    provider: Provider,
    client: ModelClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    provider_name: Any,
) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    provider.answers = [answered(True, ANSWER)]
    spec = ModelSpec("m", provider_name, "qwen3", api="responses", base_url=f"{provider.url}/v1")
    model = open_model(spec, folder=tmp_path, client=client)
    assert (await model.complete(request(), unheard)).text == "Yes, 62 %."
    assert paths(provider) == ["/v1/responses"]
    assert "include" not in provider.bodies[0]
    assert provider.bodies[0]["instructions"] == "Be brief."


@pytest.mark.parametrize(("host", "stores"), [("api.groq.com", False), ("api.x.ai", True)])
async def test_groq_is_not_sent_store(
    client: ModelClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, stores: bool
) -> None:
    # console.groq.com/docs/responses-api: it refuses members that it does not know.
    spec = ModelSpec("m", "openai_compatible", "qwen3", api="responses", base_url=f"https://{host}/v1")
    model = open_model(spec, folder=tmp_path, client=client)
    assert isinstance(model, ResponsesModel)
    assert ("store" in model.codec.body(request())) == stores


async def test_organization_of_the_agent_file_is_part_of_the_origin(
    client: ModelClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # "Preserved reasoning": another organization cannot open it.
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    origins = set()
    for headers in ({}, {"OpenAI-Organization": "org-1"}, {"openai-organization": "org-2"}, {"x-team": "a"}):
        spec = ModelSpec("m", "openai", "gpt-6-luna", api="responses", headers=headers)
        model = open_model(spec, folder=tmp_path, client=client)
        assert isinstance(model, ResponsesModel)
        origins.add(model.codec.origin)
    assert len(origins) == 3
