"""One attempt to post a notification, of A2A or of a channel, to an address that is checked.

The host name is resolved, all of its IP addresses are checked, and the request is sent to one of the checked
addresses, with the name in `Host` and in SNI. A name that resolves differently a moment later (DNS rebinding)
therefore gains nothing. For the same reason redirects are not followed, proxies of the environment are
ignored, and no connection is reused. Cookies are not kept.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import attrs
import trio

from .post_address import BadAddress, Target, is_allowed, reach_of

if TYPE_CHECKING:
    import httpx2

TIMEOUT = 10.0
"""Seconds for an attempt, including name resolution."""
CONNECT_TIMEOUT = 3.0
"""Seconds to connect to one address."""
MOST_ADDRESSES = 4
"""Maximum number of addresses of a name that an attempt tries."""
MOST_AT_ONCE = 16
"""Maximum number of concurrent attempts, and of concurrent checks of new addresses."""

ResolveHost: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The IP addresses of a host. Raises `OSError` or `UnicodeError`."""


async def resolve(host: str, port: int) -> Sequence[str]:
    found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


class NotDelivered(Exception):
    """A failed attempt. The text quotes nothing that the client sent. `again`: a retry may succeed."""

    def __init__(self, why: str, *, again: bool, status: int = 0, retry_after: float | None = None) -> None:
        super().__init__(why)
        self.again = again
        self.status = status
        """Of the answer; 0 without one."""
        self.retry_after = retry_after
        """The seconds that the answer asks to wait."""


def _seconds(retry_after: str | None) -> float | None:
    """A `Retry-After` in seconds; None for a date, which is rare."""
    return float(retry_after) if retry_after is not None and re.fullmatch("[0-9]{1,6}", retry_after) else None


@attrs.define(eq=False)
class Post:
    """Sends notifications. Close it with `aclose`."""

    to_private: bool
    resolve: ResolveHost = resolve
    setting: str = "server.push_to_private"
    """The key of the agent file for `to_private`, for errors."""
    _room: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(MOST_AT_ONCE))
    _room_to_check: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(MOST_AT_ONCE))
    """Separate, so that checks do not wait for slow receivers."""
    _transport: httpx2.AsyncHTTPTransport | None = None

    async def addresses(self, target: Target) -> Sequence[str]:
        """The checked IP addresses of a host.

        Raises:
            BadAddress: one of them is not allowed.
            OSError, UnicodeError: the name cannot be resolved at present.
        """
        found = [target.host] if target.is_literal else await self.resolve(target.host, target.port)
        if any(reach_of(address) == "never" for address in found):
            raise BadAddress("is one to which nothing is ever sent, such as those of a cloud's credentials")
        if not all(is_allowed(address, to_private=self.to_private) for address in found):
            raise BadAddress(f"is of a private network or of this machine; `{self.setting}` may allow that")
        return found[:MOST_ADDRESSES]

    async def check(self, target: Target) -> None:
        """Refuse an address to which no attempt would be sent. An unknown name passes, because it may become
        known later.

        Raises:
            BadAddress
        """
        async with self._room_to_check:
            with trio.move_on_after(TIMEOUT):
                try:
                    await self.addresses(target)
                except (OSError, UnicodeError):
                    return

    async def send(self, target: Target, headers: Mapping[str, str], body: bytes) -> None:
        """Raises `NotDelivered`."""
        async with self._room:
            with trio.move_on_after(TIMEOUT) as limit:
                await self._send(target, headers, body)
        if limit.cancelled_caught:
            raise NotDelivered(f"no answer within {TIMEOUT:g} s", again=True)

    async def _send(self, target: Target, headers: Mapping[str, str], body: bytes) -> None:
        import httpx2

        try:
            addresses = await self.addresses(target)
        except BadAddress as error:
            raise NotDelivered(f"its address {error}", again=False) from error
        except (OSError, UnicodeError) as error:
            raise NotDelivered("its host name cannot be resolved", again=True) from error
        for address in addresses:
            try:
                status, retry_after = await self._post(target, address, headers, body)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
            except (httpx2.HTTPError, OSError) as error:
                raise NotDelivered(f"the connection failed ({type(error).__name__})", again=True) from error
            if 200 <= status < 300:
                return
            again = status >= 500 or status in (408, 429)
            raise NotDelivered(
                f"it answered {status}", again=again, status=status, retry_after=_seconds(retry_after)
            )
        raise NotDelivered("it cannot be reached", again=True)

    async def _post(
        self, target: Target, address: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, str | None]:
        """The status of the answer, and its `Retry-After`; its body is not read."""
        import httpx2

        timeout = {"connect": CONNECT_TIMEOUT, "read": TIMEOUT, "write": TIMEOUT, "pool": TIMEOUT}
        extensions: dict[str, object] = {"timeout": timeout}
        if not target.is_literal:
            extensions["sni_hostname"] = target.host.rstrip(".")
        request = httpx2.Request(
            "POST",
            target.at(address),
            headers={"Host": target.host_header, **headers},
            content=body,
            extensions=extensions,
        )
        response = await self._open().handle_async_request(request)
        await response.aclose()
        return response.status_code, response.headers.get("Retry-After")

    def _open(self) -> httpx2.AsyncHTTPTransport:
        """The transport, opened on first use because the library is slow to import."""
        if self._transport is None:
            import httpx2

            from .tls import trusted

            limits = httpx2.Limits(max_connections=MOST_AT_ONCE, max_keepalive_connections=0)
            self._transport = httpx2.AsyncHTTPTransport(verify=trusted(), limits=limits)
        return self._transport

    async def aclose(self) -> None:
        if self._transport is not None:
            await self._transport.aclose()
