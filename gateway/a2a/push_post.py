"""One notification to one address: resolved, checked, and sent to the very address that was checked."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import attrs
import trio

from .push_address import BadAddress, Target, is_allowed

if TYPE_CHECKING:
    import httpx2

TIMEOUT = 10.0
"""Seconds for an attempt, the look-up of the name included."""
CONNECT_TIMEOUT = 3.0
"""Seconds for one of the addresses of a name."""
MOST_ADDRESSES = 4
"""Of a name, that an attempt tries."""
MOST_AT_ONCE = 16
"""Attempts, of all notifications; as many checks of addresses that clients set."""

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""The IP addresses of a host. Raises `OSError` or `UnicodeError`."""


async def resolve(host: str, port: int) -> Sequence[str]:
    found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


class NotDelivered(Exception):
    """The text says why, without anything that the client gave; `again`: it may be of use to try again."""

    def __init__(self, why: str, *, again: bool) -> None:
        super().__init__(why)
        self.again = again


@attrs.define(eq=False)
class Post:
    """Close it with `aclose`.

    Nothing of the environment counts, such as the variables that name a proxy: it would resolve the name
    again. Redirects are not followed, cookies not kept, and no connection is used twice: a name must not be
    served over a connection that was checked for another.
    """

    to_private: bool
    resolve: Resolve = resolve
    _room: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(MOST_AT_ONCE))
    _room_to_check: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(MOST_AT_ONCE))
    """Separate, so that a check does not wait for slow receivers."""
    _transport: httpx2.AsyncHTTPTransport | None = None

    async def addresses(self, target: Target) -> Sequence[str]:
        """All of them are allowed.

        Raises:
            BadAddress: one is not.
            OSError, UnicodeError: the name cannot be resolved, at least now.
        """
        found = [target.host] if target.is_literal else await self.resolve(target.host, target.port)
        if not all(is_allowed(address, to_private=self.to_private) for address in found):
            raise BadAddress(
                "is of a private network or of this machine; `server.push_to_private` may allow that"
            )
        return found[:MOST_ADDRESSES]

    async def check(self, target: Target) -> None:
        """Refuse at once what no attempt would be sent to; a name that is not known yet may be later.

        Raises:
            BadAddress
        """
        if self.to_private and not target.is_literal:
            return
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
                status = await self._post(target, address, headers, body)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                continue
            except (httpx2.HTTPError, OSError) as error:
                raise NotDelivered(f"the connection failed ({type(error).__name__})", again=True) from error
            if 200 <= status < 300:
                return
            raise NotDelivered(f"it answered {status}", again=status >= 500 or status in (408, 429))
        raise NotDelivered("it cannot be reached", again=True)

    async def _post(self, target: Target, address: str, headers: Mapping[str, str], body: bytes) -> int:
        """The status; what else is in the answer is left unread."""
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
        return response.status_code

    def _open(self) -> httpx2.AsyncHTTPTransport:
        """Opened when it is first needed: the library takes its time to load."""
        if self._transport is None:
            import httpx2

            from ...actors.common.tls import trusted

            limits = httpx2.Limits(max_connections=MOST_AT_ONCE, max_keepalive_connections=0)
            self._transport = httpx2.AsyncHTTPTransport(verify=trusted(), limits=limits)
        return self._transport

    async def aclose(self) -> None:
        if self._transport is not None:
            await self._transport.aclose()
