"""The way to a provider: TLS, and the proxies of the environment."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from stopgo.actors.models.messages.errors import ModelUnusable
from stopgo.actors.models.messages.messages import unheard
from stopgo.actors.models.providers.client import ModelClient
from tests.authority import Authority

from .conftest import HELLO_OPENAI, Hello, Provider, failure, opened, request, whole


@pytest.fixture
async def secure(nursery: trio.Nursery, tmp_path: Path) -> Provider:
    """Over TLS, with a certificate for localhost."""
    context = Authority(tmp_path).server("localhost")
    (plain,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    found = Provider(f"https://localhost:{plain.socket.getsockname()[1]}")
    nursery.start_soon(trio.serve_listeners, found.serve, [trio.SSLListener(plain, context)])
    return found


async def test_certificate_is_accepted_if_its_authority_is_trusted(
    secure: Provider, client: ModelClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hello: Hello
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    secure.answers = [whole(hello.whole), whole(hello.whole)]
    model = opened(hello.kind, secure.url, client, tmp_path, monkeypatch)
    for _ in range(2):
        assert (await model.complete(request(), unheard)).text == "hello"
    assert secure.connections == 1


async def test_other_failures_are_not_retried(
    secure: Provider, client: ModelClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hello: Hello
) -> None:
    failed = await failure(opened(hello.kind, secure.url, client, tmp_path, monkeypatch))
    assert str(failed).startswith("m: the provider cannot be reached: its certificate is not trusted: ")
    assert not failed.retryable
    assert secure.heads == []


async def test_certificate_of_another_host_is_refused(
    secure: Provider, client: ModelClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hello: Hello
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    url = secure.url.replace("localhost", "127.0.0.1")
    failed = await failure(opened(hello.kind, url, client, tmp_path, monkeypatch))
    assert "its certificate is not trusted: IP address mismatch" in str(failed)
    assert (failed.retryable, secure.heads) == (False, [])


async def test_unreadable_certificate_file_fails_with_its_name(
    provider: Provider, client: ModelClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "absent.pem"))
    failed = await failure(opened("openai", provider.url, client, tmp_path, monkeypatch))
    text = "the certificates of SSL_CERT_FILE cannot be read: no such file or directory"
    assert (str(failed), failed.retryable) == (f"m: {text}", False)
    with pytest.raises(ModelUnusable, match=f"^{text}$"):
        opened("anthropic", provider.url, client, tmp_path, monkeypatch)


async def test_invalid_proxy_address_fails_with_its_variable(
    provider: Provider, client: ModelClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "carrier-pigeon://coop")
    provider.answers = [whole(HELLO_OPENAI.whole)]
    here = opened("openai", provider.url, client, tmp_path, monkeypatch)
    assert (await here.complete(request(), unheard)).text == "hello"
    failed = await failure(opened("openai", "https://m.test/v1", client, tmp_path, monkeypatch))
    assert str(failed) == (
        "m: a proxy in the environment has no valid address (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY)"
    )
    assert not failed.retryable


async def test_proxies_of_the_environment_are_used(
    provider: Provider, client: ModelClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider of the test stands in for the proxy: it is asked for an address that is not its own."""
    monkeypatch.setenv("http_proxy", provider.url)
    provider.answers = [whole(HELLO_OPENAI.whole)]
    model = opened("openai", "http://provider.test/v1", client, tmp_path, monkeypatch)
    assert (await model.complete(request(), unheard)).text == "hello"
    assert provider.heads[0].startswith(b"POST http://provider.test/v1/chat/completions HTTP/1.1\r\n")
