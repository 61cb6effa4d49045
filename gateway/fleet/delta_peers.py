"""The connections to other members whose deltas are watched here (`delta_frames.py`).

One task looks for members that advertise a URL. Each of them gets a task that reads its stream and connects
again when it has ended, and one that tells it which conversations are watched here. Deltas that are lost on
the way are missing at the watchers; the events that follow have the whole text.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import attrs
import trio

from ...actors.agent.agent import Agent
from ...actors.common.errors import AgentError, StartError
from ...actors.common.sse_parser import EventTooLarge, SseParser
from ...actors.workers.delta_exchange import WantedDeltas
from ...runtime.journal.errors import JournalError
from ...runtime.json_text import dump
from ...runtime.restart import Backoff, Streak
from ..http.event_stream import cancel_when
from .delta_frames import address_of, as_body, decode
from .delta_source import DeltaSource
from .fleet_key import PROOF, FleetKey, is_proof

if TYPE_CHECKING:
    import httpx2

POLL_EVERY = 1.0
"""Seconds between two polls for members."""
TELL = 0.1
"""Seconds between two polls for conversations that are watched here."""
RECONNECTS = Backoff(first=0.2, limit=5.0, jitter=0.5, healthy=5.0)
CONNECT_TIMEOUT = 3.0
SILENCE = 45.0
"""Seconds without a byte after which a connection counts as lost. A comment comes every 15 seconds."""

log = logging.getLogger(__name__)


class PeerRefused(Exception):
    """A member has no deltas for this one. The text says why."""


@attrs.define(eq=False)
class DeltaPeers:
    _agent: Agent
    _key: FleetKey
    _client: httpx2.AsyncClient
    _connected: dict[str, trio.CancelScope] = attrs.field(factory=dict)
    """By URL."""

    async def run(self) -> None:
        """Read the deltas of all other members until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                try:
                    urls = await self._urls()
                except AgentError as error:
                    log.debug("could not look for nodes: %s", error)
                else:
                    for gone in self._connected.keys() - urls:
                        self._connected.pop(gone).cancel()
                    for url in urls - self._connected.keys():
                        scope = self._connected[url] = trio.CancelScope()
                        nursery.start_soon(self._keep, url, scope)
                await trio.sleep(POLL_EVERY)

    async def _urls(self) -> set[str]:
        """Of the other members that are alive."""
        members = [each for each in (await self._agent.fleet()).members if not each.is_this and each.seconds]
        return {each.process.url for each in members if each.process is not None and each.process.url}

    async def _keep(self, url: str, scope: trio.CancelScope) -> None:
        streak, level = Streak(RECONNECTS), logging.WARNING
        with scope:
            while True:
                began = trio.current_time()
                if (why := await self._connection(url)) is not None:
                    log.log(level, "there are no deltas of the node at %s: %s", url, why)
                    level = logging.DEBUG
                else:
                    level = logging.WARNING
                await trio.sleep(streak.fail(trio.current_time() - began))

    async def _connection(self, url: str) -> str | None:
        """Read deltas until the other member ends their stream. Returns why that failed, if it did."""
        import httpx2

        why = None
        try:
            await self._receive(url)
        except* (httpx2.HTTPError, httpx2.InvalidURL, JournalError, EventTooLarge, PeerRefused) as group:
            why = "; ".join(str(each) or type(each).__name__ for each in group.exceptions)
        return why

    async def _receive(self, url: str) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel_when, self._key.changed.wait, nursery.cancel_scope)
            await self._read(url, nursery)
            nursery.cancel_scope.cancel()

    async def _read(self, url: str, nursery: trio.Nursery) -> None:
        at = address_of(url, self._agent.member)
        headers, proof = self._key.sign("GET", at)
        async with self._client.stream("GET", at, headers=headers) as answer:
            if answer.status_code != 200:
                raise PeerRefused(f"it answers with HTTP {answer.status_code}")
            if not is_proof(answer.headers.get(PROOF, ""), proof):
                raise PeerRefused("it does not prove that it has the key of the fleet")
            nursery.start_soon(self._tell, at)
            parser = SseParser()
            async for chunk in answer.aiter_raw():
                for text in parser.texts(chunk):
                    if (delta := decode(text)) is not None:
                        await self._agent.delta_exchange.take(delta)

    async def _tell(self, at: str) -> None:
        told = WantedDeltas()
        while True:
            wanted = self._agent.delta_exchange.wanted()
            if wanted != told:
                body = dump(as_body(wanted)).encode()
                headers, _ = self._key.sign("PUT", at, body)
                answer = await self._client.put(at, content=body, headers=headers)
                if answer.status_code != 204:
                    raise PeerRefused(f"it answers with HTTP {answer.status_code}")
                told = wanted
            await trio.sleep(TELL)


@asynccontextmanager
async def exchange_deltas(agent: Agent, advertised: str | None) -> AsyncIterator[DeltaSource | None]:
    """Read the deltas of other members during the block. Yields the routes for theirs; None if no other
    process can open the journal, or knows where this one is. Others reach it by the URL `advertised`.

    Raises:
        StartError: the certificates of this machine cannot be read.
        JournalError
    """
    if not agent.followed_notes.are_shared:
        yield None
        return
    # Here, because they take long to import.
    import httpx2

    from ...actors.common.tls import TlsUnusable, trusted

    logging.getLogger("httpx2").setLevel(logging.WARNING)  # it logs every request
    try:
        context = trusted()
    except TlsUnusable as error:
        raise StartError(str(error)) from error
    key = await FleetKey.open(agent.followed_notes)
    client = httpx2.AsyncClient(
        verify=context,
        trust_env=False,
        follow_redirects=False,
        timeout=httpx2.Timeout(SILENCE, connect=CONNECT_TIMEOUT),
    )
    async with client, trio.open_nursery() as nursery:
        nursery.start_soon(DeltaPeers(agent, key, client).run)
        yield None if advertised is None else DeltaSource(agent, key, advertised)
        nursery.cancel_scope.cancel()
