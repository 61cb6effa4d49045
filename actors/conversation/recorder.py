"""Writes each conversation's model traffic as a `script:` file, whenever one of its runs comes to rest."""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from pathlib import Path

import attrs
import trio

from stopgo.actors.errors import StartError
from stopgo.actors.events import AT_REST
from stopgo.actors.log.stored import PAGE
from stopgo.actors.models.recording import script_of
from stopgo.runtime.events import EventBus, Subscription
from stopgo.runtime.journal.protocol import Event, Journal

BUFFER = 4096
"""Events that may come while this task waits for its turn; it does nothing but note them."""

logger = logging.getLogger(__name__)


@attrs.define(eq=False)
class Recorder:
    """Keeps `folder/CONVERSATION.yaml` up to date. A file that cannot be written is a warning."""

    _folder: Path
    _journal: Journal
    _bus: EventBus
    _due: OrderedDict[str, None] = attrs.field(factory=OrderedDict)
    """Conversations whose file is behind, the oldest first."""
    _news: trio.Event = attrs.field(factory=trio.Event)
    _events: Subscription | None = None
    _all_noted: bool = False
    _finished: trio.Event = attrs.field(factory=trio.Event)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Record until `finish` is called. Raises `StartError` when there can be no such folder."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StartError(f"cannot record to {self._folder}: {error.strerror}") from error
        with self._bus.subscribe(None, BUFFER) as self._events:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._note, self._events)
                task_status.started()
                while self._due or not self._all_noted:
                    await self._news.wait()
                    self._news = trio.Event()
                    while self._due:
                        await self._write(self._due.popitem(last=False)[0])
        self._finished.set()

    async def finish(self) -> None:
        """Write what is still due, and record nothing further."""
        assert self._events is not None
        self._events.end()  # what it holds by now is still noted
        await self._finished.wait()

    async def _note(self, events: Subscription) -> None:
        async for event in events:
            if missed := events.take_missed():
                logger.warning("%d events were missed: recordings may lack the last replies", missed)
            if isinstance(event, Event) and event.type in AT_REST:
                self._due[event.stream] = None
                self._news.set()
        self._all_noted = True
        self._news.set()

    async def _write(self, conversation: str) -> None:
        history: list[Event] = []
        while True:
            page = await self._journal.events_since(conversation, history[-1].seq if history else 0, PAGE)
            history += page
            if len(page) < PAGE:
                break
        try:
            await trio.to_thread.run_sync(_replace, self._folder / f"{conversation}.yaml", history)
        except OSError as error:
            logger.warning("the recording of conversation %s was not written: %s", conversation, error)


def _replace(path: Path, history: list[Event]) -> None:
    text = script_of(history)
    if not text:
        return
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)
