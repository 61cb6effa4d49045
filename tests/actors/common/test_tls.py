"""Trusted certificates, and the reasons of failed connections."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
import trio

from stopgo.actors.common import tls
from stopgo.actors.common.tls import TlsUnusable, distrusted, trusted, why_unreached
from tests.authority import Authority
from tests.http_client import http_client


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def failure(url: str) -> httpx2.ConnectError:
    async with http_client(verify=trusted(), trust_env=False) as client:
        with pytest.raises(httpx2.ConnectError) as failed:
            await client.get(url)
    return failed.value


async def listening(nursery: trio.Nursery, context: ssl.SSLContext | None) -> int:
    """A server, over TLS or not, that closes what reaches it."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = listener.socket.getsockname()[1]

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            if context is None:
                await stream.receive_some()
                await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                return
            with pytest.raises(trio.BrokenResourceError):
                await trio.SSLStream(stream, context, server_side=True).do_handshake()

    nursery.start_soon(trio.serve_listeners, serve, [listener])
    return port


async def test_a_certificate_of_somebody_unknown(nursery: trio.Nursery, authority: Authority) -> None:
    error = await failure(f"https://localhost:{await listening(nursery, authority.server('localhost'))}")
    assert why_unreached(error) == (
        "its certificate is not trusted: unable to get local issuer certificate"
        " (SSL_CERT_FILE names the authorities to trust)"
    )
    assert distrusted(error)


async def test_a_certificate_for_another_name(
    nursery: trio.Nursery, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    error = await failure(f"https://localhost:{await listening(nursery, authority.server('other.test'))}")
    assert (why_unreached(error) or "").startswith(
        "its certificate is not trusted: Hostname mismatch, certificate is not valid for 'localhost'."
    )
    assert distrusted(error)


async def test_a_server_that_does_not_speak_tls(nursery: trio.Nursery) -> None:
    error = await failure(f"https://localhost:{await listening(nursery, None)}")
    assert why_unreached(error) == "TLS failed: wrong version number"
    assert not distrusted(error)


async def test_nobody_there() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    error = await failure(f"http://localhost:{port}")
    assert why_unreached(error) == "connection refused"
    assert not distrusted(error)


def raised_over(cause: BaseException) -> httpx2.ConnectError:
    error = httpx2.ConnectError("a text that quotes a key")
    error.__cause__ = cause
    return error


def circle() -> BaseException:
    first, second = ValueError(), ValueError()
    first.__cause__, second.__cause__ = second, first
    return first


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (socket.gaierror(-2, "Name or service not known"), "its name is not known"),
        (OSError("without a number"), None),
        (ExceptionGroup("", [OSError(113, "x"), OSError(111, "y")]), "no route to host"),
        (circle(), None),
    ],
)
def test_reason_is_the_text_of_the_system(cause: BaseException, reason: str | None) -> None:
    assert why_unreached(raised_over(cause)) == reason


def missing(folder: Path) -> Path:
    return folder / "absent.pem"


def no_certificate(folder: Path) -> Path:
    (folder / "notes.pem").write_text("nothing of the kind")
    return folder / "notes.pem"


def test_key_log_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Not the certificates, which are fine."""
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "absent" / "keys"))
    tls._load.cache_clear()
    with pytest.raises(TlsUnusable, match="the file of SSLKEYLOGFILE cannot be written: no such file"):
        trusted()


@pytest.mark.parametrize(
    ("file", "why"), [(missing, "no such file or directory"), (no_certificate, "no certificate or crl found")]
)
def test_authorities_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: Callable[[Path], Path], why: str
) -> None:
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(file(tmp_path)))
    with pytest.raises(TlsUnusable, match=f"^the certificates of SSL_CERT_FILE cannot be read: {why}$"):
        trusted()


def test_context_is_shared_until_the_authorities_change(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    first = trusted()
    assert trusted() is first
    os.utime(authority.file, ns=(0, 0))
    assert trusted() is not first
