"""Connections to providers: when one is kept, used again, waited for and closed."""

from __future__ import annotations

import h11
import httpx2
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stopgo.actors.common.tls import trusted
from stopgo.actors.models.providers.client import ModelClient, open_client
from stopgo.actors.models.providers.direct_http import KEPT, DirectTransport
from tests.http_client import http_client
from tests.waiting import until

from .conftest import Piece, Provider, Wait, chunk, events, head, whole

OK: list[Piece] = [*whole({})]


async def post(client: ModelClient, url: str, content: bytes = b"{}") -> httpx2.Response:
    return await client.get().post(url, content=content)


@pytest.fixture
async def elsewhere(provider: Provider, nursery: trio.Nursery) -> str:
    """Another address of the provider."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, provider.serve, [listener])
    return f"http://127.0.0.1:{listener.socket.getsockname()[1]}"


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 2"])
async def test_a_request_that_was_sent_is_not_sent_again(
    client: ModelClient, provider: Provider, begun: bytes
) -> None:
    """The kept connection breaks after the provider has read the request."""
    broken: list[Piece] = [begun]
    provider.answers = [OK, broken, OK]
    await post(client, provider.url)
    with pytest.raises((httpx2.RemoteProtocolError, httpx2.ReadError)):
        await post(client, provider.url)
    assert (len(provider.heads), provider.connections) == (2, 1)


async def test_a_connection_that_the_provider_closed_is_not_used(
    client: ModelClient, provider: Provider
) -> None:
    closed: list[Piece] = [head(content_length=2, connection="close") + b"{}"]
    provider.answers = [closed, OK, OK]
    for _ in range(3):
        assert (await post(client, provider.url)).status_code == 200
    assert provider.connections == 2


@pytest.mark.parametrize("together", [True, False])
async def test_bytes_after_an_answer_are_not_the_next_answer(
    client: ModelClient, provider: Provider, together: bool
) -> None:
    (first,) = whole({"answer": 1})
    (nobodys,) = whole({"answer": "of nobody"})
    assert isinstance(first, bytes)
    assert isinstance(nobodys, bytes)
    asked = trio.Event()
    pieces: list[Piece] = [first + nobodys] if together else [first, Wait(asked), nobodys]
    provider.answers = [[*pieces, Wait()], whole({"answer": 2})]
    assert (await post(client, provider.url)).json() == {"answer": 1}
    asked.set()
    await wait_all_tasks_blocked()
    assert (await post(client, provider.url)).json() == {"answer": 2}
    assert provider.connections == 2


async def test_an_idle_connection_is_kept_for_seconds(
    client: ModelClient, provider: Provider, mock_clock: MockClock
) -> None:
    provider.answers = [OK, OK, OK]
    await post(client, provider.url)
    mock_clock.jump(KEPT - 1)
    await post(client, provider.url)
    assert provider.connections == 1
    mock_clock.jump(KEPT)
    await post(client, provider.url)
    assert provider.connections == 2


async def test_requests_wait_for_a_connection_in_their_order(provider: Provider) -> None:
    answering = [trio.Event() for _ in range(4)]
    provider.answers = [[Wait(event), *OK] for event in answering]
    async with open_client(max_connections=2) as client, trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(post, client, f"{provider.url}/{number}")
            await wait_all_tasks_blocked()
        await until(lambda: len(provider.heads) == 2)
        answering[0].set()
        await until(lambda: len(provider.heads) == 3)
        answering[1].set()
        await until(lambda: len(provider.heads) == 4)
        for event in answering:
            event.set()
    asked = [found.split()[1] for found in provider.heads]
    assert (sorted(asked[:2]), asked[2:]) == ([b"/0", b"/1"], [b"/2", b"/3"])
    assert provider.connections == 2


async def test_an_idle_connection_makes_room_for_another_address(provider: Provider, elsewhere: str) -> None:
    provider.answers = [OK, OK, OK]
    async with open_client(max_connections=1) as client:
        await post(client, provider.url)
        await post(client, elsewhere)
        await provider.gone.wait()
        await post(client, elsewhere)
    assert provider.connections == 2


@pytest.mark.parametrize("left", ["in the queue", "connecting", "before the head", "in the body"])
async def test_a_request_that_is_left_gives_its_place_back(provider: Provider, left: str) -> None:
    stuck: dict[str, list[Piece]] = {
        "before the head": [Wait()],
        "in the body": [head(content_length=100), Wait()],
    }
    goes_on = trio.Event()
    provider.answers = [stuck.get(left, [Wait(goes_on), *OK]), OK]
    async with open_client(max_connections=1) as client, trio.open_nursery() as nursery:
        if left == "in the queue":
            nursery.start_soon(post, client, provider.url)
            await until(lambda: len(provider.heads) == 1)
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as inner:
                inner.start_soon(post, client, provider.url)
                if left != "connecting":
                    await until(lambda: len(provider.heads) == 1)
                    await wait_all_tasks_blocked()
                scope.cancel()
        goes_on.set()
        assert (await post(client, provider.url)).status_code == 200


class Broken:
    """A stream to which nothing can be sent any more once it has the request."""

    def __init__(self, inner: trio.SocketStream) -> None:
        self.socket, self.receive_some, self._send = inner.socket, inner.receive_some, inner.send_all

    async def send_all(self, data: bytes) -> None:
        await self._send(data)
        raise trio.BrokenResourceError


async def test_a_request_may_be_refused_before_its_end(
    client: ModelClient, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer is read, and its connection not kept."""
    connect = trio.open_tcp_stream

    async def broken(host: str, port: int) -> Broken:
        return Broken(await connect(host, port))

    monkeypatch.setattr(trio, "open_tcp_stream", broken)
    provider.answers = [whole({}, 413), whole({}, 413)]
    for _ in range(2):
        assert (await post(client, provider.url)).status_code == 413
    assert (len(provider.heads), provider.connections) == (2, 2)


async def test_what_came_before_a_fault_counts(client: ModelClient, provider: Provider) -> None:
    """In the same bytes as the fault."""
    provider.answers = [[head(transfer_encoding="chunked") + chunk(b"first") + b"no length\r\n"]]
    async with client.get().stream("POST", provider.url, content=b"{}") as response:
        parts = response.aiter_raw()
        assert await anext(parts) == b"first"
        with pytest.raises(httpx2.RemoteProtocolError):
            await anext(parts)


async def test_interim_answers_are_passed_over(client: ModelClient, provider: Provider) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
    provider.answers = [[interim, *whole({"answer": 1})]]
    assert (await post(client, provider.url)).json() == {"answer": 1}


async def test_chunks_that_arrive_together_are_read_at_once(client: ModelClient, provider: Provider) -> None:
    pieces = [piece for piece in events(*"abc") if isinstance(piece, bytes)]
    provider.answers = [[b"".join(pieces)]]
    async with client.get().stream("POST", provider.url, content=b"{}") as response:
        assert len([part async for part in response.aiter_raw()]) <= 2  # a segment may be cut by TCP
    assert provider.connections == 1


async def test_connecting_takes_no_longer_than_its_limit(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    async def silent(*_: object) -> trio.SocketStream:
        await trio.sleep_forever()
        raise AssertionError

    monkeypatch.setattr(trio, "open_tcp_stream", silent)
    transport = DirectTransport(1, trusted(), 10.0)
    async with http_client(transport=transport) as client:
        for _ in range(2):  # the first one has given its place back
            with pytest.raises(httpx2.ConnectTimeout):
                await client.post("http://provider.test/")
    assert trio.current_time() >= 20


@pytest.mark.parametrize("scheme", ["ftp", "ws"])
async def test_other_schemes_are_refused(client: ModelClient, scheme: str) -> None:
    with pytest.raises(httpx2.UnsupportedProtocol):
        await post(client, f"{scheme}://127.0.0.1/")


@pytest.mark.parametrize("host", ["api..provider.test", f"{'a' * 64}.test"])
async def test_a_name_that_no_host_can_have_is_not_reached(client: ModelClient, host: str) -> None:
    with pytest.raises(httpx2.ConnectError):
        await post(client, f"https://{host}/")


async def test_an_invalid_header_is_not_sent(client: ModelClient, provider: Provider) -> None:
    with pytest.raises(httpx2.LocalProtocolError) as raised:
        await client.get().post(provider.url, headers={"x-key": "a\nb: c"})
    assert isinstance(raised.value.__cause__, h11.LocalProtocolError)
    assert provider.heads == []


async def test_an_answer_that_is_left_after_the_client_closes_its_connection(provider: Provider) -> None:
    client = ModelClient(max_connections=1)
    provider.answers = [OK]
    async with client.get().stream("POST", provider.url, content=b"{}") as response:
        await response.aread()
        await client.aclose()
    await provider.gone.wait()
