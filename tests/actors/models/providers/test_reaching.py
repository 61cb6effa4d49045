"""The way to a provider: TLS, and the proxies of the environment."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from stopgo.actors.models.messages.errors import ModelUnusable
from stopgo.actors.models.messages.messages import unheard
from stopgo.actors.models.providers.client import ModelClient
from tests.authority import Authority

from .conftest import HELLO_OPENAI, Hello, Piece, Provider, Wait, failure, head, opened, request, whole


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


async def test_bytes_after_an_answer_over_tls_are_not_the_next_answer(
    secure: Provider, client: ModelClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have left the socket with the answer, but are not yet deciphered."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    record = 16 * 1024  # the most bytes of one
    body = b'"' + b"a" * 9_998 + b'"'
    (first,) = whole(body, pad="b" * (record - len(head(content_length=10_000, pad="")) - len(body)))
    (nobodys,) = whole({"answer": "of nobody"})
    assert isinstance(first, bytes)
    assert isinstance(nobodys, bytes)
    assert len(first) == record
    secure.answers = [[first + nobodys, Wait()], whole({"answer": 2})]
    answers = [(await client.get().post(secure.url, content=b"{}")).json() for _ in range(2)]
    assert answers == ["a" * 9_998, {"answer": 2}]
    assert secure.connections == 2


async def test_a_long_request_may_be_refused_over_tls_before_its_end(
    nursery: trio.Nursery, client: ModelClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is there although the rest of the request cannot be sent."""

    async def refuse(stream: trio.SSLStream[trio.SocketStream]) -> None:
        await stream.receive_some()
        await stream.send_all(head(413, content_length=2) + b"{}")
        await trio.aclose_forcefully(stream)

    context = Authority(tmp_path).server("localhost")
    (plain,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, refuse, [trio.SSLListener(plain, context)])
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    url = f"https://localhost:{plain.socket.getsockname()[1]}/"
    for _ in range(2):  # the connection is not kept
        assert (await client.get().post(url, content=bytes(8_000_000))).status_code == 413


async def test_an_answer_that_was_cut_is_not_taken_for_a_whole_one(
    secure: Provider, client: ModelClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hello: Hello
) -> None:
    """It ends with its connection, whose end TLS has to announce."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    cut: list[Piece] = [head() + b'{"choices": [']
    secure.answers = [cut]
    failed = await failure(opened(hello.kind, secure.url, client, tmp_path, monkeypatch))
    assert (failed.retryable, "broke" in str(failed)) == (True, True)


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
