"""One notification to one address, over real sockets: which addresses are connected to, and how."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trio
import trio.testing
import trustme

from stopgo.actors.common.bounded_post import MOST_AT_ONCE, NotDelivered, Post
from stopgo.actors.common.post_address import BadAddress, target_of
from tests.gateway.a2a.receiver import Receiver, open_receiver, resolving, until_blocked


@pytest.fixture
async def receiver(nursery: trio.Nursery) -> Receiver:
    return await open_receiver(nursery)


async def send(post: Post, url: str) -> None:
    try:
        await post.send(target_of(url), {"X-A2A-Notification-Token": "t"}, b"{}")
    finally:
        await post.aclose()


async def test_post_connects_to_the_checked_address(receiver: Receiver) -> None:
    """The second answer, if anybody asked for it, would lead elsewhere."""
    asked: list[str] = []
    post = Post(to_private=True, resolve=resolving(["127.0.0.1"], ["192.0.2.1"], asked=asked))
    await send(post, f"http://hooks.example:{receiver.port}/a?b")
    assert asked == ["hooks.example"]
    [got] = receiver.got
    assert got.head.startswith("POST /a?b HTTP/1.1\r\n")
    assert got.header("Host") == f"hooks.example:{receiver.port}"
    assert got.header("X-A2A-Notification-Token") == "t"


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["::ffff:127.0.0.1"], ["64:ff9b::7f00:1"]]
)
async def test_host_with_any_private_address_is_refused(receiver: Receiver, addresses: list[str]) -> None:
    post = Post(to_private=False, resolve=resolving(addresses))
    with pytest.raises(BadAddress, match="private network"):
        await post.check(target_of("https://hooks.example/"))
    with pytest.raises(NotDelivered, match="private network") as caught:
        await send(post, f"http://hooks.example:{receiver.port}/")
    assert not caught.value.again
    assert receiver.got == []


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "127.1", "localhost", "[::1]"])
async def test_every_spelling_of_loopback_is_refused(receiver: Receiver, host: str) -> None:
    """With the look-up of the system."""
    with pytest.raises(NotDelivered, match="private network"):
        await send(Post(to_private=False), f"http://{host}:{receiver.port}/")
    assert receiver.got == []


@pytest.mark.parametrize("host", ["169.254.169.254", "[fd00:ec2::254]", "2852039166", "0xa9.0xfe.43518"])
async def test_metadata_of_clouds_is_never_asked(host: str) -> None:
    """Numbers are resolved by the system, as `inet_aton` reads them."""
    post, target = Post(to_private=True), target_of(f"http://{host}/latest/meta-data")
    with pytest.raises(BadAddress, match="nothing is ever sent"):
        await post.check(target)
    with pytest.raises(NotDelivered, match="nothing is ever sent") as caught:
        await send(post, f"http://{host}/latest/meta-data")
    assert not caught.value.again


@pytest.mark.parametrize(
    "addresses", [["100.100.100.200"], ["10.0.0.1", "::ffff:169.254.169.254"], ["fe80::a9fe:a9fe%1"]]
)
async def test_name_that_resolves_to_metadata_is_refused_at_once(addresses: list[str]) -> None:
    post = Post(to_private=True, resolve=resolving(addresses))
    with pytest.raises(BadAddress, match="nothing is ever sent"):
        await post.check(target_of("https://hooks.example/"))
    with pytest.raises(NotDelivered, match="nothing is ever sent"):
        await send(post, "https://hooks.example/")


async def test_next_address_of_a_host_name_is_tried(receiver: Receiver) -> None:
    post = Post(to_private=True, resolve=resolving(["::1", "127.0.0.1"]))
    await send(post, f"http://hooks.example:{receiver.port}/a")
    assert len(receiver.got) == 1


async def test_unknown_host_name_is_retried() -> None:
    post = Post(to_private=False, resolve=resolving([]))
    await post.check(target_of("https://hooks.example/"))
    with pytest.raises(NotDelivered, match="its host name cannot be resolved") as caught:
        await send(post, "https://hooks.example/")
    assert caught.value.again


async def test_proxies_of_the_environment_are_ignored(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    await send(Post(to_private=True), receiver.url)
    assert receiver.got[0].head.startswith("POST /hook?key=1 ")


async def test_number_of_concurrent_posts_is_bounded(receiver: Receiver) -> None:
    receiver.hold = trio.Event()
    post = Post(to_private=True)
    async with trio.open_nursery() as nursery:
        for _ in range(MOST_AT_ONCE + 3):
            nursery.start_soon(post.send, target_of(receiver.url), {}, b"{}")
        await until_blocked(lambda: len(receiver.got) >= MOST_AT_ONCE)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert len(receiver.got) == MOST_AT_ONCE
        receiver.hold.set()
    assert len(receiver.got) == MOST_AT_ONCE + 3
    await post.aclose()


@pytest.mark.parametrize(("name", "is_trusted"), [("hooks.example", True), ("other.example", False)])
async def test_certificate_must_match_the_host_name(
    receiver: Receiver,
    nursery: trio.Nursery,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    is_trusted: bool,
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(context)
    asked_for: list[str | None] = []
    context.sni_callback = lambda _, server, __: asked_for.append(server)
    [listener] = await trio.open_ssl_over_tcp_listeners(0, context, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, receiver.serve, [listener])
    port = listener.transport_listener.socket.getsockname()[1]  # type: ignore[attr-defined]
    post = Post(to_private=True, resolve=resolving(["127.0.0.1"]))
    if is_trusted:
        await send(post, f"https://hooks.example:{port}/a")
    else:
        with pytest.raises(NotDelivered, match="it cannot be reached"):
            await send(post, f"https://hooks.example:{port}/a")
    assert asked_for == ["hooks.example"]
    assert len(receiver.got) == is_trusted
