"""Bedrock over a real socket: addresses, signatures by botocore, frames and errors.

Right values: the API reference of Bedrock, its guide "Inference using Anthropic Messages API", and "Create a
signed AWS API request" in the guide of IAM.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import sys
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
import trio

from stopgo.actors.models.messages.errors import UnacceptedSetting
from stopgo.actors.models.messages.messages import (
    AssistantMessage,
    ModelFailed,
    ToolCall,
    ToolMessage,
    UserMessage,
    Verbatim,
    unheard,
)
from stopgo.actors.models.open_model import check_model, open_model
from stopgo.actors.models.providers.aws_login import AwsLogin
from stopgo.actors.models.providers.client import ModelClient
from stopgo.actors.models.providers.endpoints import (
    MissingBaseUrl,
    MissingLibrary,
    aws_region,
    endpoint,
)
from stopgo.actors.models.providers.http_model import HttpModel
from stopgo.actors.models.providers.model import Model
from stopgo.config.sections.models import ModelSpec
from tests.canary import KEY
from tests.providers.servers.bedrock import event, exception, frame

from .conftest import HELLO_ANTHROPIC, Piece, Provider, events, failure, head, request, whole

CLAUDE = "anthropic.claude-opus-4-8"
OLDER = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
NOVA = "amazon.nova-pro-v1:0"
ARN = "arn:aws:bedrock:eu-west-1:123:application-inference-profile/p1"
OF_CLAUDE = "arn:aws:bedrock:eu-west-1:123:inference-profile/eu.anthropic.claude-opus-4-8"
HELLO_CONVERSE = {
    "output": {"message": {"role": "assistant", "content": [{"text": "hello"}]}},
    "stopReason": "end_turn",
}
Make = Callable[..., Model]


def framed(*frames: bytes) -> list[Piece]:
    data = b"".join(frames)
    return [head(type="application/vnd.amazon.eventstream", content_length=len(data)) + data]


def chunks(bodies: Sequence[Any]) -> list[bytes]:
    return [event("chunk", {"bytes": b64encode(json.dumps(body).encode()).decode()}) for body in bodies]


SAID_INVOKE = framed(*chunks(HELLO_ANTHROPIC.events))
SAID_CONVERSE = framed(
    event("messageStart", {"role": "assistant"}),
    event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "hel"}}),
    event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "lo"}}),
    event("messageStop", {"stopReason": "end_turn"}),
    event("metadata", {"usage": {"inputTokens": 3, "cacheReadInputTokens": 2, "outputTokens": 1}}),
)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "REGION",
        "DEFAULT_REGION",
        "PROFILE",
        "BEARER_TOKEN_BEDROCK",
        "ENDPOINT_URL_BEDROCK_RUNTIME",
    ):
        monkeypatch.delenv(f"AWS_{name}", raising=False)


@pytest.fixture
def make(provider: Provider, client: ModelClient, tmp_path: Path) -> Make:
    def made(model: str = NOVA, **more: Any) -> Model:
        more = {"api_key": KEY, "base_url": provider.url, **more}
        return open_model(ModelSpec("m", "bedrock", model, **more), folder=tmp_path, client=client)

    return made


@pytest.mark.parametrize(
    ("model", "stream", "target", "said"),
    [
        (CLAUDE, True, "/anthropic/v1/messages", events(*HELLO_ANTHROPIC.events)),
        (CLAUDE, False, "/anthropic/v1/messages", whole(HELLO_ANTHROPIC.whole)),
        (OLDER, True, f"/model/{quote(OLDER)}/invoke-with-response-stream", SAID_INVOKE),
        (OLDER, False, f"/model/{quote(OLDER)}/invoke", whole(HELLO_ANTHROPIC.whole)),
        (OF_CLAUDE, True, f"/model/{quote(OF_CLAUDE, safe='')}/invoke-with-response-stream", SAID_INVOKE),
        (NOVA, True, f"/model/{quote(NOVA)}/converse-stream", SAID_CONVERSE),
        (NOVA, False, f"/model/{quote(NOVA)}/converse", whole(HELLO_CONVERSE)),
        (ARN, True, f"/model/{quote(ARN, safe='')}/converse-stream", SAID_CONVERSE),
    ],
)
async def test_the_model_decides_the_api(
    make: Make, provider: Provider, model: str, stream: bool, target: str, said: list[Piece]
) -> None:
    provider.answers = [said]
    assert (await make(model, stream=stream).complete(request(), unheard)).text == "hello"
    (sent,) = provider.heads
    assert sent.startswith(f"POST {target} HTTP/1.1\r\n".encode())
    assert f"\r\nauthorization: Bearer {KEY}\r\n".encode() in sent
    assert not any(name in sent.lower() for name in (b"x-amz-", b"x-api-key"))
    assert (b"anthropic-version: " in sent) == (model == CLAUDE)
    (body,) = provider.bodies
    assert ("model" in body, "stream" in body) == (model == CLAUDE, model == CLAUDE and stream)
    assert body.get("anthropic_version") == ("bedrock-2023-05-31" if "invoke" in target else None)


async def test_temperature_is_accepted_for_older_claude_only(make: Make, provider: Provider) -> None:
    provider.answers = [SAID_INVOKE]
    await make(OLDER, temperature=0.5).complete(request(), unheard)
    assert provider.bodies[0]["temperature"] == 0.5
    for model in (CLAUDE, OF_CLAUDE):
        with pytest.raises(UnacceptedSetting, match=r"up to 4\.6 only"):
            make(model, temperature=0.5)


@pytest.mark.parametrize(
    ("model", "origin"), [(CLAUDE, "bedrock claude"), (OLDER, "bedrock claude"), (NOVA, "bedrock converse")]
)
async def test_thoughts_of_other_services_are_not_sent(
    make: Make, provider: Provider, model: str, origin: str
) -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s1"}
    asked = {"type": "tool_use", "id": "1", "name": "add", "input": {}}
    block = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s1"}}}
    said = {CLAUDE: events(*HELLO_ANTHROPIC.events), OLDER: SAID_INVOKE}.get(model, SAID_CONVERSE)
    for each in ("anthropic", "vertex claude", "bedrock claude", "bedrock converse"):
        verbatim = Verbatim(each, [block] if each == "bedrock converse" else [thought, asked])
        past = AssistantMessage("ok", (ToolCall("1", "add", {}),), verbatim)
        provider.answers = [said]
        await make(model).complete(request(UserMessage("a"), past, ToolMessage("1", "add", "2")), unheard)
        assert ("s1" in json.dumps(provider.bodies[-1])) == (each == origin)


@pytest.mark.parametrize(
    ("frames", "status", "retryable"),
    [
        ([exception("throttlingException", "Too many requests")], 429, True),
        ([exception("modelStreamErrorException", "Too many requests")], 424, True),
        ([exception("validationException", "Too many requests")], 400, False),
        ([exception("aNewException", "Too many requests")], None, True),
        ([frame(b"", message_type="error", error_code="X", error_message="Too many requests")], None, True),
    ],
)
@pytest.mark.parametrize("model", [OLDER, NOVA])
async def test_exception_in_a_stream_is_an_error(
    make: Make, provider: Provider, model: str, frames: list[bytes], status: int | None, retryable: bool
) -> None:
    begun = chunks(HELLO_ANTHROPIC.begun) if model == OLDER else [event("messageStart", {})]
    provider.answers = [framed(*begun, *frames)]
    failed = await failure(make(model))
    assert "Too many requests" in str(failed)
    assert (failed.status, failed.retryable) == (status, retryable)


@pytest.mark.parametrize("model", [OLDER, NOVA])
async def test_damaged_frame_and_early_end_are_retryable(make: Make, provider: Provider, model: str) -> None:
    begun = chunks(HELLO_ANTHROPIC.begun)
    if model == NOVA:
        begun = [event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "hi"}})]
    damaged = begun[-1][:-1] + bytes([begun[-1][-1] ^ 1])
    provider.answers = [framed(*begun[:-1], damaged), framed(*begun), framed(*begun[:-1], begun[-1][:-3])]
    for sentence in ("damaged", "ended before", "ended before"):
        failed = await failure(make(model))
        assert sentence in str(failed)
        assert failed.retryable


@pytest.mark.parametrize(
    ("status", "kind", "body", "retryable", "sentence"),
    [
        (429, "ThrottlingException:http://x/", {"message": "Too many requests"}, True, "Too many requests"),
        (429, "ThrottlingException", {"message": "Too many tokens per day"}, False, "per day"),
        (424, "ModelErrorException", {"message": "It failed"}, True, "It failed"),
        (400, "ServiceQuotaExceededException", {"message": "Quota"}, False, "Quota"),
        (400, "ValidationException:", {"message": "on-demand throughput"}, False, "on-demand throughput"),
        (403, "AccessDeniedException", {"Message": "Not authorized"}, False, r"Not authorized.*permissions"),
        (403, "InvalidSignatureException", {"message": "Signature expired"}, False, "check the clock"),
        (403, "ExpiredTokenException", {"message": "Expired"}, False, "log in to AWS again"),
    ],
)
async def test_error_is_told_with_what_to_do(
    make: Make, provider: Provider, status: int, kind: str, body: Any, retryable: bool, sentence: str
) -> None:
    provider.answers = [whole(body, status, x_amzn_errortype=kind)]
    failed = await failure(make())
    assert re.search(sentence, str(failed))
    assert (failed.status, failed.retryable) == (status, retryable)


# ----------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    ("url", "region"),
    [
        ("https://bedrock-runtime.eu-west-1.amazonaws.com", "eu-west-1"),
        ("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("https://bedrock-mantle.eu-central-1.api.aws", "eu-central-1"),
        ("https://vpce-1.bedrock-runtime.eu-north-1.vpce.amazonaws.com", "eu-north-1"),
        ("https://proxy.example/bedrock-runtime.x.y", "us-east-1"),
    ],
)
def test_region_is_in_the_address_or_in_the_environment(url: str, region: str) -> None:
    spec = ModelSpec("m", "bedrock", NOVA, api_key=KEY)
    assert aws_region(spec, url, {"AWS_DEFAULT_REGION": "us-east-1"}) == region
    assert aws_region(spec, "", {"AWS_REGION": region, "AWS_DEFAULT_REGION": "us-east-1"}) == region
    assert (
        endpoint(spec, {"AWS_REGION": region}).base_url == f"https://bedrock-runtime.{region}.amazonaws.com"
    )


async def test_region_and_library_are_needed(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "botocore", None)
    with pytest.raises(MissingBaseUrl, match=r"AWS_REGION$"):
        check_model(ModelSpec("m", "bedrock", NOVA, api_key=KEY), folder=tmp_path)
    with pytest.raises(MissingLibrary, match=r"AWS_BEARER_TOKEN_BEDROCK, .*agent-stop-and-go\[bedrock\]'$"):
        make(api_key=None)


async def test_region_of_the_profile_comes_last(
    make: Make, accounts: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """botocore, `configprovider.py`: it reads AWS_DEFAULT_REGION and the profile, but not AWS_REGION."""
    model = make(base_url=None)
    assert isinstance(model, HttpModel)
    assert model.url.host == "bedrock-runtime.eu-west-1.amazonaws.com"
    monkeypatch.delenv("AWS_REGION")
    model = make(base_url=None, api_key=None)
    assert isinstance(model, HttpModel)
    assert model.url.host == "bedrock-runtime.eu-north-1.amazonaws.com"
    assert model.login is not None
    headers = await model.login.headers(model.url, b"")
    assert "/eu-north-1/bedrock/aws4_request" in headers["authorization"]
    for profile, sentence in (("empty", "AWS_REGION$"), ("gone", "profile \\(gone\\) could not be found")):
        monkeypatch.setenv("AWS_PROFILE", profile)
        with pytest.raises(MissingBaseUrl, match=sentence):
            make(base_url=None)


# ----------------------------------------------------------------- signatures


SECRET, TOKEN = "s3cret4aws9XyZ", "t0ken4aws9XyZ"


def signature(url: str, headers: Mapping[str, str], body: bytes, scope: str) -> str:
    """The value of `Authorization` for a request with these headers, which are all signed."""
    names = ";".join(sorted(headers))
    listed = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    path = quote(httpx2.URL(url).raw_path.decode(), safe="/-_.~")
    canonical = "\n".join(["POST", path, "", listed, names, hashlib.sha256(body).hexdigest()])
    hashed = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], scope, hashed])
    key = f"AWS4{SECRET}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return f"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/{scope}, SignedHeaders={names}, Signature={key.hex()}"


def test_signature_of_the_tests_is_that_of_botocore() -> None:
    """From botocore 1.44.8."""
    headers = {
        "content-type": "application/json",
        "host": "bedrock-runtime.eu-west-1.amazonaws.com",
        "x-amz-date": "20261128T120000Z",
    }
    url = f"https://{headers['host']}/model/eu.anthropic.claude-sonnet-5-v1%3A0/invoke-with-response-stream"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[__name__], "SECRET", "secret")
        found = signature(url, headers, b'{"a":1}', "20261128/eu-west-1/bedrock/aws4_request")
    assert found.endswith("=2b059d65a679e522a1bb01f3767ea3d44f1c898c86de7b42f43f43d31e24be4b")


@pytest.fixture
def accounts(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The credentials that `botocore` finds, which are none if the list is empty.

    It stands in for the library, which is not among the dependencies of the tests. Its interface:
    https://botocore.amazonaws.com/v1/documentation/api/latest/reference/awsrequest.html and `auth.py`.
    """

    class Session:
        def get_credentials(self) -> Any:
            return found[0] if found else None

        def get_config_variable(self, name: str) -> str | None:
            profile = os.environ.get("AWS_PROFILE", "default")
            if profile == "gone":
                raise LookupError("The config profile (gone) could not be found")
            return {("default", "region"): "eu-north-1"}.get((profile, name))

    class AWSRequest:
        def __init__(self, method: str, url: str, *, data: bytes, headers: dict[str, str]) -> None:
            self.url, self.data, self.headers = url, data, headers

    class SigV4Auth:
        def __init__(self, credentials: Any, service: str, region: str) -> None:
            self.token = credentials.token
            self.scope = f"20261128/{region}/{service}/aws4_request"

        def add_auth(self, request: AWSRequest) -> None:
            request.headers |= {"X-Amz-Date": "20261128T120000Z", "X-Amz-Security-Token": self.token}
            signed = {name.lower(): value for name, value in request.headers.items()}
            signed["host"] = httpx2.URL(request.url).netloc.decode()
            request.headers["Authorization"] = signature(request.url, signed, request.data, self.scope)

    frozen = SimpleNamespace(secret_key=SECRET, token=TOKEN)
    found: list[Any] = [SimpleNamespace(get_frozen_credentials=lambda: frozen)]
    package = ModuleType("botocore")
    package.__path__ = []
    package.__spec__ = SimpleNamespace()  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "botocore", package)
    for each in (Session, AWSRequest, SigV4Auth):
        name = {"Session": "session", "AWSRequest": "awsrequest", "SigV4Auth": "auth"}[each.__name__]
        module = ModuleType(f"botocore.{name}")
        setattr(module, each.__name__, each)
        monkeypatch.setitem(sys.modules, f"botocore.{name}", module)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    return found


@pytest.mark.parametrize("model", [CLAUDE, OLDER, NOVA, ARN])
async def test_request_without_a_key_is_signed_as_it_is_sent(
    make: Make, provider: Provider, model: str, accounts: list[Any]
) -> None:
    said = {CLAUDE: events(*HELLO_ANTHROPIC.events), OLDER: SAID_INVOKE}.get(model, SAID_CONVERSE)
    provider.answers = [said]
    await make(model, api_key=None).complete(request(), unheard)
    (sent,), (raw,) = provider.heads, provider.raw
    line, *lines = sent.decode().split("\r\n")
    given = {name.lower(): value.strip() for name, value in (each.split(":", 1) for each in lines)}
    # A proxy may change other headers.
    names = ("content-type", "host", "x-amz-date", "x-amz-security-token")
    signed = {name: given[name] for name in names}
    url = provider.url + line.split(" ")[1]
    scope = "20261128/eu-west-1/bedrock/aws4_request"
    assert given["authorization"] == signature(url, signed, raw, scope)
    assert given["x-amz-security-token"] == TOKEN


@pytest.mark.parametrize(
    ("base_url", "scope"),
    [
        ("https://bedrock-mantle.us-east-1.api.aws", "us-east-1/bedrock-mantle"),
        ("https://bedrock-runtime.us-east-1.amazonaws.com", "us-east-1/bedrock"),
        ("http://proxy.example", "eu-west-1/bedrock"),
    ],
)
async def test_service_and_region_follow_the_address(
    base_url: str, scope: str, make: Make, accounts: list[Any]
) -> None:
    model = make(api_key=None, base_url=base_url)
    assert isinstance(model, HttpModel)
    assert model.login is not None
    headers = await model.login.headers(model.url, b"")
    assert f"/{scope}/aws4_request" in headers["authorization"]


async def test_no_error_shows_the_credentials(make: Make, provider: Provider, accounts: list[Any]) -> None:
    provider.answers = [whole({"message": f"wrong: {TOKEN} {SECRET}"}, 403)]
    assert not {TOKEN, SECRET} & set(str(await failure(make(api_key=None))).split())


async def test_missing_credentials_are_told(make: Make, provider: Provider, accounts: list[Any]) -> None:
    accounts.clear()
    failed = await failure(make(api_key=None))
    assert "no credentials of AWS: there are none" in str(failed)
    assert (failed.retryable, provider.heads) == (False, [])


async def test_calls_that_wait_share_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def refuse(login: AwsLogin, url: str, body: bytes) -> Any:
        asked.append(url)
        raise OSError("the metadata server is silent")

    monkeypatch.setattr(AwsLogin, "_signed", refuse)
    login = AwsLogin("bedrock", "eu-west-1")
    told: list[str] = []

    async def one() -> None:
        with pytest.raises(ModelFailed) as failed:
            await login.headers(httpx2.URL("https://x"), b"")
        told.append(str(failed.value))

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(one)
    assert told == ["no credentials of AWS: the metadata server is silent"] * 10
    assert len(asked) == 1
