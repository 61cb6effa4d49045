"""Records the model traffic of a conversation as a `script:` file whenever one of its runs comes to rest.

Played again, the script makes the same run, offline. A reply is matched by the place where it was given:
turn, node, iteration and call, and by the step only where these do not tell two replies apart. The script
keeps what was recorded of the replies, so no key, no bearer token and no header is ever in it.
"""

from __future__ import annotations

import logging
import os
import re
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import attrs
import trio
import yaml

from ...runtime.event_bus import EventBus, Subscription
from ...runtime.journal.errors import StreamDamaged
from ...runtime.journal.protocol import Event, Journal
from ..common.errors import StartError
from ..log import events as e
from ..log.outcomes import Replied, StepFailed, StepOutcome
from ..log.stored import pages
from ..models.messages import ToolCall

# ----------------------------------------------------------------- the text of a script, pure

_ITERATION = re.compile(r"@(\d+)\.[^@]*$")
"""Of the nearest loop, in the key of an execution."""
_BREAKS = re.compile("[\r\x85\u2028\u2029]")
_NUMBER = re.compile(r"\d+")
_TURN = re.compile(r"(\d+)/")
_MADE_HERE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The form of the ids of conversations."""


def script_of(history: Iterable[e.LogEvent | None]) -> str:
    """The text of the script file; empty when the models were asked nothing yet."""
    steps = [event for event in history if isinstance(event, e.StepFinished) and _was_said(event)]
    if not steps:
        return ""
    # Not as they came: branches that run side by side would make another file of the same conversation.
    steps.sort(key=lambda step: [int(part) for part in _NUMBER.findall(step.key)])
    where = [_where(step) for step in steps]
    times = Counter(_hashable(place) for place in where)
    replies = []
    for step, place in zip(steps, where, strict=True):
        if times[_hashable(place)] > 1:
            place["step"] = step.key
        replies.append({"when": place, **_reply(step.outcome)})
    return str(
        yaml.dump({"replies": replies}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    )


class _Dumper(yaml.SafeDumper):
    """Writes texts so that they are read again to the letter."""


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    # In plain style the library leaves these as they are, and then reads them as ends of lines.
    style = '"' if _BREAKS.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _was_said(step: e.StepFinished) -> bool:
    """Whether a model, and not a limit of ours, is behind the outcome."""
    match step.outcome:
        case Replied():
            return True
        case StepFailed(error=error):
            return step.kind == "model" and error.code == "model_error"
        case _:
            return False


def _where(step: e.StepFinished) -> dict[str, Any]:
    execution, _, call = step.key.rpartition(":")
    turn = _TURN.match(execution)
    assert turn is not None
    place: dict[str, Any] = {"turn": int(turn[1]), "node": step.node}
    iteration = _ITERATION.search(execution)
    if iteration is not None:
        place["iteration"] = int(iteration[1])
    place["call"] = int(call)
    return place


def _hashable(place: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(place.items())


def _reply(outcome: StepOutcome) -> dict[str, Any]:
    if isinstance(outcome, StepFailed):
        return {"error": {"message": outcome.error.message}}
    assert isinstance(outcome, Replied)
    reply: dict[str, Any] = {}
    if outcome.text or not outcome.tool_calls:
        reply["text"] = _literal(outcome.text)
    if outcome.tool_calls:
        reply["tool_calls"] = [_call(call) for call in outcome.tool_calls]
    used = {} if outcome.usage is None else attrs.asdict(outcome.usage)
    usage = {name: count for name, count in used.items() if name.endswith("_tokens") and count}
    if usage:
        reply["usage"] = usage
    return reply


def _call(call: ToolCall) -> dict[str, Any]:
    said = {"name": call.name, "arguments": _literal(call.arguments)}
    return said if call.problem is None else {**said, "problem": call.problem}


def _literal(value: Any) -> Any:
    """With `${`, which a script fills in, written as what it fills in with `${`."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, Mapping):
        return {key: _literal(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_literal(each) for each in value]
    return value


# ----------------------------------------------------------------- writing it

BUFFER = 4096
"""Events that may come while this task waits for its turn; it does nothing but note them."""

logger = logging.getLogger(__name__)


@attrs.define(eq=False)
class Recorder:
    """Keeps a file for each conversation up to date. A file that cannot be written is a warning."""

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
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            self._folder.mkdir(mode=0o700, exist_ok=True)
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
            if isinstance(event, Event) and event.type in e.AT_REST:
                self._due[event.stream] = None
                self._news.set()
        self._all_noted = True
        self._news.set()

    async def _write(self, conversation: str) -> None:
        history: list[e.LogEvent | None] = []
        try:
            async with aclosing(pages(self._journal, conversation)) as found:
                async for page in found:
                    history += (entry.event for entry in page)
            await trio.to_thread.run_sync(_replace, self._folder / file_name(conversation), history)
        except (OSError, StreamDamaged) as error:
            logger.warning("the recording of conversation %s was not written: %s", conversation, error)


def file_name(conversation: str) -> str:
    """The file of a conversation. A client of A2A may choose the id, and must not choose the name of a file
    that is there for another reason."""
    prefix = "" if _MADE_HERE.fullmatch(conversation) else "context-"
    return f"{prefix}{conversation}.yaml"


def _replace(path: Path, history: list[e.LogEvent | None]) -> None:
    text = script_of(history)
    if not text:
        return
    unfinished = path.with_suffix(".tmp")
    # For its owner alone. A link, or the rest of an earlier attempt, is not written to.
    unfinished.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with open(os.open(unfinished, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(unfinished, path)
